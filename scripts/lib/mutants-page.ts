// Shows the deliberate defects as a page: which invariant each breaks, what notices it, and when all of them were last played.

import { jsonLinesIn } from "./json-lines.ts";
import { brokenRules, rulesOfHeads } from "../../test/sim/rules.ts";
import { MUTANTS } from "../../test/sim/mutants.ts";
import { TESTED_MUTANTS } from "../../test/sim/tested-mutants.ts";
import { UNBROKEN_RULES } from "../../test/sim/unbroken-rules.ts";

/** One play of defects, stored as one line of a file. */
export interface Play {
  /** The day of its end, in UTC. */
  day: string;
  /** The abbreviated commit of the program under test. */
  commit: string;
  by: "simulation" | "tests";
  /** Of the simulation: how many seeds each defect had at most. */
  up_to?: number;
  /** The filter on the names of the played defects; empty for all. */
  named: string;
  count: number;
  /** The names of the defects that nothing noticed. */
  missed: string[];
  /** Of the simulation: the first seed that noticed each defect, and its words. */
  seeds?: Record<string, { seed: number; what: string }>;
}

/** The plays in a file. */
export const playsIn = (file: string): Play[] => jsonLinesIn(file);

const table = (heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string =>
  [
    `| ${heads.join(" | ")} |`,
    `|${" --- |".repeat(heads.length)}`,
    ...rows.map((row) => `| ${row.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`),
  ].join("\n");

/** `provision R1: the intent …` as `provision`, `R1` and the rest; the label may be absent. */
function partsOf(name: string): { head: string; label: string; what: string } {
  const [, head = "", label = "", what = ""] = /^(.*?)(?: ([A-Z]{1,3}\d+))?: (.*)$/s.exec(name) ?? [];
  return { head, label, what };
}

const testName = (test: string): string =>
  (test.split(" > ")[0] ?? "").replace(/^test\//, "").replace(/\.test\.ts$/, "");

/** For each head the defects by invariant, and the tests. */
function byHead(): string {
  const heads = new Map<string, { labels: Map<string, string[]>; tests: Set<string> }>();
  for (const { name, tests } of TESTED_MUTANTS) {
    const { head, label, what } = partsOf(name);
    const of = heads.get(head) ?? { labels: new Map<string, string[]>(), tests: new Set<string>() };
    heads.set(head, of);
    of.labels.set(label, [...(of.labels.get(label) ?? []), what]);
    for (const test of tests) of.tests.add(`\`${testName(test)}\``);
  }
  const rows = [...heads].map(([head, { labels, tests }]) => [
    head,
    [...labels].map(([label, whats]) => `${label === "" ? "" : `${label} `}${whats.join(", ")}`).join("; "),
    [...tests].join(", "),
  ]);
  return table(["head", "defects", "to be noticed by `test/*.test.ts`"], rows);
}

/** The invariants without a defect, by file. */
function unbroken(): string {
  const files = Map.groupBy(Object.entries(UNBROKEN_RULES), ([rule]) => rule.split(" ")[0] ?? "");
  const lines = [...files].map(
    ([file, rules]) => `- \`${file}\`: ${rules.map(([rule, why]) => `${rule.split(" ")[1]} (${why})`).join("; ")}`,
  );
  return lines.join("\n");
}

function bySimulation(plays: readonly Play[]): string {
  const seen = new Map<string, [first: number | string, what: string]>();
  for (const { seeds = {}, missed } of plays) {
    for (const name of missed) seen.set(name, ["not met", ""]);
    for (const [name, { seed, what }] of Object.entries(seeds)) seen.set(name, [seed, what]);
  }
  const rows = MUTANTS.map(({ name }) => [name, ...(seen.get(name) ?? ["not played", ""])]);
  return table(["defect", "first seed", "noticed as"], rows);
}

const playRow = ({ day, commit, by, up_to, named, count, missed }: Play): (string | number)[] => [
  day,
  commit,
  up_to === undefined ? by : `${by}, up to ${up_to} seeds`,
  named === "" ? "all" : `\`${named}\``,
  count,
  count - missed.length,
  missed.join("; "),
];

/** Whether the tests were played against defects, and the result was kept. */
const played = (plays: readonly Play[]): boolean => plays.some(({ by }) => by === "tests");

/** The page. @param plays in the order in which they were kept */
export function mutantsPage(notice: string, plays: readonly Play[]): string {
  const all = rulesOfHeads();
  const broken = brokenRules();
  const held = all.filter((rule) => broken.has(rule)).length;
  const own = Object.keys(UNBROKEN_RULES).length;
  return `${notice}

# Deliberate defects

Each defect ("mutant") is a change of source text that fits exactly one place, made in a copy of the tree. A defect that nothing
notices shows an invariant that no test holds. The heads of source files state ${all.length} invariants: ${held} are broken by a defect here, and
${own} ${own === 1 ? "has" : "have"} none, with the reason [below](#invariants-without-a-defect). \`test/rules.test.ts\` compares the heads with the defects, and
\`test/sim/mutant-types.test.ts\` compiles each defect: one with wrong types would throw, and hide what it breaks.

- \`npm run sim -- --mutants\` plays the ${MUTANTS.length} defects of the engine in [the simulation](faults.md#the-simulation), with up to 2,000 seeds each.
- \`npm run sim -- --mutants --tested\` plays the other ${TESTED_MUTANTS.length} with the tests that must notice them, which it runs without any defect first.
  \`--named "provision R"\` plays some, \`--keep docs/quality/mutants.jsonl\` adds the result to this page.

## Played

${plays.length === 0 ? "No play is kept yet." : table(["day", "commit", "by", "which", "defects", "noticed", "not noticed"], plays.map(playRow))}

## In the simulation

The seeds are those of the worlds as they were at that commit.

${bySimulation(plays.filter(({ by }) => by === "simulation"))}

## By tests

The simulation moves no bytes, loads no old snapshots and meets some faults seldom: the heads \`late answers\`, \`rare\` and \`budgets\` have most of the defects
that it did not meet. The table names the tests that must notice each defect${played(plays) ? "" : "; no play of these defects is kept on this page"}. The guard, the runner and the
agent have their invariants in [guard.md](../internals/guard.md) and in their docstrings.

${byHead()}

## Invariants without a defect

${own === 0 ? "None." : unbroken()}
`;
}
