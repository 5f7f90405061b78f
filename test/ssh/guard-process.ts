// The guard's processes on this computer, and its text with all pauses shortened.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { guardDir } from "../../src/domain/guard-script.ts";

/** Kills the guard, and first of all its running attempts. */
export function endAll(of: string): void {
  for (const pid of guards(of).flatMap((guard) => [guard, ...childrenOf(guard)])) {
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

/** Shells that run the guard of this machine, found as the agent finds them. */
export function guards(of: string): number[] {
  const script = join(guardDir(of), "guard.sh");
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
        // A subshell that is about to end the machine has the same arguments; its parent is the guard.
        const parent = /\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "latin1"))?.[1];
        return words.slice(1, 3).includes(script) && !wordsOf(parent).slice(1, 3).includes(script);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** The text of a guard that looks 20 times a second, or, `stepped`, once for each file `go`. */
export function quickened(text: string, stepped = false, changes: readonly (readonly [string, string])[] = []): string {
  return [
    ["  sleep 1\n", stepped ? `  until rm "$dir/go" 2>/dev/null; do sleep 0.01; done\n` : "  sleep 0.05\n"] as const,
    ["  sleep 15\n", "  sleep 0.05\n"] as const,
    ["{ sleep 2; ", "{ sleep 0.05; "] as const,
    ["-gt 150 ]", "-gt 10 ]"] as const,
    ["-lt 180 ]", "-lt 4 ]"] as const,
    // As many seconds as in use would be too long here, and as many polls too few for a busy computer.
    ['-lt "$bound" ]; do sleep 1;', '-lt "$bound"0 ]; do sleep 0.02;'] as const,
    ['[ "$waited" -lt "$bound" ] ||', '[ "$waited" -lt "$bound"0 ] ||'] as const,
    ...changes,
  ].reduce((sofar, [from, to]) => {
    expect(sofar).toContain(from);
    return sofar.replaceAll(from, to);
  }, text);
}
