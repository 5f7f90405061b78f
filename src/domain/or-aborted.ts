/**
 * What was promised, or the signal's reason where that comes first. For an answer that others wait for, too: it goes on, and that it
 * fails after everybody left counts as heard.
 */
export function orAborted<T>(promised: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promised;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promised.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
