// The simulation from the command line: many seeds, one seed with its trace, every crash, or the score against mutants.
//
//   npm run sim -- --seeds 100000 [--from N] [--lanes N]     random seeds
//   npm run sim -- --seed S [--trace]                        one of them, again
//   npm run sim -- --exhaustive                              every one and every two crashes
//   npm run sim -- --workload happy --crashes 12,5 --trace   one of those, again
//   npm run sim -- --mutants [--seeds N] [--from N]          which defects the simulation detects
//   npm run sim -- --mutants --named WORDS                   only those with these words in their name
//   npm run sim -- --mutants --tested                        defects that tests must detect, not the simulation
//   npm run sim -- --mutants [--tested] --keep FILE          adds the result to FILE; docs/quality/mutants.md shows docs/quality/mutants.jsonl

import { appendFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { commitHere } from "./lib/commit-here.ts";
import { flagsOf } from "./lib/flags.ts";
import type { Play } from "./lib/mutants-page.ts";
import { costRows } from "../test/sim/cost-oracle.ts";
import { runExhaustive, runSeeds } from "../test/sim/fleet.ts";
import { MUTANTS, score, type Score } from "../test/sim/mutants.ts";
import { scoreByTests, TESTED_MUTANTS } from "../test/sim/tested-mutants.ts";
import { idealPlan, randomPlan, WORKLOADS, type Plan, type Workload } from "../test/sim/plan.ts";
import { Bench } from "../test/sim/bench.ts";

const flags = flagsOf(import.meta.filename, {
  seeds: { type: "string" },
  from: { type: "string", default: "1" },
  lanes: { type: "string", default: String(availableParallelism()) },
  seed: { type: "string" },
  trace: { type: "boolean", default: false },
  exhaustive: { type: "boolean", default: false },
  workload: { type: "string" },
  crashes: { type: "string", default: "" },
  mutants: { type: "boolean", default: false },
  tested: { type: "boolean", default: false },
  named: { type: "string", default: "" },
  keep: { type: "string" },
});
const lanes = Number(flags.lanes);
const from = Number(flags.from);
const say = (line: string): void => void process.stdout.write(`${line}\n`);

function table(rows: readonly (readonly (string | number)[])[]): void {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => String(row[i]).length)));
  for (const row of rows)
    say(
      row
        .map((cell, i) => String(cell).padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    );
}

async function one(plan: Plan): Promise<boolean> {
  const bench = new Bench();
  try {
    const result = await bench.run(plan, { trace: flags.trace });
    for (const line of result.trace) say(line);
    table([
      ["outcomes", result.outcomes.join(", ")],
      ["boundaries", result.boundaries],
      ["crashes", result.crashes],
      ["orders", result.creates],
      ["billed", `${(result.billedMs / 1000).toFixed(0)} virtual s`],
      ["history", result.hash],
      ["failures", result.failures.length === 0 ? "none" : result.failures.join("; ")],
    ]);
    return result.failures.length === 0;
  } finally {
    bench.close();
  }
}

async function seeds(count: number): Promise<boolean> {
  const began = performance.now();
  let toldAt = 0;
  const counts = await runSeeds(from, count, lanes, (soFar) => {
    if (soFar.runs - toldAt < 5_000) return;
    toldAt = soFar.runs;
    process.stderr.write(`${soFar.runs} runs, ${soFar.failures.length} failures\n`);
  });
  const seconds = (performance.now() - began) / 1000;
  table([
    ["seeds", `${from} to ${from + count - 1}`],
    ["runs", `${counts.runs}, ${(counts.runs / seconds).toFixed(0)}/s on ${lanes} lanes`],
    ["boundaries", counts.boundaries],
    ["crashes", counts.crashes],
    ["orders", counts.creates],
    ...Object.entries(counts.outcomes).toSorted(([a], [b]) => a.localeCompare(b)),
    ...costRows(counts.costs),
    ["failures", counts.failures.length],
  ]);
  for (const { seed, what } of counts.failures.slice(0, 20))
    say(`seed ${seed}: ${what}\n  node scripts/sim.ts --seed ${seed} --trace`);
  return counts.failures.length === 0;
}

async function everyCrash(): Promise<boolean> {
  const counts = await runExhaustive(
    WORKLOADS.map((workload) => ({ workload, pairs: "all" })),
    lanes,
  );
  table([
    ["workload", "boundaries", "one crash", "two crashes", "failures"],
    ...counts.map((c) => [c.workload, c.boundaries, c.once, c.twice, c.failures.length]),
  ]);
  for (const c of counts)
    for (const f of c.failures.slice(0, 5)) say(`${c.workload}, crashes ${f.crashes.join(",")}: ${f.what}`);
  return counts.every((c) => c.failures.length === 0);
}

async function mutants(count: number): Promise<boolean> {
  const isNamed = ({ name }: { name: string }): boolean => name.includes(flags.named);
  const told = ({ name, seed, runs }: Score): void =>
    void process.stderr.write(`${name}: ${seed === null ? `not in ${runs} seeds` : `seed ${seed}`}\n`);
  const scores = flags.tested
    ? await scoreByTests(TESTED_MUTANTS.filter(isNamed), lanes, told)
    : await score(MUTANTS.filter(isNamed), { from, count }, lanes, told);
  table([
    ["defect", flags.tested ? "noticed" : "noticed at seed", "as"],
    ...scores.map((s) => [s.name, s.seed ?? `not in ${s.runs} ${flags.tested ? "run" : "seeds"}`, s.what]),
  ]);
  const caught = scores.filter((s) => s.seed !== null);
  say(
    `\ncaught ${caught.length} of ${scores.length}, first at seed ${Math.min(...caught.map((s) => s.seed ?? Infinity))}`,
  );
  if (flags.keep !== undefined) appendFileSync(flags.keep, `${JSON.stringify(playOf(scores, count))}\n`);
  return caught.length === scores.length;
}

function playOf(scores: readonly Score[], count: number): Play {
  const found = scores.flatMap(({ name, seed, what }) => (seed === null ? [] : [[name, { seed, what }] as const]));
  return {
    day: new Date().toISOString().slice(0, 10),
    commit: commitHere(),
    by: flags.tested ? "tests" : "simulation",
    ...(!flags.tested && { up_to: count }),
    named: flags.named,
    count: scores.length,
    missed: scores.filter(({ seed }) => seed === null).map(({ name }) => name),
    ...(!flags.tested && { seeds: Object.fromEntries(found) }),
  };
}

const isWorkload = (name: string): name is Workload => (WORKLOADS as readonly string[]).includes(name);

const fine = flags.mutants
  ? await mutants(Number(flags.seeds ?? 2_000))
  : flags.exhaustive
    ? await everyCrash()
    : flags.workload !== undefined && isWorkload(flags.workload)
      ? await one(idealPlan(flags.workload, flags.crashes.split(",").filter(Boolean).map(Number)))
      : flags.seed !== undefined
        ? await one(randomPlan(Number(flags.seed)))
        : await seeds(Number(flags.seeds ?? 2_000));
process.exitCode = fine ? 0 : 1;
