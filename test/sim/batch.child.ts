// A process that runs one batch of simulations and prints the results as one line of JSON.

import { NO_COST_SUMS, plusCosts, type CostSums } from "./cost-oracle.ts";
import { exhaustive, type Counts, type Pairs } from "./exhaustive.ts";
import { randomPlan, type Workload } from "./plan.ts";
import { Bench } from "./bench.ts";

export type Batch =
  | { kind: "random"; from: number; count: number; stopAtFirst: boolean }
  | { kind: "exhaustive"; workload: Workload; pairs: Pairs; part: number; of: number };

export interface RandomCounts {
  runs: number;
  boundaries: number;
  crashes: number;
  creates: number;
  outcomes: Record<string, number>;
  failures: { seed: number; what: string }[];
  costs: CostSums;
  seconds: number;
}

export type BatchResult = { kind: "random"; counts: RandomCounts } | { kind: "exhaustive"; counts: Counts };

async function random(bench: Bench, batch: Extract<Batch, { kind: "random" }>): Promise<RandomCounts> {
  const counts: RandomCounts = {
    runs: 0,
    boundaries: 0,
    crashes: 0,
    creates: 0,
    outcomes: {},
    failures: [],
    costs: NO_COST_SUMS,
    seconds: 0,
  };
  const began = performance.now();
  for (let seed = batch.from; seed < batch.from + batch.count; seed++) {
    const result = await bench.run(randomPlan(seed));
    counts.runs++;
    counts.boundaries += result.boundaries;
    counts.crashes += result.crashes;
    counts.creates += result.creates;
    counts.costs = plusCosts(counts.costs, result.costs);
    for (const outcome of result.outcomes) counts.outcomes[outcome] = (counts.outcomes[outcome] ?? 0) + 1;
    const what = result.failures[0];
    if (what === undefined) continue;
    counts.failures.push({ seed, what });
    if (batch.stopAtFirst) break;
  }
  counts.seconds = (performance.now() - began) / 1000;
  return counts;
}

const batch = JSON.parse(process.argv[2] ?? "null") as Batch;
const bench = new Bench();
try {
  const result: BatchResult =
    batch.kind === "random"
      ? { kind: "random", counts: await random(bench, batch) }
      : {
          kind: "exhaustive",
          counts: await exhaustive(bench, batch.workload, batch.pairs, { part: batch.part, of: batch.of }),
        };
  process.stdout.write(`${JSON.stringify(result)}\n`);
} finally {
  bench.close();
}
