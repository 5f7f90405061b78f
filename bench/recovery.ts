// A restart after the control plane was killed with 1,000 active runs. The real engine made them (with steps that do
// nothing); the benchmark makes their run directories by hand: each records a running script, names one living process,
// and holds a line of log that no control plane has read. A run counts as re-attached when that line is in the store.
//
// It does not start 1,000 scripts and 1,000 supervisors. They would need this computer's memory, and the control plane
// would do the same reads, because it only reads a run's directory and its process's entry in /proc.

import Database from "better-sqlite3";
import { spawn, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nodePrefix } from "../src/domain/machine-names.ts";
import { DurableLedger } from "../src/engine/ledger.ts";
import type { RunnerStatus } from "../src/schemas/runner.ts";
import { engineOf, instantSteps } from "../scripts/lib/instant-engine.ts";
import { newJob, newJobId, openHome, withFolder } from "./lib/home.ts";
import { pause, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const JOBS = 1_000;
const ROUNDS = 3;
const LINE = "a line that was written while nobody was there\n";

/**
 * Makes 1,000 jobs in `running`, each with its machine in the ledger and its `stream` step under way; then stops
 * without cleaning up.
 */
async function fill(home: string): Promise<string[]> {
  const store = await openHome(home);
  store.db.pragma("synchronous = OFF");
  let streaming = 0;
  const all = Promise.withResolvers<void>();
  const trivial = instantSteps({
    begun(_, step) {
      if (step === "stream" && ++streaming === JOBS) all.resolve();
    },
  });
  const stream: typeof trivial.stream = {
    ...trivial.stream,
    run: (context) => {
      void trivial.stream.run(context);
      return new Promise<never>(() => {});
    },
  };
  const engine = engineOf(store, { ...trivial, stream }, () => {});
  const ledger = new DurableLedger(engine);
  const ids = Array.from({ length: JOBS }, () => newJobId());
  await Promise.all(
    ids.map(async (jobId) => {
      const name = `${nodePrefix(store.installationId, jobId, 0)}1`;
      await ledger.intend({ name, jobId, node: 0, ordinal: 1, provider: "local", horizonAt: Date.now() });
      await ledger.held(name, {
        v: 1,
        provider: "local",
        id: join(home, "runs", jobId, "node0"),
        name,
        address: null,
        priceMicro: 0,
      });
      await engine.create(newJob(jobId));
    }),
  );
  await all.promise;
  store.db.pragma("synchronous = FULL");
  store.db.close();
  return ids;
}

function statusOf(alive: number, job: number): RunnerStatus {
  const stat = readFileSync(`/proc/${alive}/stat`, "latin1");
  return {
    phase: "running",
    nonce: String(job).padStart(16, "0"),
    runner_pid: alive,
    runner_start: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]),
    boot_id: readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim(),
    pid: alive,
    started_at_ms: Date.now(),
    ended_at_ms: null,
    exit_code: null,
    signal: null,
    stopped: false,
    preempted: false,
    oom: false,
    not_runnable: false,
    log_bytes: null,
    error: null,
  };
}

function makeRunFolders(home: string, ids: string[], alive: number): void {
  for (const [i, id] of ids.entries()) {
    const folder = join(home, "runs", id, "node0");
    mkdirSync(join(folder, "spool"), { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, "status.json"), JSON.stringify(statusOf(alive, i)));
    writeFileSync(join(folder, "spool", "000000000000"), LINE);
  }
}

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

interface Attached {
  readyMs: number;
  attachedMs: number;
}

async function attach(home: string, project: string): Promise<Attached> {
  const db = new Database(join(home, "svc.db"), { readonly: true });
  const lines = db.prepare("SELECT count(*) FROM log WHERE stored_bytes = ?").pluck();
  const start = performance.now();
  const served = await Served.start(home, project);
  try {
    while (lines.get(LINE.length) !== JOBS) {
      if (performance.now() - start > 60_000)
        throw new Error(`only ${String(lines.get(LINE.length))} runs were re-attached within a minute`);
      await pause(10);
    }
    return { readyMs: served.readyMs, attachedMs: performance.now() - start };
  } finally {
    db.close();
    await served.kill();
  }
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
    const ids = await fill(home);
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
        const found = await attach(home, project);
        ready.push(found.readyMs);
        attached.push(found.attachedMs);
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
