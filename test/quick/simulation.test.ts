// The first twenty of the thousand seeds of test/sim/simulation.test.ts, a crash of the control plane at each boundary of one run, and
// whether the mutants still fit the sources.

import { expect, it } from "vitest";
import { runExhaustive, runSeeds } from "../sim/fleet.ts";
import { MUTANTS, patched } from "../sim/mutants.ts";
import { TESTED_MUTANTS } from "../sim/tested-mutants.ts";
import { WORKLOADS } from "../sim/plan.ts";

const SEEDS = 20;
const FROM = Number(process.env["SVC_SIM_FROM"] ?? 1);

it(`A simulated control plane strands, doubles and loses nothing in ${SEEDS} random seeds`, async () => {
  const counts = await runSeeds(FROM, SEEDS, 1);
  expect(counts.failures, `replay: node scripts/sim.ts --seed ${counts.failures[0]?.seed} --trace`).toEqual([]);
  expect(counts.runs).toBe(SEEDS);
});

it("A simulated control plane that is killed at each boundary strands, doubles and loses nothing", async () => {
  const [workload] = WORKLOADS;
  const [counts] = await runExhaustive([{ workload, pairs: "none" }], 1);
  expect(counts?.failures).toEqual([]);
  expect(counts?.once).toBe(counts?.boundaries);
});

it("Each mutant of the simulation fits the sources", () => {
  const misfits = [...MUTANTS, ...TESTED_MUTANTS.map((mutant) => ({ ...mutant, main: false }))].flatMap((mutant) => {
    try {
      patched(mutant);
      return [];
    } catch (e) {
      return [String(e)];
    }
  });
  expect(misfits).toEqual([]);
});
