/** What one caller may take. Everything that waits or grows in the API has its bound here; tests set smaller ones. */
export interface Limits {
  /** Largest request body. */
  bodyBytesMax: number;
  /** A request must be whole after this long, its headers sooner. */
  requestTimeoutMs: number;
  headersTimeoutMs: number;
  /** An idle connection is kept for this long. A caller that keeps connections is told, and closes its side before. */
  keepAliveMs: number;
  /** How often Node looks for requests that are late. */
  lateCheckMs: number;
  /** Above this many connections callers are told to come back (503); at twice as many they are cut. */
  connectionsMax: number;
  /** A live event reader that leaves more than this unread is closed with 1013. */
  socketBufferBytesMax: number;
  /** A reader that takes nothing for this long, in replay or after it was told to go, is cut. */
  socketStallMs: number;
  /** Interval of pings; a socket that did not answer the last one is cut. */
  pingMs: number;
}

export const LIMITS: Limits = {
  bodyBytesMax: 1024 * 1024,
  requestTimeoutMs: 30_000,
  headersTimeoutMs: 10_000,
  // Node's five seconds are too short: on a busy computer a caller still sent its next request when the server had just closed.
  keepAliveMs: 75_000,
  lateCheckMs: 2_000,
  connectionsMax: 256,
  socketBufferBytesMax: 1024 * 1024,
  socketStallMs: 10_000,
  pingMs: 30_000,
};
