// Crashes a small workload once at every boundary, and at every pair of boundaries.

import { idealPlan, type Workload } from "./plan.ts";
import type { Bench } from "./bench.ts";

export interface Counts {
  workload: Workload;
  /** Number of boundaries of the run without a crash. */
  boundaries: number;
  once: number;
  twice: number;
  failures: { crashes: number[]; what: string }[];
}

/** `distinct` omits the pairs that equal a pair one boundary earlier, because nothing had changed in between. */
export type Pairs = "none" | "distinct" | "all";

/** Crashes are counted from the last start, so a pair (i, j) means: at boundary i, and at boundary j of the next life. */
export async function exhaustive(
  bench: Bench,
  workload: Workload,
  pairs: Pairs,
  share = { part: 0, of: 1 },
): Promise<Counts> {
  const counts: Counts = { workload, boundaries: 0, once: 0, twice: 0, failures: [] };
  const run = async (at: number[]) => {
    const result = await bench.run(idealPlan(workload, at));
    for (const what of result.failures) counts.failures.push({ crashes: at, what });
    return result;
  };
  const calm = await run([]);
  counts.boundaries = calm.boundaries;
  for (let i = 1; i <= counts.boundaries; i++) {
    if (i % share.of !== share.part) continue;
    counts.once++;
    const once = await run([i]);
    if (pairs === "none" || (pairs === "distinct" && !calm.distinct.includes(i))) continue;
    const second = pairs === "distinct" ? once.distinct : Array.from({ length: once.boundaries - i }, (_, n) => n + 1);
    for (const j of second) {
      counts.twice++;
      await run([i, j]);
    }
  }
  return counts;
}
