// Describes failures on the way to a machine in words that a person can act on.

import type { SshEndpoint } from "../domain/endpoint.ts";
import { oneLine } from "../domain/terminal-text.ts";

const CHARS_MAX = 300;

/** Reasons for `machine_unfit` that another attempt would not change. */
export const READ_ONLY = "its disk is read-only";
export const FILE_LIMIT =
  "its user may write only small files, by a limit of its login (`ulimit -f`); raise it there, for example in /etc/security/limits.conf";

/** A message of another program or of the machine, as one line that is short enough to quote. */
export const shortLine = (text: string): string => oneLine(text, CHARS_MAX);

/** How a command on the machine ended, as text that follows "ended with", and what it said. */
export function howEnded(done: { code: number | null; signal: string | null; stderr: Buffer }): string {
  const said = shortLine(done.stderr.toString("utf8"));
  // sshd has a name for a few signals only, and sends `SIG@openssh.com` for the others.
  const how = done.code ?? (done.signal?.includes("@") ? "a signal that sshd does not name" : done.signal);
  return said === "" ? `${how}` : `${how}: ${said}`;
}

/** ssh2's message for a connection that was accepted and closed without a word. */
export const NO_HANDSHAKE = "Connection lost before handshake";

/** Why a connection could not be made, or ended. */
export function whyUnreachable(thrown: unknown, endpoint: SshEndpoint, readyMs: number): string {
  const { host, port } = endpoint;
  const e = thrown as { code?: unknown; level?: unknown; message?: unknown };
  const message = typeof e.message === "string" ? e.message : String(thrown);
  switch (e.code) {
    case "ECONNREFUSED":
      return `connection refused by ${host} port ${port}`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
    case "EAI_FAIL":
      return `the name ${host} cannot be resolved`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "EADDRNOTAVAIL":
      return `no route to ${host}`;
    case "ECONNRESET":
    case "EPIPE":
      return `${host} port ${port} cut the connection`;
    case "ETIMEDOUT":
      return noAnswer(endpoint, readyMs);
    default:
  }
  if (e.level === "client-timeout") return noAnswer(endpoint, readyMs);
  if (message === NO_HANDSHAKE) {
    return `${host} port ${port} accepts connections and hangs up before SSH begins`;
  }
  return `${host} port ${port}: ${shortLine(message)}`;
}

const noAnswer = ({ host, port }: SshEndpoint, ms: number): string =>
  `no answer from ${host} port ${port} within ${Math.ceil(ms / 1000)} s (it may still boot, or a firewall drops port ${port})`;
