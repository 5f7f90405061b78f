// Validates the address of a machine's sshd. A provider's answer reaches command lines and sockets, so nothing passes
// that could be an option, a path or a second word.

/** Names and IPv4 or IPv6 addresses: never begins with `-`, holds no space, slash, `@` or `%`. */
const HOST =
  /^(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
const IPV6 = /^(?=.{2,45}$)[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*$/;
const USER = /^[a-z_][a-z0-9_-]{0,31}$/;
/** Identifiers of machines and offers, as every provider we know writes them. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export interface SshEndpoint {
  host: string;
  port: number;
  user: string;
  /** A command from the owner's own configuration whose standard streams lead to sshd; never from a provider. */
  proxyCommand?: string;
  /** Connections through this endpoint are counted or limited: everything shares one connection. */
  metered?: true;
}

/** The endpoint, trimmed, or null where host, port or user is malformed. */
export function endpointOf(host: unknown, port: unknown, user: unknown): SshEndpoint | null {
  if (typeof host !== "string" || typeof user !== "string") return null;
  const name = host.trim();
  const number = typeof port === "string" && /^[0-9]{1,5}$/.test(port.trim()) ? Number(port) : port;
  if (!(HOST.test(name) || IPV6.test(name)) || !USER.test(user)) return null;
  if (typeof number !== "number" || !Number.isInteger(number) || number < 1 || number > 65_535) return null;
  return { host: name, port: number, user };
}

/** An id as a string that is safe in a path and on a command line, or null. */
export function idOf(value: unknown): string | null {
  const text = typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? String(value) : value;
  return typeof text === "string" && ID.test(text) ? text : null;
}

/** Replaces an unusable id in a handle. `idOf` never accepts this text, so no machine can have it. */
export const ODD_ID = "-odd-";

/** The key under which a provider remembers a machine: its id, or its name where the id is unusable. */
export const memoryKey = ({ id, name }: { id: string; name: string }): string =>
  id === ODD_ID ? `${ODD_ID} ${name}` : id;

/**
 * An id of an unexpected form, as text, used only to terminate the machine (as an escaped path part or a variable).
 * Null where even that is impossible.
 */
export function oddIdOf(value: unknown): string | null {
  const usable = typeof value === "string" && value.length > 0 && value.length <= 512 && value.isWellFormed();
  return usable && idOf(value) === null && value !== "." && value !== ".." ? value : null;
}
