// Runs that a control plane finds live at its start. The real engine makes them (with steps that do nothing); their run
// directories are made by hand: each records a running script, names one living process, and holds a line of log that no
// control plane has read. A run counts as re-attached when that line is in the store.
//
// There are no scripts and no supervisors. They would need this computer's memory, and the control plane
// would do the same reads, because it only reads a run's directory and its process's entry in /proc.

import Database from "better-sqlite3";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nodePrefix } from "../../src/domain/machine-names.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import type { RunnerStatus } from "../../src/schemas/runner.ts";
import { engineOf, instantSteps } from "../../scripts/lib/instant-engine.ts";
import { newJob, newJobId, openHome } from "./home.ts";
import { pause } from "./measure.ts";
import { Served } from "./served.ts";

const ATTACH_LIMIT_MS = 60_000;
const LINE = "a line that was written while nobody was there\n";

/**
 * Makes jobs in `running`, each with its machine in the ledger and its `stream` step under way; then stops
 * without cleaning up.
 */
export async function fillLive(home: string, jobs: number): Promise<string[]> {
  const store = await openHome(home);
  store.db.pragma("synchronous = OFF");
  let streaming = 0;
  const all = Promise.withResolvers<void>();
  const trivial = instantSteps({
    begun(_, step) {
      if (step === "stream" && ++streaming === jobs) all.resolve();
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
  const ids = Array.from({ length: jobs }, () => newJobId());
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
    left: [],
    log_bytes: null,
    error: null,
  };
}

export const spoolOf = (home: string, id: string): string => join(home, "runs", id, "node0", "spool", "000000000000");

export function makeRunFolders(home: string, ids: string[], alive: number): void {
  for (const [i, id] of ids.entries()) {
    const folder = join(home, "runs", id, "node0");
    mkdirSync(join(folder, "spool"), { recursive: true, mode: 0o700 });
    writeFileSync(join(folder, "status.json"), JSON.stringify(statusOf(alive, i)));
    writeFileSync(join(folder, "spool", "000000000000"), LINE);
  }
}

/** Starts a control plane on a home with live runs, and waits until it has stored the line of each. */
export async function attach(
  home: string,
  project: string,
  jobs: number,
): Promise<{ served: Served; attachedMs: number }> {
  const db = new Database(join(home, "svc.db"), { readonly: true });
  const lines = db.prepare("SELECT count(*) FROM log WHERE stored_bytes = ?").pluck();
  const start = performance.now();
  const served = await Served.start(home, project);
  try {
    while (lines.get(LINE.length) !== jobs) {
      if (performance.now() - start > ATTACH_LIMIT_MS)
        throw new Error(`only ${String(lines.get(LINE.length))} runs were re-attached within a minute`);
      await pause(10);
    }
    return { served, attachedMs: performance.now() - start };
  } catch (error) {
    await served.kill();
    throw error;
  } finally {
    db.close();
  }
}
