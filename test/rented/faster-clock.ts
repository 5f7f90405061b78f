// Time that runs faster, for a control plane and its simulated provider alike, from one common start: a restarted
// control plane finds the clock where it would be by now.

import { systemClock, type Clock } from "../../src/domain/clock.ts";

export function fasterClock(startMs: number, factor: number): Clock {
  return {
    now: () => Math.round(startMs + (Date.now() - startMs) * factor),
    monotonic: () => systemClock.monotonic() * factor,
    setTimer: (ms, fn) => systemClock.setTimer(ms / factor, fn),
  };
}
