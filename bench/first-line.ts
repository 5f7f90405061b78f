// The time from the request to the first readable line: svc accepts, commits and starts the run, and stores its output.
// The baseline is the unavoidable part: Python itself, printing the same line into a pipe.

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { interpreter, withFolder } from "./lib/home.ts";
import { pause, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const ROUNDS = 21;
const SCRIPT = 'import time\nprint("here", flush=True)\ntime.sleep(0.2)\n';

function bare(python: string, project: string): Promise<number> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(python, ["-u", "hello.py"], { cwd: project, stdio: ["ignore", "pipe", "inherit"] });
    let at = 0;
    child.stdout.once("data", () => (at = performance.now() - start));
    child.on("error", reject);
    child.on("close", () => resolve(at));
  });
}

/** Polls the log; an answer takes about a millisecond. */
async function ours(served: Served): Promise<{ ms: number; acceptedMs: number }> {
  const start = performance.now();
  const id = await served.submit({ entrypoint: "hello.py" });
  const acceptedMs = performance.now() - start;
  for (;;) {
    const log = await served.get(`/jobs/${id}/logs`);
    if (log.status === 200 && log.body.includes("here")) break;
    if (performance.now() - start > 20_000) throw new Error("no line within 20 s");
    await pause(1);
  }
  const ms = performance.now() - start;
  const status = await served.ended(id);
  if (status !== "succeeded") throw new Error(`the run is ${status}`);
  return { ms, acceptedMs };
}

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const project = join(folder, "project");
    mkdirSync(project);
    writeFileSync(join(project, "hello.py"), SCRIPT);
    const served = await Served.start(join(folder, "home"), project);
    const python = interpreter();
    const whole: number[] = [];
    const plain: number[] = [];
    const accepted: number[] = [];
    try {
      // The first run also detects the Python.
      await ours(served);
      for (let round = 0; round < ROUNDS; round++) {
        plain.push(await bare(python, project));
        const run = await ours(served);
        whole.push(run.ms);
        accepted.push(run.acceptedMs);
      }
    } finally {
      await served.stop();
    }
    return [
      rowOf({
        what: "POST /jobs to the first line in GET logs",
        unit: "ms",
        values: whole,
        baseline: plain,
        compared: (f, b) => `${(f - b).toFixed(0)} ms over it`,
        target: "<= 150 ms over python3 -u",
        met: (f, b) => f - b <= 150,
      }),
      rowOf({
        what: "of which: POST /jobs answered",
        unit: "ms",
        values: accepted,
        target: "(part of the above)",
        met: () => true,
      }),
    ];
  });
}

export const firstLine: Bench = { name: "first-line", about: "a run's first line", measure };
