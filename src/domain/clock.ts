// Time as the parts of the control plane receive it; tests put a virtual clock in its place.

import { abortReason } from "./abort-reason.ts";

/** A timer that has not fired. */
export interface TimerHandle {
  /** Guarantees that the function is not called any more; cancelling twice, or after the call, does nothing. */
  cancel(): void;
  /** A process may end although this timer waits. */
  unref?(): void;
}

export interface Clock {
  /** Milliseconds since the epoch. May jump either way when the user or the network sets the clock. */
  readonly now: () => number;
  /** Milliseconds from an arbitrary origin. Never goes back; may stand still while the computer sleeps. */
  readonly monotonic: () => number;
  /**
   * Calls `fn` once, no sooner than after `ms`. Any length works: waits longer than the platform's maximum are chained.
   */
  readonly setTimer: (ms: number, fn: () => void) => TimerHandle;
}

/** Resolves after `ms`; rejects with the signal's reason if the signal aborts first. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortReason(signal));
    const leave = (): void => {
      timer.cancel();
      reject(signal?.reason as Error);
    };
    const timer = clock.setTimer(ms, () => {
      signal?.removeEventListener("abort", leave);
      resolve();
    });
    signal?.addEventListener("abort", leave, { once: true });
  });
}

/** Node's timers take 32 bits; a longer delay would fire at once. */
const DELAY_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(ms, fn) {
    let left = Math.max(0, ms);
    let unreferenced = false;
    let timer: NodeJS.Timeout;
    const wait = (): void => {
      const part = Math.min(left, DELAY_MS_MAX);
      left -= part;
      timer = setTimeout(() => (left > 0 ? wait() : fn()), part);
      if (unreferenced) timer.unref();
    };
    wait();
    return {
      cancel: () => clearTimeout(timer),
      unref: () => {
        unreferenced = true;
        timer.unref();
      },
    };
  },
};
