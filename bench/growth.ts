// How the control plane grows with the runs that it keeps: one home that is filled further and further, and measured at each size.
// `SVC_BENCH_GROWTH=full` continues to 200,000 runs, which takes some minutes and 3 GB of disk.

import { mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { addEndedJobs } from "./lib/ended-jobs.ts";
import { withFolder } from "./lib/home.ts";
import { median, pause, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served, SVC, wholeProcess } from "./lib/served.ts";

const SIZES = [100, 1_000, 20_000, ...(process.env["SVC_BENCH_GROWTH"] === "full" ? [200_000] : [])];
const STARTS = 5;
const ROUNDS = 5;
const ASKS = 40;
const SETTLE_MS = 10_000;
const IDLE_MS = 20_000;
const MB = 1_000_000;

function bytesOf(folder: string): number {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

/** The median time of an answer in each round. */
async function answers(served: Served, path: string): Promise<number[]> {
  const medians: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const ms: number[] = [];
    for (let i = 0; i < ASKS; i++) {
      const answer = await served.get(path);
      if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status}`);
      ms.push(answer.ms);
    }
    if (round > 0) medians.push(median(ms));
  }
  return medians;
}

async function measureAt(jobs: number, home: string, project: string, empty: number): Promise<Row[]> {
  const of = `${jobs.toLocaleString("en")} runs`;
  const row = (what: string, unit: string, values: number[]): Row =>
    rowOf({ what: `${of}: ${what}`, unit, values, target: "", met: () => true });
  const disk = (bytesOf(home) - empty) / jobs / 1_000;
  const ready: number[] = [];
  for (let round = 0; round < STARTS; round++) {
    const started = await Served.start(home, project);
    ready.push(started.readyMs);
    await started.stop();
  }
  const served = await Served.start(home, project);
  try {
    await pause(SETTLE_MS);
    const cpu = await served.cpuDuring(() => pause(IDLE_MS));
    const rss = served.rss() / MB;
    const rows = [
      row("spawn to ready", "ms", ready),
      row("resident memory, idle", "MB", [rss]),
      row("processor, idle", "%", [cpu]),
      row("GET /jobs, p50", "ms", await answers(served, "/jobs")),
      row("GET /jobs?q=…, p50", "ms", await answers(served, "/jobs?q=nothing-like-this")),
      row("GET /v1/summary, p50", "ms", await answers(served, "/v1/summary")),
      row("GET /v1/costs, p50", "ms", await answers(served, "/v1/costs?by=provider")),
      row("disk per run", "kB", [disk]),
    ];
    const whole: number[] = [];
    const node: number[] = [];
    for (let round = 0; round <= STARTS; round++) {
      const plain = await wholeProcess(process.execPath, ["-e", "0"]);
      const ours = await wholeProcess(SVC, ["jobs"], { ...process.env, SVC_HOME: home });
      if (round === 0) continue;
      node.push(plain);
      whole.push(ours);
    }
    rows.push(
      rowOf({ what: `${of}: svc jobs`, unit: "ms", values: whole, baseline: node, target: "", met: () => true }),
    );
    return rows;
  } finally {
    await served.stop();
  }
}

const measure = (): Promise<Row[]> =>
  withFolder(async (folder) => {
    const home = join(folder, "home");
    const project = join(folder, "project");
    mkdirSync(project);
    await (await Served.start(home, project)).stop();
    const empty = bytesOf(home);
    const rows: Row[] = [];
    let kept = 0;
    for (const size of SIZES) {
      await addEndedJobs(home, size - kept);
      kept = size;
      rows.push(...(await measureAt(size, home, project, empty)));
    }
    return rows;
  });

export const growth: Bench = {
  name: "growth",
  about: "100 to 20,000 runs in the store",
  limitMs: 40 * 60_000,
  measure,
};
