/** The result of work that several callers wait for; the signal of this one ends it. */
export async function unlessAborted<T>(
  { over, controller }: { over: Promise<T>; controller: AbortController },
  signal: AbortSignal | undefined,
): Promise<T> {
  const end = (): void => controller.abort(signal?.reason);
  if (signal?.aborted) end();
  signal?.addEventListener("abort", end, { once: true });
  try {
    return await over;
  } finally {
    signal?.removeEventListener("abort", end);
  }
}
