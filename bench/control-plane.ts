// The control plane itself: how soon it answers, and its cost while nothing happens.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { withFolder } from "./lib/home.ts";
import { pause, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served, wholeProcess } from "./lib/served.ts";

const STARTS = 11;
/** By then the work of the start has ended: the first sweep, the reserved disk space, the compiler's work. */
const SETTLE_MS = 15_000;
const IDLE_ROUNDS = 3;
const IDLE_MS = 20_000;
const MB = 1_000_000;

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const project = join(folder, "project");
    mkdirSync(project);
    const home = join(folder, "home");
    const ready: number[] = [];
    const node: number[] = [];
    // The first start makes the home.
    await (await Served.start(home, project)).stop();
    for (let round = 0; round < STARTS; round++) {
      node.push(await wholeProcess(process.execPath, ["-e", "0"]));
      const served = await Served.start(home, project);
      ready.push(served.readyMs);
      await served.stop();
    }
    const served = await Served.start(home, project);
    const rss: number[] = [];
    const cpu: number[] = [];
    try {
      await pause(SETTLE_MS);
      for (let round = 0; round < IDLE_ROUNDS; round++) {
        cpu.push(await served.cpuDuring(() => pause(IDLE_MS)));
        rss.push(served.rss() / MB);
      }
    } finally {
      await served.stop();
    }
    return [
      rowOf({
        what: "svc serve: spawn to ready",
        unit: "ms",
        values: ready,
        baseline: node,
        compared: (f, b) => `${(f - b).toFixed(0)} ms over node -e 0`,
        target: "< 400 ms",
        met: (f) => f < 400,
      }),
      rowOf({ what: "idle: resident memory", unit: "MB", values: rss, target: "< 110 MB", met: (f) => f < 110 }),
      rowOf({ what: "idle: processor, over 20 s", unit: "%", values: cpu, target: "< 0.5 %", met: (f) => f < 0.5 }),
    ];
  });
}

export const controlPlane: Bench = { name: "control-plane", about: "start, and doing nothing", measure };
