// Listing with 20,000 jobs in the store: one page by HTTP, and `svc jobs` as a whole process.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { addEndedJobs } from "./lib/ended-jobs.ts";
import { withFolder } from "./lib/home.ts";
import { median, pause, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served, SVC, wholeProcess } from "./lib/served.ts";

const JOBS = 20_000;
const ROUNDS = 7;
const ASKS = 60;
const STARTS = 15;

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const home = join(folder, "home");
    const project = join(folder, "project");
    mkdirSync(project);
    await addEndedJobs(home, JOBS);
    const served = await Served.start(home, project);
    const medians: number[] = [];
    const healths: number[] = [];
    let bytes = 0;
    try {
      await pause(3_000);
      for (let round = 0; round <= ROUNDS; round++) {
        const ms: number[] = [];
        const plain: number[] = [];
        for (let i = 0; i < ASKS; i++) {
          const page = await served.get("/jobs");
          if (page.status !== 200) throw new Error(`GET /jobs: ${page.status}`);
          bytes = page.body.length;
          ms.push(page.ms);
          const health = await served.get("/v1/health");
          if (health.status !== 200) throw new Error(`GET /v1/health: ${health.status}`);
          plain.push(health.ms);
        }
        if (round === 0) continue;
        medians.push(median(ms));
        healths.push(median(plain));
      }
    } finally {
      await served.stop();
    }
    const env = { ...process.env, SVC_HOME: home };
    const whole: number[] = [];
    const node: number[] = [];
    for (let round = 0; round <= STARTS; round++) {
      const plain = await wholeProcess(process.execPath, ["-e", "0"]);
      const ours = await wholeProcess(SVC, ["jobs"], env);
      if (round === 0) continue; // the compile cache is written once per build
      node.push(plain);
      whole.push(ours);
    }
    return [
      rowOf({
        what: "GET /jobs of 20,000 jobs, p50",
        unit: "ms",
        values: medians,
        baseline: healths,
        compared: (f, b) => `+${(f - b).toFixed(1)} ms over /v1/health`,
        target: "< 5 ms",
        met: (f) => f < 5,
      }),
      rowOf({ what: "one page of them", unit: "KB", values: [bytes / 1000], target: "< 100 KB", met: (f) => f < 100 }),
      rowOf({
        what: "svc jobs, whole process",
        unit: "ms",
        values: whole,
        baseline: node,
        target: "<= 2x node -e 0",
        met: (f, b) => f <= 2 * b,
      }),
    ];
  });
}

export const listing: Bench = { name: "listing", about: "20,000 jobs in the store", measure };
