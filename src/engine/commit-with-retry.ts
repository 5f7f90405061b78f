// Retries writes that record external effects: a full or failing disk may only delay them.

import { pause, type Clock } from "../domain/clock.ts";
import { asSvcError, type ErrorCode, type SvcError } from "../errors/index.ts";

/** The first delay between two tries, and the longest. */
const REWRITE_MS = 1_000;
const REWRITE_MS_MAX = 30_000;
/** Failures that may pass, by themselves or by a user's action. A stale writer's refusal never does. */
const PASSING: ReadonlySet<ErrorCode> = new Set(["disk_full", "store_failing", "home_unusable", "internal_error"]);

/**
 * Retries the write until it succeeds. Throws failures that cannot pass; reports the others to `failed`, which decides
 * whether to continue.
 */
export async function commitWithRetry<T>(
  write: () => Promise<T>,
  clock: Clock,
  failed: (error: SvcError) => boolean,
): Promise<T> {
  for (let wait = REWRITE_MS; ; wait = Math.min(2 * wait, REWRITE_MS_MAX)) {
    try {
      return await write();
    } catch (e) {
      const error = asSvcError(e);
      if (!PASSING.has(error.code) || !failed(error)) throw e;
      if (error.code === "disk_full") wait = REWRITE_MS; // a user makes room, and then waits for the result
      await pause(clock, wait);
    }
  }
}
