// Finds and ends runs on this computer like machines: nothing is rented, and only processes can be left behind.

import { existsSync, readdirSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { SvcError } from "../../errors/index.ts";
import { RunnerStatus } from "../../schemas/runner.ts";
import { LocalHost } from "./local-host.ts";
import { bootId, isAlive, processesByVariable, startTime } from "./process-table.ts";
import { readRunFileSync } from "./run-file.ts";
import type { RunnerProgram } from "./runner-process.ts";
import { homeLayout } from "../../platform/home-layout.ts";

/** A twentieth of a second apart. */
const FORGOTTEN_LOOKS = 100;

/** A run directory of a home with living processes: the runner, the script, or their leftovers. */
export interface LocalRun {
  runDir: string;
  jobId: string;
  node: number;
  pids: number[];
}

/** Run directories below `home` with living processes that can be ended, whoever started them; in order of path. */
export function listLocalRuns(home: string): LocalRun[] {
  const root = homeLayout.runs(real(home));
  const byDir = new Map<string, number[]>();
  for (const [runDir, pids] of processesByVariable("SVC_RUN_DIR")) {
    const dir = real(runDir);
    const living = endable(dir, pids);
    if (living.length > 0) byDir.set(dir, [...(byDir.get(dir) ?? []), ...living]);
  }
  if (process.platform !== "linux") for (const [dir, pid] of recordedRunners(root)) byDir.set(dir, [pid]);
  const runs: LocalRun[] = [];
  for (const [runDir, pids] of byDir) {
    const [jobId = "", folder = ""] = relative(root, runDir).split(sep);
    const node = /^node([0-9]+)$/.exec(folder)?.[1];
    if (jobId !== ".." && node !== undefined) runs.push({ runDir, jobId, node: Number(node), pids });
  }
  return runs.sort((a, b) => (a.runDir < b.runDir ? -1 : 1));
}

/**
 * Ends all processes of a run and proves it: resolves only when neither the runner's own records nor the process table
 * shows a process of the run, except those that the runner recorded as surviving KILL. Safe to repeat. Throws `runner_failed`, naming the survivors.
 */
export async function terminateLocal(
  run: RunnerProgram & { runDir: string },
  graceSeconds: number,
  signal: AbortSignal,
): Promise<{ processes: 0; checkedAtMs: number }> {
  await new LocalHost(run).stop(graceSeconds, signal);
  const left = await endForgotten(run.runDir, signal);
  if (left.length > 0) {
    throw new SvcError("runner_failed", {
      why: `processes of the run in ${run.runDir} are still there: ${left.join(", ")}`,
    });
  }
  return { processes: 0, checkedAtMs: Date.now() };
}

/**
 * Ends processes that have this run's directory in their environment and are missing from the runner's records: a
 * script, or a person, removed or replaced its files. A runner without its directory would wait for them for ever.
 * Returns the number of survivors.
 */
async function endForgotten(runDir: string, signal: AbortSignal): Promise<number[]> {
  for (let look = 1; ; look++) {
    signal.throwIfAborted();
    const script = processesOf(runDir);
    const left = endable(runDir, existsSync(join(runDir, "spec.json")) ? script : carrying(runDir));
    if (left.length === 0 || look > FORGOTTEN_LOOKS) return left;
    for (const { pid, start } of left.map((pid) => ({ pid, start: startTime(pid) }))) {
      // Checked again: the number may have been reused.
      if (start === null || startTime(pid) !== start || !carrying(runDir).includes(pid)) continue;
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Gone meanwhile, or another user's: the next check shows it.
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Without the processes that KILL did not end, by the record of the run's last runner. They would be waited for in vain. */
function endable(runDir: string, pids: readonly number[]): number[] {
  const status = pids.length === 0 ? null : recorded(runDir);
  const left = new Map(status?.boot_id === bootId() ? status.left.map(({ pid, start }) => [pid, start]) : []);
  return pids.filter((pid) => !left.has(pid) || left.get(pid) !== startTime(pid));
}

function recorded(runDir: string): RunnerStatus | null {
  try {
    return RunnerStatus.parse(JSON.parse(readRunFileSync(join(runDir, "status.json"))));
  } catch {
    return null; // never started here, or damaged
  }
}

/** Every process of a run directory, its runner included. */
function carrying(runDir: string): number[] {
  const dir = real(runDir);
  return [...processesByVariable("SVC_RUN_DIR")].filter(([value]) => real(value) === dir).flatMap(([, pids]) => pids);
}

/** Processes of the script in this run directory; excludes the runner itself, which may still be writing the end. */
function processesOf(runDir: string): number[] {
  const nonces = new Set([...processesByVariable("SVC_RUN_NONCE").values()].flat());
  return carrying(runDir).filter((pid) => nonces.has(pid));
}

/** Without /proc: the processes in status files, checked for life. */
function* recordedRunners(root: string): Generator<[string, number]> {
  for (const job of names(root)) {
    for (const node of names(join(root, job))) {
      const dir = join(root, job, node);
      const status = recorded(dir);
      if (status?.phase !== "running") continue;
      const alive = isAlive({ pid: status.runner_pid, start: status.runner_start, boot_id: status.boot_id });
      if (alive) yield [dir, status.runner_pid];
    }
  }
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** For a missing path: the path that it would have. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(real(above), basename(path));
  }
}
