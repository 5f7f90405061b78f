// The interface of a program that is compared, and a function that runs one of its commands. `ours.ts`, `skypilot.ts` and
// `dstack.ts` implement it; `leaks.ts` and `figures.ts` drive it.

import { spawn, type ChildProcess } from "node:child_process";
import { openSync } from "node:fs";
import { MARKED } from "./processes.ts";

export const NAMES = ["svc", "SkyPilot", "dstack"] as const;
export type Name = (typeof NAMES)[number];

/** The folder of a contestant, and the provider that it uses. */
export interface Ground {
  /** A folder of its own: its home, its project and its logs. */
  dir: string;
  /** Address of the simulated provider; null where none is needed. */
  simUrl: string | null;
  apiKey: string;
  /** The folder of the Python environments. */
  venvs: string;
}

export interface Contestant {
  readonly name: Name;
  /** Starts its server as a user does; resolves with the milliseconds until it answers. */
  start(): Promise<number>;
  /** Asks for a run on one RTX 4090 for at most a dollar an hour, and returns once the program has taken the order or refused it. */
  submit(): Promise<void>;
  /** Asks it to end every run and machine that it knows. */
  stop(): Promise<void>;
  /** The runs and machines that it lists as open, in its own words; empty if there are none. */
  open(): Promise<string>;
  /** Its list command, as a whole process. */
  listByCommand(): Promise<Ran>;
  /** Its list by HTTP: milliseconds. */
  listByApi(): Promise<number>;
  /** Pauses what would otherwise ask the provider about every row while lists are timed. */
  quiet(): Promise<void>;
  /** Fills its store with this many ended runs (SkyPilot: clusters), by its own code; its server is not running. */
  fill(rows: number): Promise<void>;
}

/** The catalogues that the peers would download, written from the simulator's prices. */
export const ZONES = [
  { zone: "US-TX-3", region: "US" },
  { zone: "EU-RO-1", region: "RO" },
  { zone: "EU-SE-1", region: "SE" },
] as const;
export const PRICE = 0.69;
export const PRICE_CAP = 1;

export interface Ran {
  code: number | null;
  out: string;
  ms: number;
  /** Processor time of the command, in milliseconds: another program's load barely changes it. */
  cpuMs: number;
}

export interface RunOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  limitMs?: number;
}

/** Starts a program that stays, marked as the contestant's; its output goes to the end of a file. */
export function launch(program: string, args: readonly string[], options: RunOptions & { log: string }): ChildProcess {
  const log = openSync(options.log, "a");
  const { cwd, env } = options;
  return spawn(MARKED[0], [MARKED[1], program, ...args], { cwd, env, stdio: ["ignore", log, log], detached: true });
}

/** Runs a program to its end; past the limit it is killed, and `code` is null. */
export function run(program: string, args: readonly string[], options: RunOptions): Promise<Ran> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    // The shell adds the processor time of its children as the last line; a group of its own can be ended whole.
    const shell = ["-c", '"$@"; code=$?; times >&2; exit $code', "sh", ...MARKED, program, ...args];
    const { cwd, env } = options;
    const child = spawn("/bin/sh", shell, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    let out = "";
    const take = (text: string): void => void (out = (out + text).slice(-200_000));
    child.stdout.setEncoding("utf8").on("data", take);
    child.stderr.setEncoding("utf8").on("data", take);
    const timer = setTimeout(() => endGroup(child.pid), options.limitMs ?? 300_000);
    child.on("exit", (code) => {
      clearTimeout(timer);
      const ms = performance.now() - start;
      const done = (): void => resolve({ code, out: out.replace(TIMES, ""), ms, cpuMs: processorMs(out) });
      // A server that the command left behind may hold the pipes open.
      const late = setTimeout(done, 500);
      child.on("close", () => {
        clearTimeout(late);
        done();
      });
    });
    child.on("error", reject);
  });
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended in the meantime.
  }
}

/** What `times` prints: the shell's own times, then those of its children, user and system. */
const TIMES = /\d+m[\d.]+s \d+m[\d.]+s\s+(\d+)m([\d.]+)s (\d+)m([\d.]+)s\s*$/;

function processorMs(out: string): number {
  const [, userMin, userSec, systemMin, systemSec] = TIMES.exec(out)?.map(Number) ?? [];
  return ((userMin ?? Number.NaN) * 60 + (userSec ?? 0) + (systemMin ?? 0) * 60 + (systemSec ?? 0)) * 1_000;
}

/** The environment of a contestant: nothing of the caller's own but the path. */
export const bareEnv = (dir: string, more: Record<string, string> = {}): NodeJS.ProcessEnv => ({
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: dir,
  LANG: "C.UTF-8",
  NO_COLOR: "1",
  TERM: "dumb",
  ...more,
});
