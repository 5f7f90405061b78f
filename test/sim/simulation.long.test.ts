// The seeds after those of simulation.test.ts.

import { expect, test } from "vitest";
import { runSeeds } from "./fleet.ts";

const FROM = 1_001;
const SEEDS = 4_000;

test(`nothing is stranded, doubled or lost in ${SEEDS} more seeds`, { timeout: 1_800_000 }, async () => {
  const counts = await runSeeds(FROM, SEEDS, 2);
  expect(counts.failures, `replay: node scripts/sim.ts --seed ${counts.failures[0]?.seed} --trace`).toEqual([]);
  expect(counts.runs).toBe(SEEDS);
});
