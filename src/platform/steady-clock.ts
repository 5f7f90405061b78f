// The control plane's own time: wall time at start plus the time that really passed, sleep included. A user who sets
// the clock, or a time server that corrects it by hours, moves no deadline and no bill; a laptop's sleep counts as
// time.

import { readFileSync } from "node:fs";
import { systemClock, type Clock } from "../domain/clock.ts";

/** How often the clock checks for sleep. */
const LOOK_EVERY_MS = 2_000;
/** Smaller differences come from the resolution of the clocks. */
const SLEPT_MS_MIN = 1_000;

/** Milliseconds since boot, sleep included; null where the system does not say. */
function sinceBootMs(): number | null {
  try {
    return Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * 1000;
  } catch {
    return null;
  }
}

export function steadyClock(): Clock {
  const wall = Date.now();
  const monotonic = performance.now();
  const boot = sinceBootMs();
  let sleptMs = 0;
  const look = (): void => {
    const counted = performance.now() - monotonic;
    const up = boot === null ? null : sinceBootMs();
    // Without a boot clock a forward jump of wall time counts as sleep: the next probe detects a deadline that fired
    // too early.
    const real = up !== null && boot !== null ? up - boot : Date.now() - wall;
    if (real - counted - sleptMs > SLEPT_MS_MIN) sleptMs = real - counted;
  };
  setInterval(look, LOOK_EVERY_MS).unref();
  return {
    now: () => Math.round(wall + performance.now() - monotonic + sleptMs),
    monotonic: systemClock.monotonic,
    setTimer: systemClock.setTimer,
  };
}
