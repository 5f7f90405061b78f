// What went wrong on the way to a machine, in words that a person can act on.

import type { SshEndpoint } from "../domain/endpoint.ts";

/** Text of another program or of the other side, fit for one line of a message. */
export function oneLine(text: string, charsMax = 300): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, " ").trim();
  return line.length > charsMax ? `${line.slice(0, charsMax)}…` : line;
}

/** What ssh2 says of a connection that was accepted and closed without a word. */
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
      return `there is no route to ${host}`;
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
  return `${host} port ${port}: ${oneLine(message)}`;
}

const noAnswer = ({ host, port }: SshEndpoint, ms: number): string =>
  `no answer from ${host} port ${port} within ${Math.ceil(ms / 1000)} s (it may still boot, or a firewall drops port ${port})`;
