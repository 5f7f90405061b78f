/** Limits for one caller. Every wait and every buffer of the API has its bound here; tests set smaller ones. */
export interface Limits {
  /** Largest request body. */
  bodyBytesMax: number;
  /** A request must be complete after this time, its headers sooner. */
  requestTimeoutMs: number;
  headersTimeoutMs: number;
  /**
   * How long an idle connection stays open. Callers that keep connections learn the value, and close their side
   * earlier.
   */
  keepAliveMs: number;
  /** The rest of a request that was refused early is read and discarded up to these bounds, so that the caller reads the answer. */
  lingerBytesMax: number;
  lingerMs: number;
  /** How often Node checks for late requests. */
  lateCheckMs: number;
  /** Above this many connections callers receive 503; at twice as many they are cut. */
  connectionsMax: number;
  /** A live event reader that leaves more than this unread is closed with 1013. */
  socketBufferBytesMax: number;
  /** A reader that accepts nothing for this long, in replay or after a request to leave, is cut. */
  socketStallMs: number;
  /** Interval of pings; a socket that did not answer the last one is cut. */
  pingMs: number;
}

export const LIMITS: Limits = {
  bodyBytesMax: 1024 * 1024,
  requestTimeoutMs: 30_000,
  headersTimeoutMs: 10_000,
  // Node's default of five seconds is too short: on a busy computer a caller sent its next request when the server had
  // just closed.
  keepAliveMs: 75_000,
  lingerBytesMax: 64 * 1024 * 1024,
  lingerMs: 5_000,
  lateCheckMs: 2_000,
  connectionsMax: 256,
  socketBufferBytesMax: 1024 * 1024,
  socketStallMs: 10_000,
  pingMs: 30_000,
};
