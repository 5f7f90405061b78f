// Reads this computer's process table. A process is identified by its number and its start time within one boot; a
// number alone is never trusted, because numbers are reused.

import { readdirSync, readFileSync } from "node:fs";
import { systemCode } from "../../errors/index.ts";

/** Identity of a process: `start` is field 22 of /proc/PID/stat, or 0 without /proc. */
export interface ProcessIdentity {
  pid: number;
  start: number;
}

const HAS_PROC = process.platform === "linux";
const SAYS_NOTHING_THERE = new Set(["ENOENT", "ESRCH", "EACCES", "EPERM", "ENOTDIR"]);
let bootIdCache: string | null = null;

/** Changes with every boot; empty if unreadable. */
export function bootId(): string {
  bootIdCache ??= HAS_PROC ? (read("/proc/sys/kernel/random/boot_id")?.trim() ?? "") : "";
  return bootIdCache;
}

/** Start time of a living process (zombies count as dead), or null when there is none. */
export function startTime(pid: number): number | null {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The name in parentheses may contain anything, also spaces and parentheses: count from the last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? null : Number(fields[19]);
}

/** Whether exactly the recorded process is still alive. */
export function isAlive(recorded: ProcessIdentity & { boot_id: string }): boolean {
  if (HAS_PROC) return recorded.boot_id === bootId() && startTime(recorded.pid) === recorded.start;
  try {
    process.kill(recorded.pid, 0);
    return true;
  } catch (thrown) {
    return systemCode(thrown) === "EPERM";
  }
}

/** Living processes whose environment at start had the variable `name`, by its value. Empty without /proc. */
export function processesByVariable(name: string): Map<string, number[]> {
  const found = new Map<string, number[]>();
  if (!HAS_PROC) return found;
  const key = `${name}=`;
  for (const entry of readdirSync("/proc")) {
    if (!/^[0-9]+$/.test(entry)) continue;
    const variable = read(`/proc/${entry}/environ`)
      ?.split("\0")
      .find((v) => v.startsWith(key));
    if (variable === undefined) continue;
    const value = variable.slice(key.length);
    found.set(value, [...(found.get(value) ?? []), Number(entry)]);
  }
  return found;
}

/** Files of /proc vanish with their process and are closed to other users: both read as null. */
function read(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (e) {
    // A lack of descriptors or memory says nothing about a process.
    if (SAYS_NOTHING_THERE.has(systemCode(e))) return null;
    throw e;
  }
}
