import { abortReason } from "./abort-reason.ts";
/**
 * Settles like the given promise, or rejects early with the signal's reason when the signal aborts. The promise may be
 * shared: it keeps running, and a rejection after every caller has left counts as handled.
 */
export function orAborted<T>(promised: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promised;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(abortReason(signal));
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promised.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
