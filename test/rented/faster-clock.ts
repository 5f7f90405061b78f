// Time that runs faster, for a control plane and its simulated provider alike, from one common beginning: a later life of the
// control plane finds the clock where the earlier one would have it by now.

import { systemClock, type Clock } from "../../src/domain/clock.ts";

export function fasterClock(startMs: number, factor: number): Clock {
  return {
    now: () => Math.round(startMs + (Date.now() - startMs) * factor),
    monotonic: () => systemClock.monotonic() * factor,
    setTimer: (ms, fn) => systemClock.setTimer(ms / factor, fn),
  };
}
