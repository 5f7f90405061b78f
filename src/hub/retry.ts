// Trying again, within one pull. What must survive the process is the pull's own record.

import { pause, type Clock } from "../domain/clock.ts";
import type { SvcError } from "../errors/index.ts";
import { Transient } from "./transfer.ts";

export interface Patience {
  /** Tries in a row that brought nothing. */
  attemptsMax: number;
  delayMsMin: number;
  delayMsMax: number;
  /** Longest wait that the other side may ask for. */
  askedMsMax: number;
}

/** A hub that never answered is tried for about a minute. Who waits is told at once, by the pull's note. */
export const UNHEARD_MS_MAX = 60_000;

export const PATIENCE: Patience = { attemptsMax: 8, delayMsMin: 500, delayMsMax: 30_000, askedMsMax: 10 * 60_000 };

export interface RetryOptions {
  clock: Clock;
  patience: Patience;
  signal: AbortSignal;
  /** Between 0 and 1: spreads the tries of many. */
  random: () => number;
  /** Grows with what was gained; a try that gained something counts as the first. */
  gained?: () => number;
  /** How long a hub is tried that never answered. Nothing was transferred by then, so nothing is lost by giving up. */
  unheardMsMax?: number;
  /** Told before each wait, and with null after it. */
  waiting?: (error: SvcError | null, ms: number) => void;
}

/** Calls `work` until it does not throw `Transient`; at last throws the error inside of it. */
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
