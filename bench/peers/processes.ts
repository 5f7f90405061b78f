// Finds the processes of a contestant by a mark in their environment, which children inherit. The kill cases and the
// memory figures use it: some programs detach their servers, so that a tree by parent would miss them.

import { readdirSync, readFileSync } from "node:fs";
import { pause } from "../lib/measure.ts";

/** The variable that carries the mark. */
export const MARK = "PEERS_MARK";

/** The processes that carry the mark. */
export function marked(mark: string): number[] {
  const wanted = `${MARK}=${mark}`;
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && read(`/proc/${pid}/environ`).split("\0").includes(wanted));
}

/** Ends them with SIGKILL, all in one go, and again until none is left: one of them may have been starting another. */
export async function killMarked(mark: string): Promise<void> {
  for (let pids = marked(mark); pids.length > 0; pids = marked(mark)) {
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
