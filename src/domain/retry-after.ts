/**
 * The delay in milliseconds that a `Retry-After` header asks for, in seconds or as a date; null if it has no such value. `nowMs` is the
 * time of the server that sent it, by its own `Date` header: clocks differ.
 */
export function retryAfter(text: string | undefined, nowMs: number): number | null {
  const after = text?.trim() ?? "";
  if (/^\d{1,9}(\.\d+)?$/.test(after)) return Number(after) * 1_000;
  const waitMs = after === "" ? Number.NaN : Date.parse(after) - nowMs;
  return Number.isNaN(waitMs) ? null : Math.max(0, waitMs);
}
