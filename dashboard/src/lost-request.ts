// A change of the computer's network, such as a VPN or another interface, fails the requests that are under way. The live
// connection may stay, and then nothing else tells the page to read again.

import pRetry from "p-retry";

/** After 0.25, 0.5, 1 and 2 s: longer than such changes last. */
const AGAIN = { retries: 4, minTimeout: 250, factor: 2 };

/** Whether there was no answer, or only a part of one. */
const isLost = (error: unknown): boolean =>
  error instanceof TypeError || (error as { unreachable?: boolean }).unreachable === true;

/** Reads, and reads again if the request is lost. `read` must change nothing. Rejects with the last error, or with the reason of `signal`. */
export const despiteLoss = <T>(read: () => Promise<T>, signal?: AbortSignal): Promise<T> =>
  pRetry(read, { ...AGAIN, shouldRetry: ({ error }) => isLost(error), ...(signal ? { signal } : {}) });
