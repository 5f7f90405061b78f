// The engine, its ledger and its steps against a faulty provider and crashes at every boundary. See docs/quality/faults.md.

import { afterAll, expect, test } from "vitest";
import { runExhaustive, runSeeds } from "./fleet.ts";
import { MUTANTS, score } from "./mutants.ts";
import { idealPlan, randomPlan, WORKLOADS } from "./plan.ts";
import { Bench } from "./bench.ts";

const LANES = 2;
/** simulation.long.test.ts runs the seeds after these. */
const SEEDS = 1_000;
/** Different seeds each day would hide a failure from the next developer; SVC_SIM_FROM sets the first seed. */
const FROM = Number(process.env["SVC_SIM_FROM"] ?? 1);

const bench = new Bench();
afterAll(() => bench.close());

test("one seed is one history", async () => {
  for (const seed of [FROM, FROM + 1, FROM + 2, FROM + 3]) {
    const [first, second] = [
      await bench.run(randomPlan(seed), { trace: true }),
      await bench.run(randomPlan(seed), { trace: true }),
    ];
    expect(second.trace, `seed ${seed}`).toEqual(first.trace);
    expect(second.hash).toBe(first.hash);
    expect(first.trace.length).toBeGreaterThan(20);
  }
  const hashes = await Promise.all([FROM, FROM + 1].map(async (seed) => (await bench.run(randomPlan(seed))).hash));
  expect(new Set(hashes).size).toBe(2);
});

test("a run without faults orders one machine per node, succeeds and pays for nothing more", async () => {
  const happy = await bench.run(idealPlan("happy", []));
  expect(happy).toMatchObject({ failures: [], outcomes: ["succeeded"], creates: 1, crashes: 0 });
  const cancelled = await bench.run(idealPlan("cancelled while running", []));
  expect(cancelled).toMatchObject({ failures: [], outcomes: ["cancelled"], creates: 1 });
  expect(cancelled.billedMs).toBeLessThan(happy.billedMs);
});

test("nothing is stranded, doubled or lost when the control plane is killed at each boundary, and at each two", async () => {
  const counts = await runExhaustive(
    WORKLOADS.map((workload) => ({ workload, pairs: "distinct" })),
    LANES,
  );
  for (const { workload, boundaries, once, twice, failures } of counts) {
    console.log(`simulation: ${workload}: ${boundaries} boundaries, ${once} runs with one crash, ${twice} with two`);
    expect(
      failures,
      `replay: node scripts/sim.ts --workload "${workload}" --crashes ${failures[0]?.crashes.join(",")} --trace`,
    ).toEqual([]);
    expect(once).toBe(boundaries);
    expect(boundaries).toBeGreaterThan(15);
    expect(twice).toBeGreaterThan(40);
  }
}, 1_500_000);

test(`nothing is stranded, doubled or lost in ${SEEDS} random seeds`, async () => {
  const counts = await runSeeds(FROM, SEEDS, LANES);
  console.log(
    `simulation: seeds ${FROM} to ${FROM + SEEDS - 1}, ${counts.crashes} crashes, ${counts.creates} orders, ${JSON.stringify(counts.outcomes)}`,
  );
  expect(counts.failures, `replay: node scripts/sim.ts --seed ${counts.failures[0]?.seed} --trace`).toEqual([]);
  expect(counts.runs).toBe(SEEDS);
  // The test is only useful while the runs reach all of these outcomes.
  for (const outcome of ["succeeded", "failed", "cancelled", "interrupted", "timed_out"])
    expect(counts.outcomes[outcome]).toBeGreaterThan(20);
  expect(counts.crashes).toBeGreaterThan(SEEDS);
}, 1_500_000);

test("it detects each of the main defects in the engine", async () => {
  const main = MUTANTS.filter((mutant) => mutant.main);
  const scores = await score(main, { from: 1, count: 600 }, LANES);
  expect(main.length).toBeGreaterThanOrEqual(9);
  expect(scores.filter(({ seed }) => seed === null).map(({ name }) => name)).toEqual([]);
}, 1_500_000);
