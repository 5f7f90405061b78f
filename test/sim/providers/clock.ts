import type { SimClock } from "./parts.ts";

/** Real time. Waiting does not keep the process alive. */
export function realClock(): SimClock {
  return scaledClock(1);
}

/** Time that runs `factor` times as fast: with 60, a minute of the provider passes in a second. */
export function scaledClock(factor: number, startMs = Date.now()): SimClock {
  return {
    now: () => startMs + (Date.now() - startMs) * factor,
    wait: (ms) =>
      new Promise((resolve) => {
        // Node fires a timer with a longer delay at once.
        setTimeout(resolve, Math.min(Math.max(ms / factor, 0), 2_147_483_647)).unref();
      }),
  };
}
