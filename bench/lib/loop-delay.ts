// Loaded into a control plane before its own program: twice a second it writes the delay of the event loop into the
// file that SVC_BENCH_LOOP names. SIGUSR2 restarts the measurement.

import { renameSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

export interface LoopDelay {
  p50: number;
  p99: number;
  max: number;
}

const RESOLUTION_MS = 5;
const file = process.env["SVC_BENCH_LOOP"];

if (file !== undefined) {
  // Child processes are not measured.
  delete process.env["SVC_BENCH_LOOP"];
  delete process.env["NODE_OPTIONS"];
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  // The measured time is the whole time between two turns of a timer; the timer's own period does not count as delay.
  const ms = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  const write = (): void => {
    const found: LoopDelay = { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) };
    writeFileSync(`${file}.new`, JSON.stringify(found));
    renameSync(`${file}.new`, file);
  };
  setInterval(write, 500).unref();
  process.on("SIGUSR2", () => delay.reset());
}
