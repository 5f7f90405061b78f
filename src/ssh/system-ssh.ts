// The arguments for OpenSSH's own client. It uses the same key and the same pins, and nothing of the user's
// configuration.

import type { SshEndpoint } from "../domain/endpoint.ts";
import { assert } from "../errors/assert.ts";
import type { HostKeyPins } from "./host-keys.ts";
import type { SshKey } from "./keys.ts";

export interface SystemSshOptions {
  machine: string;
  endpoint: SshEndpoint;
  key: SshKey;
  pins: HostKeyPins;
  /** A person uses it: ssh may prompt and show messages, and signal keys reach it. False by default. */
  interactive?: boolean;
}

/** Replaces the host name in rsync's arguments: rsync would split an IPv6 address. */
export const HOST_WORD = "machine";

/**
 * Arguments of `ssh`, the host last, `--` before it; a command may follow. The machine must have been reached before over an
 * `SshConnection`, which pins its host key: what is not pinned is refused.
 */
export function sshArguments({ machine, endpoint, key, pins, interactive = false }: SystemSshOptions): string[] {
  const options: Record<string, string> = {
    IdentitiesOnly: "yes",
    IdentityFile: file(key.path),
    IdentityAgent: key.agent === null ? "none" : file(key.agent),
    HostName: endpoint.host,
    HostKeyAlias: machine,
    UserKnownHostsFile: file(pins.file(machine)),
    GlobalKnownHostsFile: "none",
    StrictHostKeyChecking: "yes",
    UpdateHostKeys: "no",
    CheckHostIP: "no",
    VerifyHostKeyDNS: "no",
    PreferredAuthentications: "publickey",
    ForwardAgent: "no",
    ForwardX11: "no",
    PermitLocalCommand: "no",
    ClearAllForwardings: "yes",
    ControlMaster: "no",
    ControlPath: "none",
    ConnectTimeout: "10",
    ServerAliveInterval: "5",
    ServerAliveCountMax: "3",
    TCPKeepAlive: "yes",
    BatchMode: interactive ? "no" : "yes",
    LogLevel: "ERROR",
    ...(interactive ? {} : { EscapeChar: "none", RequestTTY: "no" }),
    ...(endpoint.proxyCommand === undefined ? {} : { ProxyCommand: endpoint.proxyCommand }),
  };
  return [
    "-F",
    "none",
    ...Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]),
    "-p",
    String(endpoint.port),
    "-l",
    endpoint.user,
    "--",
    HOST_WORD,
  ];
}

/**
 * The same arguments as one text, without the host, for rsync's `-e`, which splits it by its own rule: quotes group,
 * and a quote within them is doubled.
 */
export function sshForRsync(options: SystemSshOptions): string {
  const words = ["ssh", ...sshArguments(options).slice(0, -1)];
  return words
    .map((word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "''")}'`))
    .join(" ");
}

/** A path as the value of an option: one word, without any text that ssh would expand. */
function file(path: string): string {
  // oxlint-disable-next-line no-control-regex
  assert(path.startsWith("/") && !/[\u0000-\u001f]/.test(path), `ssh cannot use the path ${path}`);
  return `"${path.replaceAll("%", "%%").replaceAll(/(["\\])/g, "\\$1")}"`;
}
