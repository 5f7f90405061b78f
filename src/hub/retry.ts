// Retries within one pull. The pull's own record holds everything that must survive the process.

import { pause, type Clock } from "../domain/clock.ts";
import type { SvcError } from "../errors/index.ts";
import { Transient } from "./transfer.ts";

export interface Patience {
  /** Consecutive attempts without any gain. */
  attemptsMax: number;
  delayMsMin: number;
  delayMsMax: number;
  /** The longest wait that the server may request. */
  askedMsMax: number;
}

/** How long an unresponsive hub is retried: about a minute. The pull's note tells a waiting caller at once. */
export const UNHEARD_MS_MAX = 60_000;

export const PATIENCE: Patience = { attemptsMax: 8, delayMsMin: 500, delayMsMax: 30_000, askedMsMax: 10 * 60_000 };

export interface RetryOptions {
  clock: Clock;
  patience: Patience;
  signal: AbortSignal;
  /** Between 0 and 1: spreads the retries of many clients. */
  random: () => number;
  /** Grows with each gain; an attempt that gained something resets the count. */
  gained?: () => number;
  /** How long to retry a hub that never answered. Nothing was transferred by then, so giving up loses nothing. */
  unheardMsMax?: number;
  /** Called before each wait, and with null after it. */
  waiting?: (error: SvcError | null, ms: number) => void;
}

/** Calls `work` until it no longer throws `Transient`; after the last attempt throws the error inside of it. */
export async function persistently<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { patience, gained = () => 0, unheardMsMax = Infinity } = options;
  const began = options.clock.monotonic();
  let before = gained();
  for (let attempt = 1; ; attempt++) {
    options.signal.throwIfAborted();
    try {
      return await work();
    } catch (e) {
      if (!(e instanceof Transient)) throw e;
      if (gained() > before) attempt = 1;
      before = gained();
      if (attempt >= patience.attemptsMax || (e.waitMs ?? 0) > patience.askedMsMax) throw e.error;
      const grown = Math.min(patience.delayMsMax, patience.delayMsMin * 2 ** (attempt - 1));
      const ms = Math.max(e.waitMs ?? 0, grown * (0.5 + options.random() / 2));
      if (e.unheard && options.clock.monotonic() - began + ms > unheardMsMax) throw e.error;
      options.waiting?.(e.error, ms);
      await pause(options.clock, ms, options.signal);
      options.waiting?.(null, 0);
    }
  }
}
