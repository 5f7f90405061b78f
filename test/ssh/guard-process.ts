// The guard's processes on this computer, and its text with all pauses shortened.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { guardDir } from "../../src/domain/guard-script.ts";

/** Kills the guard with its running attempts, and what it has left behind. */
export function endAll(of: string): void {
  for (let all = guards(of); all.length > 0; all = processesOf(of))
    for (const pid of all.flatMap((each) => [each, ...childrenOf(each)])) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended meanwhile.
      }
    }
}

const childrenOf = (pid: number): number[] =>
  spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" })
    .stdout.split("\n")
    .filter((line) => line.trim() !== "")
    .flatMap((line) => [Number(line), ...childrenOf(Number(line))]);

/** Empty for a process that has just ended. */
function wordsOf(pid: string | undefined): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
  } catch {
    return [];
  }
}

const scriptOf = (of: string): string => join(guardDir(of), "guard.sh");
const runs = (pid: string | undefined, script: string): boolean => wordsOf(pid).slice(1, 3).includes(script);

/** Every shell of the guard of this machine, also one that waits for what never answers. */
const processesOf = (of: string): number[] =>
  readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid) && runs(pid, scriptOf(of)))
    .map(Number);

/** Shells that run the guard of this machine, found as the agent finds them. */
export const guards = (of: string): number[] =>
  processesOf(of).filter((pid) => {
    try {
      // A subshell has the same arguments; its parent is the guard.
      const parent = /\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "latin1"))?.[1];
      return !runs(parent, scriptOf(of));
    } catch {
      return false;
    }
  });

/** The text of a guard that looks 20 times a second, or, `stepped`, once for each file `go`. */
export function quickened(text: string, stepped = false, changes: readonly (readonly [string, string])[] = []): string {
  return [
    ["  sleep 1\n", stepped ? `  until rm "$dir/go" 2>/dev/null; do sleep 0.01; done\n` : "  sleep 0.05\n"] as const,
    ["  sleep 15\n", "  sleep 0.05\n"] as const,
    ["{ sleep 2; ", "{ sleep 0.05; "] as const,
    ["-gt 150 ]", "-gt 10 ]"] as const,
    ["wait_for $! 180", "wait_for $! 16"] as const,
    // As many seconds as in use would be too long here, and as many polls too few for a busy computer.
    ['-lt "$2" ]; do sleep 1;', '-lt "$2"0 ]; do sleep 0.02;'] as const,
    ['[ "$waited" -lt "$2" ] ||', '[ "$waited" -lt "$2"0 ] ||'] as const,
    ...changes,
  ].reduce((sofar, [from, to]) => {
    expect(sofar).toContain(from);
    return sofar.replaceAll(from, to);
  }, text);
}
