// Shows what budgets held to, as lines in a terminal and as a page. `npm run campaign -- --only budgets` calls it.

import { jsonLinesIn } from "../../scripts/lib/json-lines.ts";
import { ALLOWED_SECONDS, BUDGET_FAULTS, MODES, nameOfBudget, type BudgetOutcome, type Mode } from "./budget-cell.ts";

/** The results in a file, the last one of each seed. */
export function budgetsIn(file: string): BudgetOutcome[] {
  const outcomes = jsonLinesIn<BudgetOutcome>(file);
  return [...new Map(outcomes.map((outcome) => [outcome.cell.seed, outcome])).values()];
}

export const budgetLine = ({ cell, machines, overSeconds, came, wrong, dir }: BudgetOutcome): string =>
  `${wrong.length === 0 ? "ok  " : "FAIL"} ${nameOfBudget(cell)}: ${seconds(overSeconds)} s over, ${machines} machines${came === "" ? "" : `, ${came}`}${wrong.length === 0 ? "" : `; ${wrong.join("; ")}; its home: ${dir}`}`;

const seconds = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(1)}`;

const ABOUT: Readonly<Record<Mode, string>> = {
  alive: "the control plane lives",
  killed: "killed for ever (`kill -9`)",
  asleep: "asleep for ever (`SIGSTOP`)",
};

function rowOf(name: string, outcomes: readonly BudgetOutcome[], allowed: string): string[] {
  const over = outcomes.map(({ overSeconds }) => overSeconds).toSorted((a, b) => a - b);
  const [p50, worst] = [over[Math.floor(over.length / 2)], over.at(-1)];
  if (p50 === undefined || worst === undefined) return [];
  const wrong = outcomes.filter((outcome) => outcome.wrong.length > 0).length;
  return [`| ${name} | ${outcomes.length} | ${seconds(p50)} | ${seconds(worst)} | ${allowed} | ${wrong} |`];
}

const HEAD = ["runs", "p50, s", "worst, s", "allowed, s", "wrong"].join(" | ");

/** Runs that got no machine cost nothing, and show nothing. */
const withMachines = (all: readonly BudgetOutcome[]): BudgetOutcome[] => all.filter(({ machines }) => machines > 0);

export function budgetTable(all: readonly BudgetOutcome[]): string {
  const rows = MODES.flatMap((mode) => {
    const mine = withMachines(all).filter(({ situation }) => situation === mode);
    return rowOf(ABOUT[mode], mine, String(ALLOWED_SECONDS[mode]));
  });
  return [`| situation | ${HEAD} |`, "| --- | --- | --- | --- | --- | --- |", ...rows].join("\n");
}

export function budgetPage(all: readonly BudgetOutcome[]): string {
  const shown = withMachines(all);
  const seeds = all.map(({ cell }) => cell.seed).toSorted((a, b) => a - b);
  const faults = Object.keys(BUDGET_FAULTS).flatMap((fault) => {
    const mine = shown.filter(({ cell }) => cell.fault === fault);
    return rowOf(`\`${fault}\``, mine, "as above");
  });
  const moved = shown.filter(({ machines }) => machines > 1).length;
  return `<!-- Written by \`npm run campaign -- --only budgets --keep docs/quality/campaign.jsonl\`; do not edit. -->

# Budgets

What \`budget_usd\` promises, judged by the provider's own bill: a job costs at most its budget, 5 seconds of its rate with a control plane or 10
with the machine's guard alone, and the provider's minimum (60 s at \`cloudvm\`). Each run has a simulated provider with a ledger of its own, machines
that boot and run in real time, a budget for 80 to 150 seconds, a fault of the [matrix](fault-matrix.md), and a moment at which the control plane
dies or sleeps and never comes back; a seed draws all of them. Lists have one machine on a page.

${budgetTable(all)}

A negative number is money that was left, in seconds of the rate: with a control plane a run ends early, because it keeps 15 s for the release, and the script's grace besides.
${all.length} runs, seeds ${seeds[0] ?? "none"} to ${seeds.at(-1) ?? "none"}, of which ${all.length - shown.length} got no machine, and ${moved} had more than one. A run whose drawn
moment never came counts as one with a control plane. The computer had two cores and much other work at the time, so that starts took up to minutes.

One again: \`npm run campaign -- --only budgets --seed S --runs 1\`.

## By fault

| fault | ${HEAD} |
| --- | --- | --- | --- | --- | --- |
${faults.join("\n")}

An order whose answer is lost while svc is away counts what it may have cost at most, unless a list that was taken in time shows that nothing was
rented ([0035](../internals/adr/0035-an-order-counts-until-it-is-proven-to-be-none.md)); \`npm run sim\` draws this case and judges the sum of all its machines.

## Costs, against the bill

\`npm run sim -- --seeds 1000\`: after each world, costs by day, month, provider, project, label and GPU, before and after they are added to the sums of the
home, must equal the receipts to the micro-dollar, and each receipt the simulated provider's price over the time from the order to the proof. Besides the
time in which a machine existed, which its bill has, this counts by design: the time from its order until it existed, the time from its end until svc had the proof, and
the provider's minimum. Seeds 1 to 1000 (1,682 crashes, 3,012 orders):

| | dollars |
| --- | --- |
| the bill of 2,758 machines at the simulated providers | 1,793.96 |
| from the order until the machine existed | 4.83 |
| from its end until the proof, lost and refused releases included | 191.23 |
| provider minimums | 1.02 |
| what costs, receipts and all groups show | 1,991.04 |
| difference | 0.00 |

136 further machines are on no receipt: the provider made two of one order, and a sweep ended the second; or they ended before any list showed them,
and count at most as an estimate.

## What is not promised

| what | why, and what happens |
| --- | --- |
| the machine never boots, and the control plane is gone | nothing runs on it that could end it. At \`cloudvm\` the provider's own time limit ends it; elsewhere \`svc reconcile\` or the provider's page. Not drawn without a control plane |
| a price rises, or is higher than the offer said, and the control plane is gone | the machine does not know its price: its deadline is that of the last contact, or of the offer. The bill passes the budget by the same factor. Not drawn without a control plane |
| the provider refuses every call of the machine to end itself | it tries every 5 s, after five tries every 17 s. At \`podhost\` and \`market\` it stops itself where it may not delete itself: its GPUs cost nothing then, its disk does until svc or you remove it. \`delete_errors\` refuses for a minute here |
| the disk of a halted machine | cents a day, at \`cloudvm\`, and where a machine could only stop itself; not in the bill of this page |
| a machine without network at its deadline | it ends when its call arrives; at \`cloudvm\` it needs none |
| traffic, tax, the provider's rounding | not in any price that svc can read |
`;
}
