// Parses the pasted address of a runtime: the line that the bootstrap cell prints, or any text with host and port.

import { endpointOf, type SshEndpoint } from "../../domain/endpoint.ts";
import { splitWords } from "../../domain/shell-words.ts";

export interface PastedEndpoint extends SshEndpoint {
  /** The host key of sshd there, in the form of known_hosts without the host: `ssh-ed25519 AAAA…`. */
  hostKey?: string;
}

/** The usual user of an image: the cell runs as root. */
const USER = "root";
const HOST_KEY = /^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]{40,2048}={0,2}$/;

/**
 * Understands `SVC-ENDPOINT {…}` (the last one, of a cell that was run again), its bare JSON, `tcp://host:port`,
 * `host:port`, `host port`, `user@host:port`, `ssh [-J jump] -p port user@host` and the line that a tunnel prints. Null
 * for everything else, and if a part of it is malformed.
 */
export function parseEndpoint(text: string): PastedEndpoint | null {
  const pasted = text.slice(-8_192).trim();
  const marked = [...pasted.matchAll(/SVC-ENDPOINT[ \t]*(\{[^\n]*\})/g)].at(-1)?.[1];
  const json = marked ?? (pasted.startsWith("{") ? pasted : null);
  if (json !== null) return ofJson(json);
  // A command is often copied with the prompt before it.
  const command = /^(?:[$#>]\s+)?ssh\s+(.*)$/s.exec(pasted)?.[1];
  if (command !== undefined) return ofCommand(splitWords(command) ?? []);
  const [, user = USER, six, host = six, port] =
    /^(?:(?:tcp|ssh):\/\/)?(?:([^@\s/]+)@)?(?:\[([^\]\s]+)\]|([^:\s/@]+))(?:\s*:\s*|\s+)([0-9]{1,5})\/?$/.exec(
      pasted,
    ) ?? [];
  return endpointOf(host, port, user) ?? ofTunnelLine(pasted);
}

/**
 * Parses the output of tunnels, with its surroundings: `Forwarding  tcp://4.tcp.eu.ngrok.io:17042 -> localhost:22` and
 * `url=tcp://…` of ngrok, `listening at bore.pub:40123` of bore, `tcp://name.a.free.pinggy.link:40527` of pinggy (seen:
 * their manuals, 2026), `Forwarding TCP connections from serveo.net:40123` of serveo. The last address counts: a restarted tunnel has another one.
 */
function ofTunnelLine(text: string): PastedEndpoint | null {
  const found = [
    ...text.matchAll(/(?:\btcp:\/\/|\blistening at |\bTCP connections from )([^\s:/@]+):([0-9]{1,5})(?![0-9:])/g),
  ].at(-1);
  return found === undefined ? null : endpointOf(found[1], found[2], USER);
}

/** A printed host key, without a comment; null if it is malformed. */
export function hostKeyOf(value: unknown): string | null {
  if (typeof value !== "string") return null;
  const key = value.trim().split(/\s+/).slice(0, 2).join(" ");
  return HOST_KEY.test(key) ? key : null;
}

function ofJson(text: string): PastedEndpoint | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  // Its members are checked one by one below.
  const of = value as Record<string, unknown>;
  const endpoint = endpointOf(of["host"], of["port"], of["user"] ?? of["ssh_user"] ?? USER);
  const given = of["hostKey"] ?? of["host_key"] ?? null;
  if (endpoint === null || given === null || given === "") return endpoint;
  const hostKey = hostKeyOf(given);
  // An unreadable pin must not become a missing pin.
  return hostKey === null ? null : { ...endpoint, hostKey };
}

/**
 * `ssh [-p PORT] [-l USER] [-J JUMP] [-o …] [USER@]HOST [-p PORT]`; every other option is ignored, and none is ever
 * used. Null if an option leads elsewhere in a way that is not supported here, such as `ProxyCommand`.
 */
function ofCommand(words: string[]): PastedEndpoint | null {
  let port = "22";
  let login = USER;
  let target: string | null = null;
  let jump: string | null = null;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? "";
    const [, letter, rest] = /^-([a-zA-Z46])(.*)$/.exec(word) ?? [];
    if (letter === undefined) {
      if (target !== null) return null;
      target = word;
    } else if ("oilJFpEcmbBDLRWwSQe".includes(letter)) {
      const value = rest || (words[++i] ?? "");
      if (letter === "p") port = value;
      if (letter === "l") login = value;
      if (letter === "J") jump = value;
      const [, name = "", set = ""] = /^\s*(\w+)\s*[=\s]\s*(.*)$/.exec(letter === "o" ? value : "") ?? [];
      const option = name.toLowerCase();
      if (/^(proxycommand|hostname)$/.test(option)) return null;
      if (option === "port") port = set;
      if (option === "user") login = set;
      if (option === "proxyjump") jump = set;
    }
  }
  const [, user = login, six, host = six] =
    /^(?:ssh:\/\/)?(?:([^@]+)@)?(?:\[([^\]]+)\]|(.+))$/.exec(target ?? "") ?? [];
  const endpoint = endpointOf(host, port, user);
  if (endpoint === null || jump === null) return endpoint;
  const proxyCommand = throughJump(jump);
  return proxyCommand === null ? null : { ...endpoint, proxyCommand };
}

/** `[USER@]HOST[:PORT]` of one machine, as a command of checked parts; null if a part is malformed. */
function throughJump(jump: string): string | null {
  const [, user, host, port = "22"] = /^(?:ssh:\/\/)?(?:([^@\s]+)@)?([^@:\s,]+)(?::([0-9]{1,5}))?$/.exec(jump) ?? [];
  const way = endpointOf(host, port, user ?? "root");
  if (way === null || way.host.startsWith("-")) return null;
  return `ssh -W [%h]:%p -p ${way.port} ${user === undefined ? "" : `${way.user}@`}${way.host}`;
}
