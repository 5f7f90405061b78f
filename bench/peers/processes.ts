// Finds the processes of a contestant by a resource limit of theirs, which children inherit and programs leave alone. The kill
// cases and the memory figures use it: some programs detach their servers, and some overwrite their environment with a title.

import { readdirSync, readFileSync } from "node:fs";
import { pause } from "../lib/measure.ts";

/** An odd size for the message queues that none of them uses. One contestant runs in each table of processes. */
const MARK = 700_001;

/** The words in front of a command that mark it. */
export const MARKED = ["prlimit", `--msgqueue=${MARK}`] as const;

/** The processes of the contestant that have not ended: a zombie keeps its limits and its processor time, and holds nothing else. */
export function marked(): number[] {
  const line = new RegExp(String.raw`^Max msgqueue size\s+${MARK}\s`, "m");
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => line.test(read(`/proc/${pid}/limits`)) && !/^State:\s+Z/m.test(read(`/proc/${pid}/status`)));
}

/** Ends them with SIGKILL, all in one go, and again until none is left: one of them may have been starting another. */
export async function killMarked(): Promise<void> {
  for (let pids = marked(); pids.length > 0; pids = marked()) {
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended in the meantime.
      }
    }
    await pause(50);
  }
}

/** Bytes of memory of these processes; a page that n of them share counts 1/n in each (PSS). */
export const memoryOf = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => {
    const kilobytes = /^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? "0";
    return sum + Number(kilobytes) * 1024;
  }, 0);

const TICKS_MS = 10;

/** Milliseconds of processor time that these processes and their ended children have used. */
export const processorOf = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => {
    const stat = read(`/proc/${pid}/stat`);
    const [user = 0, system = 0, childUser = 0, childSystem = 0] = stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .slice(11, 15)
      .map(Number);
    return sum + (user + system + childUser + childSystem) * TICKS_MS;
  }, 0);

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return ""; // The process has ended, or is a zombie.
  }
}
