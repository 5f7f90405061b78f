// Runs batches in separate processes, a few at a time. A mutant's batches run the mutant's own copy of the tree.

import { NO_COST_SUMS, plusCosts } from "./cost-oracle.ts";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Batch, BatchResult, RandomCounts } from "./batch.child.ts";
import type { Counts, Pairs } from "./exhaustive.ts";
import type { Workload } from "./plan.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export function runBatch(batch: Batch, root = ROOT): Promise<BatchResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(root, "test", "sim", "batch.child.ts"), JSON.stringify(batch)], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    let out = "";
    let err = "";
    child.stdout.on("data", (chunk) => (out += String(chunk)));
    child.stderr.on("data", (chunk) => (err += String(chunk)));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0 && out !== "") resolve(JSON.parse(out) as BatchResult);
      else reject(new Error(`a simulation process ended with ${code}: ${err.slice(-2_000)}`));
    });
  });
}

/** Runs `work` over the items, `lanes` at a time; results keep the items' order. */
export async function inLanes<T, R>(items: readonly T[], lanes: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i] as T);
    }),
  );
  return results;
}

/** A chunk keeps a process busy for some seconds, so that its start hardly counts. */
const CHUNK = 250;

export async function runSeeds(
  from: number,
  count: number,
  lanes: number,
  done?: (so_far: RandomCounts) => void,
): Promise<RandomCounts> {
  const chunks: Batch[] = [];
  for (let at = from; at < from + count; at += CHUNK) {
    chunks.push({ kind: "random", from: at, count: Math.min(CHUNK, from + count - at), stopAtFirst: false });
  }
  const none = { runs: 0, boundaries: 0, crashes: 0, creates: 0, seconds: 0 };
  const sum: RandomCounts = { ...none, outcomes: {}, failures: [], costs: NO_COST_SUMS };
  await inLanes(chunks, lanes, async (chunk) => {
    const { counts } = (await runBatch(chunk)) as Extract<BatchResult, { kind: "random" }>;
    for (const key of ["runs", "boundaries", "crashes", "creates", "seconds"] as const) sum[key] += counts[key];
    for (const [outcome, n] of Object.entries(counts.outcomes))
      sum.outcomes[outcome] = (sum.outcomes[outcome] ?? 0) + n;
    sum.failures.push(...counts.failures);
    sum.costs = plusCosts(sum.costs, counts.costs);
    done?.(sum);
  });
  sum.failures.sort((a, b) => a.seed - b.seed);
  return sum;
}

export async function runExhaustive(
  workloads: readonly { workload: Workload; pairs: Pairs }[],
  lanes: number,
): Promise<Counts[]> {
  const parts = workloads.flatMap((w) => {
    const of = w.pairs === "none" ? 1 : 4;
    return Array.from({ length: of }, (_, part): Batch => ({ kind: "exhaustive", ...w, part, of }));
  });
  const results = await inLanes(
    parts,
    lanes,
    async (part) => ((await runBatch(part)) as Extract<BatchResult, { kind: "exhaustive" }>).counts,
  );
  return workloads.map(({ workload }) => {
    const own = results.filter((r) => r.workload === workload);
    return {
      workload,
      boundaries: own[0]?.boundaries ?? 0,
      once: own.reduce((n, r) => n + r.once, 0),
      twice: own.reduce((n, r) => n + r.twice, 0),
      failures: own.flatMap((r) => r.failures),
    };
  });
}
