// How the control plane grows with the runs that are live: 10, 100 and 1,000 of them, first without a word and then with a line of
// log a second each. `lib/live-runs.ts` makes them on this computer. What a rented machine adds (a connection, an agent, a guard) is in the
// group `rented`, with up to 200 of them.

import { spawn } from "node:child_process";
import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { withFolder } from "./lib/home.ts";
import { attach, fillLive, makeRunFolders, spoolOf } from "./lib/live-runs.ts";
import { pause, quantile, rowOf, type Bench, type Row } from "./lib/measure.ts";
import type { Served } from "./lib/served.ts";

const SIZES = [10, 100, 1_000];
const SETTLE_MS = 10_000;
const WATCH_MS = 20_000;
const ASK_EVERY_MS = 50;
const LINE_LIMIT_MS = 20_000;
const MB = 1_000_000;

/** Appends a line a second to the log of each run, evenly over the second; `stop` ends it. */
function chatter(home: string, ids: readonly string[]): { stop(): number } {
  const start = performance.now();
  let written = 0;
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - start) / 1_000) * ids.length);
    for (; written < due; written++)
      appendFileSync(spoolOf(home, ids[written % ids.length] as string), `step ${written} loss 0.1\n`);
  }, 5);
  return {
    stop: () => {
      clearInterval(timer);
      return written;
    },
  };
}

/** Milliseconds from a line in the file of a run until `GET /jobs/{id}/logs` has it. */
async function lineMs(served: Served, home: string, id: string, nth: number): Promise<number> {
  const mark = `marked line ${nth}`;
  const start = performance.now();
  appendFileSync(spoolOf(home, id), `${mark}\n`);
  while (!(await served.get(`/jobs/${id}/logs?tail=20`)).body.includes(mark)) {
    if (performance.now() - start > LINE_LIMIT_MS)
      throw new Error(`a line was not readable within ${LINE_LIMIT_MS} ms`);
    await pause(2);
  }
  return performance.now() - start;
}

/** The answers of `GET /jobs` for a while, each after another line. */
async function answers(served: Served, each: () => Promise<void>): Promise<number[]> {
  const ms: number[] = [];
  const at = performance.now();
  while (performance.now() - at < WATCH_MS) {
    await each();
    const answer = await served.get("/jobs");
    if (answer.status !== 200) throw new Error(`GET /jobs: ${answer.status}`);
    ms.push(answer.ms);
    await pause(ASK_EVERY_MS);
  }
  return ms;
}

async function measureAt(jobs: number): Promise<Row[]> {
  return withFolder(async (folder) => {
    const [home, project] = [join(folder, "home"), join(folder, "project")];
    mkdirSync(project);
    const ids = await fillLive(home, jobs);
    const sleeper = spawn("sleep", ["3600"], { stdio: "ignore" });
    try {
      makeRunFolders(home, ids, sleeper.pid as number);
      const { served, attachedMs } = await attach(home, project, jobs);
      try {
        const of = `${jobs.toLocaleString("en")} live runs`;
        const row = (what: string, unit: string, values: number[]): Row =>
          rowOf({ what: `${of}: ${what}`, unit, values, target: "", met: () => true });
        await pause(SETTLE_MS);
        const quietCpu = await served.cpuDuring(() => pause(WATCH_MS));
        const quietRss = served.rss() / MB;
        const lines: number[] = [];
        const writer = chatter(home, ids);
        let asked: number[] = [];
        const line = async (): Promise<void> => {
          const nth = lines.length;
          lines.push(await lineMs(served, home, ids[(nth * 7) % ids.length] as string, nth));
        };
        const busyCpu = await served.cpuDuring(async () => (asked = await answers(served, line)));
        const busyRss = served.rss() / MB;
        const written = writer.stop();
        if (written < (jobs * WATCH_MS) / 1_000 / 2) throw new Error(`only ${written} lines were written`);
        return [
          row("spawn to the last run re-attached", "ms", [attachedMs]),
          row("resident memory, quiet", "MB", [quietRss]),
          row("processor, quiet", "%", [quietCpu]),
          row("processor, a line a second each", "%", [busyCpu]),
          row("resident memory, a line a second each", "MB", [busyRss]),
          row("a line written until it is read, p50", "ms", lines),
          row("the same, p99", "ms", [quantile(lines, 0.99)]),
          row("GET /jobs meanwhile, p50", "ms", asked),
          row("the same, p99", "ms", [quantile(asked, 0.99)]),
        ];
      } finally {
        await served.kill();
      }
    } finally {
      sleeper.kill();
    }
  });
}

async function measure(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const size of SIZES) rows.push(...(await measureAt(size)));
  return rows;
}

export const live: Bench = { name: "live", about: "10, 100 and 1,000 live runs", measure };
