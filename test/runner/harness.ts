// Real runs in temporary directories, and functions that read the process table.

import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { findPython } from "../../src/providers/local/python.ts";
import { LocalHost } from "../../src/providers/local/local-host.ts";
import { terminateLocal } from "../../src/providers/local/local-runs.ts";
import type { RunnerSpec, RunnerStatus } from "../../src/schemas/runner.ts";
import { runnerPath } from "./programs.ts";

export { runnerPath };

export const { path: python } = await findPython(process.env);
export const never = new AbortController().signal;

export const newNonce = (): string => randomBytes(16).toString("hex");

const root = mkdtempSync(join(tmpdir(), "svc-runner-"));
const runDirs: string[] = [];

afterAll(async () => {
  for (const runDir of runDirs) await terminateLocal({ runDir, runnerPath, python }, 0, never);
  rmSync(root, { recursive: true, force: true });
});

export interface TestRun {
  host: LocalHost;
  spec: RunnerSpec;
  runDir: string;
}

let count = 0;

/** A run that has not started yet. `argv` may be a shell script as one string. */
export function newRun(argv: string[] | string, changes: Partial<RunnerSpec> = {}, parent = root): TestRun {
  const runDir = join(parent, "runs", `job${++count}`, "node0");
  runDirs.push(runDir);
  const spec: RunnerSpec = {
    job_id: `job${count}`,
    node: 0,
    attempt: 1,
    nonce: newNonce(),
    argv: typeof argv === "string" ? ["sh", "-c", argv] : argv,
    cwd: parent,
    env: {},
    checkpoint_dir: join(runDir, "checkpoints"),
    stop_grace_seconds: 0.5,
    spool_cap_bytes: 64 << 20,
    sample_seconds: 10,
    ...changes,
  };
  return { host: new LocalHost({ runDir, runnerPath, python }), spec, runDir };
}

/** The same run with a changed runner: `code` receives its module as `m`. */
export function changedRunner(run: TestRun, code: string): LocalHost {
  const folder = join(run.runDir, "..", "changed");
  mkdirSync(folder, { recursive: true });
  const load = `import importlib.util, os\nspec = importlib.util.spec_from_file_location("m", ${JSON.stringify(runnerPath)})
m = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(m)\nmain = m.main\n`;
  writeFileSync(join(folder, "changed_runner.py"), load + code);
  return new LocalHost({ runDir: run.runDir, runnerPath: join(folder, "changed_runner.py"), python });
}

export async function startRun(argv: string[] | string, changes: Partial<RunnerSpec> = {}, secrets = {}): Promise<TestRun> {
  const run = newRun(argv, changes);
  await run.host.start(run.spec, secrets, never);
  return run;
}

/** Waits for the end, and returns the last status and the whole log. */
export async function finish(run: TestRun): Promise<{ status: RunnerStatus; log: Buffer }> {
  const status = await ended(run);
  const log = await wholeLog(run, status.log_bytes ?? 0);
  return { status, log };
}

export async function ended(run: TestRun): Promise<RunnerStatus> {
  for (;;) {
    const status = await run.host.status(never);
    if (status && status.phase !== "running") return status;
    await run.host.follow({ offset: Number.MAX_SAFE_INTEGER, max: 0, seen: Number.MAX_SAFE_INTEGER, waitMs: 5_000 }, never);
  }
}

export async function wholeLog(run: TestRun, bytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes; ) {
    const slice = await run.host.readLog(at, 1 << 20, never);
    if (slice.bytes.length === 0) throw new Error(`the log ends at ${at}, not at ${bytes}`);
    parts.push(slice.bytes);
    at += slice.bytes.length;
  }
  return Buffer.concat(parts);
}

/** Waits until the log contains `text`; returns the log up to there. */
export async function until(run: TestRun, text: string): Promise<string> {
  for (;;) {
    const { bytes } = await run.host.readLog(0, 1 << 20, never);
    if (bytes.includes(text)) return bytes.toString();
    const status = await run.host.status(never);
    if (status?.phase !== "running") throw new Error(`ended before it said ${text}: ${bytes.toString()}`);
    await run.host.follow({ offset: bytes.length, max: 0, seen: bytes.length, waitMs: 5_000 }, never);
  }
}

/** Pids of living processes, without zombies, whose environment or command line contains `mark`. */
export function processesWith(mark: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^[0-9]+$/.test(name))
    .filter((pid) => {
      try {
        if (/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"))) return false;
        return ["environ", "cmdline"].some((file) => readFileSync(`/proc/${pid}/${file}`).includes(mark));
      } catch {
        return false;
      }
    })
    .map(Number);
}
