// Where sshd of a machine answers. What a provider says of it reaches command lines and sockets, so nothing gets through here
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
  /** A command of the owner's own configuration whose standard streams lead to sshd; never from a provider. */
  proxyCommand?: string;
  /** Connections through it are counted or limited: everything goes over one. */
  metered?: true;
}

/** The endpoint, trimmed, or null where any part of it is not what such a part can be. */
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

/** Stands in a handle for an id that no id looks like. Never one that `idOf` lets through, so it is nobody's. */
export const ODD_ID = "-odd-";

/** By what a provider remembers a machine: its id, or its name where the id is none. */
export const memoryKey = ({ id, name }: { id: string; name: string }): string =>
  id === ODD_ID ? `${ODD_ID} ${name}` : id;

/**
 * An id that no id looks like, as text: only for ending, by an escaped part of a path or a variable, what bears it. Null where not
 * even that can be done.
 */
export function oddIdOf(value: unknown): string | null {
  const usable = typeof value === "string" && value.length > 0 && value.length <= 512 && value.isWellFormed();
  return usable && idOf(value) === null && value !== "." && value !== ".." ? value : null;
}
