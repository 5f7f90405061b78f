// What has happened in the world must be written down: a disk that is full or fails for a while only delays it.

import { pause, type Clock } from "../domain/clock.ts";
import { asSvcError, type ErrorCode, type SvcError } from "../errors/index.ts";

/** The first wait between two tries, and the longest. */
const REWRITE_MS = 1_000;
const REWRITE_MS_MAX = 30_000;
/** What may pass by itself or by a person's hand. A stale writer's refusal never does. */
const PASSING: ReadonlySet<ErrorCode> = new Set(["disk_full", "store_failing", "home_unusable", "internal_error"]);

/** Writes until it is written. What cannot pass is thrown; of the rest `failed` hears, and says whether to go on. */
export async function surely<T>(
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
      if (error.code === "disk_full") wait = REWRITE_MS; // room is made by a person, who then waits
      await pause(clock, wait);
    }
  }
}
