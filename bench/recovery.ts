// A restart after the control plane was killed with 1,000 active runs: `lib/live-runs.ts` makes them.

import { spawn, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { engineOf, instantSteps } from "../scripts/lib/instant-engine.ts";
import { openHome, withFolder } from "./lib/home.ts";
import { attach, fillLive, makeRunFolders } from "./lib/live-runs.ts";
import { rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const JOBS = 1_000;
const ROUNDS = 3;

/** Opens the store and makes one pass over its 1,000 open jobs; prevents the work that would follow. */
async function load(home: string): Promise<number> {
  const start = performance.now();
  const store = await openHome(home);
  const steps = instantSteps();
  const engine = engineOf(
    store,
    { ...steps, stream: { ...steps.stream, run: () => new Promise<never>(() => {}) } },
    () => {},
  );
  const { resumed } = await engine.recover();
  const ms = performance.now() - start;
  if (resumed.length !== JOBS) throw new Error(`${resumed.length} jobs were resumed, not ${JOBS}`);
  store.db.close();
  return ms;
}

async function emptyReady(home: string, project: string): Promise<number> {
  const served = await Served.start(home, project);
  await served.stop();
  return served.readyMs;
}

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const project = join(folder, "project");
    mkdirSync(project);
    const home = join(folder, "home");
    const ids = await fillLive(home, JOBS);
    const sleeper: ChildProcess = spawn("sleep", ["3600"], { stdio: "ignore" });
    const loaded: number[] = [];
    const ready: number[] = [];
    const empty: number[] = [];
    const attached: number[] = [];
    try {
      const bare = join(folder, "bare");
      await emptyReady(bare, project);
      for (let round = 0; round < ROUNDS; round++) {
        const copy = (name: string): string => {
          const to = join(folder, `${name}-${round}`);
          cpSync(home, to, { recursive: true });
          return to;
        };
        loaded.push(await load(copy("load")));
        empty.push(await emptyReady(bare, project));
        // The ledger contains the run folders' paths below this home, so each round restores this very home.
        const before = copy("kept");
        makeRunFolders(home, ids, sleeper.pid as number);
        const found = await attach(home, project, JOBS);
        ready.push(found.served.readyMs);
        attached.push(found.attachedMs);
        await found.served.kill();
        restore(before, home);
      }
    } finally {
      sleeper.kill();
    }
    return [
      rowOf({
        what: "1,000 live jobs after a crash: loaded",
        unit: "ms",
        values: loaded,
        target: "< 500 ms",
        met: (f) => f < 500,
      }),
      rowOf({
        what: "and re-attached: spawn to the last run's new line stored",
        unit: "ms",
        values: attached,
        target: "< 3,000 ms",
        met: (f) => f < 3_000,
      }),
      rowOf({
        what: "and svc serve: spawn to ready",
        unit: "ms",
        values: ready,
        baseline: empty,
        compared: (f, b) => `${(f - b).toFixed(0)} ms over an empty home`,
        target: "(no target)",
        met: () => true,
      }),
    ];
  });
}

function restore(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true });
}

export const recovery: Bench = { name: "recovery", about: "1,000 jobs after a crash", measure };
