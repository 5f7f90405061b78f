// Measures the cost of runs that wait for capacity: 200 of them at a provider that offers no machine, once all wait. Each run searches again after a
// tenth of its wait, and at least once a minute, so the first minutes cost more than the hours that follow.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JobRecord } from "../../src/schemas/job.ts";
import { pause, rowOf, type Row } from "../lib/measure.ts";
import { RentedWorld } from "../lib/rented-world.ts";

const JOBS = 200;
const MEASURED_MS = 60_000;
const ROUNDS = 2;
/** By then the looks of a run are a minute apart. */
const LATER_MS = 10 * 60_000;
const LIMIT_MS = 300_000;

export async function measureWaiting(folder: string): Promise<Row[]> {
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "train.py"), "print(1)\n");
  const world = await RentedWorld.start(folder, project);
  world.faults.set("sold_out", 24 * 3_600_000);
  try {
    const startMs = performance.now();
    for (let n = 0; n < JOBS; n++) await world.submit({ entrypoint: "train.py", wait_for_capacity_minutes: 600 });
    const submittedMs = performance.now() - startMs;
    const tried = new Set<string>();
    const isTried = (): boolean => {
      for (const { type, jobId, data } of world.events)
        if (type === "step.started" && data["step"] === "place" && jobId !== null) tried.add(jobId);
      return tried.size === JOBS;
    };
    await world.until(isTried, LIMIT_MS, "200 runs that search");
    const waitMs = performance.now() - startMs;
    const measured = async (): Promise<number[]> => {
      const shares: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        shares.push(await world.served.cpuDuring(() => pause(MEASURED_MS)));
      }
      return shares;
    };
    const first = await measured();
    await pause(LATER_MS);
    const later = await measured();
    const jobs = JSON.parse((await world.served.get("/jobs?limit=500")).body.toString()) as { jobs: JobRecord[] };
    const waiting = jobs.jobs.filter(({ status }) => status === "waiting").length;
    if (waiting !== JOBS) throw new Error(`${waiting} runs wait, not ${JOBS}`);
    return [
      rowOf({
        what: `${JOBS} runs that wait for capacity: processor, after ten minutes`,
        unit: "% of a core",
        values: later,
        target: "< 1 %",
        met: (f) => f < 1,
      }),
      rowOf({
        what: "the same in the first two minutes",
        unit: "% of a core",
        values: first,
        target: "(no target)",
        met: () => true,
      }),
      rowOf({
        what: "until all are accepted; until all search",
        unit: "ms",
        values: [submittedMs, waitMs],
        target: "(no target)",
        met: () => true,
      }),
    ];
  } finally {
    await world.endAll().catch(() => undefined);
    await world.close();
  }
}
