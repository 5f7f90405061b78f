// An invariant that no deliberate defect breaks may be one that no test holds.

import { describe, expect, test } from "vitest";
import { brokenRules, rulesOfHeads } from "./sim/rules.ts";
import { MUTANTS } from "./sim/mutants.ts";
import { TESTED_MUTANTS } from "./sim/tested-mutants.ts";
import { UNBROKEN_RULES } from "./sim/unbroken-rules.ts";

describe("Invariants in the heads of source files", () => {
  const all = rulesOfHeads();
  const broken = brokenRules();

  test("Each has a defect that tests or the simulation notice, or stands in test/sim/unbroken-rules.ts with the reason", () => {
    expect(all.length).toBeGreaterThan(300);
    expect(all.filter((rule) => !broken.has(rule) && !(rule in UNBROKEN_RULES))).toEqual([]);
  });

  test("The list of those without a defect names only invariants that exist and have none", () => {
    expect(Object.keys(UNBROKEN_RULES).filter((rule) => broken.has(rule) || !all.includes(rule))).toEqual([]);
  });

  test("A file states no label twice, and a defect names only invariants that exist", () => {
    expect(all.filter((rule, at) => all.indexOf(rule) !== at)).toEqual([]);
    const named = [...MUTANTS, ...TESTED_MUTANTS].flatMap(({ rules }) => rules ?? []);
    expect(named.filter((rule) => !all.includes(rule))).toEqual([]);
  });
});
