import { SvcError } from "../errors/index.ts";
import { neverSent } from "./http.ts";
import type { RemoteOptions } from "./remote.ts";

/** Longer waits belong to the engine: a step that throws is retried later. */
const SLOT_WAIT_MAX_MS = 10_000;

/**
 * Allows one call after the other, `minIntervalMs` apart, and none before the provider's requested delay has passed.
 */
export class RateLimiter {
  private readonly options: {
    provider: string;
    minIntervalMs: number;
    now: RemoteOptions["now"];
    pause: RemoteOptions["pause"];
    maxWaitMs?: number;
  };
  private nextAt = -Infinity;
  private lastNow = -Infinity;

  constructor(options: RateLimiter["options"]) {
    this.options = options;
  }

  /** Resolves when a call may be made. Throws `provider_error` at once if that would take more than 10 s. */
  async slot(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const { provider, minIntervalMs, pause, maxWaitMs = SLOT_WAIT_MAX_MS } = this.options;
    const now = this.now();
    const at = Math.max(now, this.nextAt);
    const wait = at - now;
    if (wait > maxWaitMs)
      throw neverSent(
        new SvcError("provider_error", {
          provider,
          why: `its rate limit is used up; the next request is allowed in ${Math.ceil(wait / 1000)} s`,
        }),
      );
    this.nextAt = at + minIntervalMs;
    if (wait > 0) await pause(wait, signal);
  }

  /** Allows no call for this long, as the provider requested. */
  hold(ms: number): void {
    const now = this.now();
    this.nextAt = Math.max(this.nextAt, now + ms);
  }

  /** If the clock was set back, the remaining wait is kept, not the instant. */
  private now(): number {
    const now = this.options.now();
    if (now < this.lastNow) this.nextAt -= this.lastNow - now;
    this.lastNow = now;
    return now;
  }
}
