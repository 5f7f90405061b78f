// Checks a job with a budget at its end, from the simulated bill, the rows and the journal; nothing here calls the code under
// test. The simulation asks for each such job.
//
// O1. The bill is at most the budget, and what the machines cost until the last look: of their guards, or of the control plane. Machines that
//     ended themselves before svc could find them are in it.
// O2. A job ends for its budget only if its rows, its end and, before an order, its start had used it up. An order counts only where a machine may have come of it:
//     one that was refused, or that no list showed while its machine would still have run, counts nothing.
// O3. Another placement begins only with enough left for its start and its end. While nothing is spent, the submission has decided that.
// O4. Nothing changes the budget once the budget has asked the run to end.

import type { JobRow, JournalRow, MachineRow } from "../../src/store/tables.ts";
import type { Cloud } from "./cloud.ts";
import { PRICE_MICRO, type JobPlan, type Plan } from "./plan.ts";

/** A guard looks every two seconds, and starts to end the machine six seconds early. */
const GUARD_MS = 2_000;
/** A termination takes up to 20 s here, and the control plane keeps 15 s for it. */
const RELEASE_LATE_MS = 12_000;
/** Grace and release; ranks of several nodes get 40 s of grace. */
const endMs = (nodes: number): number => (nodes > 1 ? 55_000 : 25_000);
/** Each machine of this provider costs a minute at least. */
const leastMs = (provider: string): number => (provider === "cloudvm" ? 60_000 : 0);
/** From the order until the script starts. */
const START_MS = 60_000;
/** Clocks, commits and the looks between them. */
const SPARE_MS = 3_000;

export interface Judged {
  job: JobRow;
  plan: JobPlan;
  journal: readonly JournalRow[];
  machines: readonly MachineRow[];
  world: Plan;
  cloud: Cloud;
}

export function wrongBudget({ job, plan, journal, machines, world, cloud }: Judged): string[] {
  const wrong: string[] = [];
  const events = journal.map((row) => ({ ...row, told: JSON.parse(row.event) as { budget_micro?: number } }));
  const changes = events.filter(({ type, told }) => type === "job.changed" && told.budget_micro !== undefined);
  const budgetAt = (at: number): number =>
    changes.findLast((change) => change.at <= at)?.told.budget_micro ?? plan.budgetMicro ?? 0;
  const highest = Math.max(plan.budgetMicro ?? 0, ...changes.map(({ told }) => told.budget_micro ?? 0));
  const cost = (ms: number): number => (PRICE_MICRO * plan.nodes * ms) / 3_600_000;

  const { micro, isDear, isDoubled } = cloud.bill(
    job.id,
    new Set(machines.flatMap(({ name, held_at }) => (held_at === null ? [] : [name]))),
  );
  const downMs = world.crashes.reduce((sum, crash) => sum + crash.downMs, 0);
  const lateMs = world.budgets?.guards === true ? GUARD_MS : RELEASE_LATE_MS + downMs;
  // The guard of a machine that costs more than its offer said learns that with its first contact.
  const factor = isDear ? 5 / 3 : 1;
  if (!isDoubled && micro > highest * factor + cost(lateMs + SPARE_MS))
    wrong.push(`its bill is ${micro.toFixed(0)}, its budget ${highest}`);

  /** An order of unknown price may have this one. */
  const assumed = Math.max(2_000_000, ...machines.map(({ price_micro }) => price_micro ?? 0));
  /** What a row counts at a moment, at the highest price that it could have then. */
  const countedOf = (row: MachineRow, at: number, isUnknown: boolean): number => {
    const price = isUnknown ? assumed : (row.price_micro ?? assumed);
    const isClosed = row.released_at !== null && row.released_at <= at;
    const isNone = row.held_at === null && isClosed && row.doubt_at === null;
    const end = isClosed ? (row.doubt_at ?? row.released_at ?? at) : at;
    const ms = Math.max(leastMs(row.provider), Math.min(end, at) - row.created_at);
    const most = isUnknown ? (row.most_micro ?? Infinity) : Infinity;
    return isNone ? 0 : Math.min(most, (Math.max(price, PRICE_MICRO) * ms) / 3_600_000);
  };
  const counted = (at: number, rows = machines): number =>
    rows.reduce((sum, row) => {
      // One instant may have the decision and the answer that showed the machine, in either order.
      const before = row.held_at === null || row.held_at >= at ? countedOf(row, at, true) : 0;
      const after = row.held_at !== null && row.held_at <= at ? countedOf(row, at, false) : 0;
      return sum + Math.max(before, after);
    }, 0);
  // Without guards in this world, svc still believes that there are some.
  for (const { name, doubt_at } of world.budgets?.guards === true ? machines : []) {
    const limitAt = doubt_at === null ? undefined : cloud.limitOf(name, doubt_at);
    if (doubt_at !== null && limitAt !== undefined && (limitAt === null || doubt_at < limitAt - SPARE_MS))
      wrong.push(`${name} counts until ${doubt_at}, and its machine would have run until ${limitAt ?? "its release"}`);
  }
  const reached = events.find(({ type, from_state: from, to_state: to }) => type === "budget.reached" && from !== to);
  const dearest = isDear ? 5 / 3 : 4 / 3;
  // Before an order, its start counts, too: a machine that could not reach its script is not rented.
  const neededMs = endMs(plan.nodes) + SPARE_MS + (reached?.from_state === "provisioning" ? START_MS : 0);
  if (reached && counted(reached.at) + cost(neededMs) * dearest < budgetAt(reached.at))
    wrong.push(`its budget was reached at ${counted(reached.at).toFixed(0)} of ${budgetAt(reached.at)}`);

  for (const [index, row] of machines.entries()) {
    const before = machines.slice(0, index).filter(({ placement }) => placement !== row.placement);
    if (before.length === 0 || row.held_at === null) continue;
    const first = machines.find(({ placement }) => placement === row.placement) === row;
    const opened = journal.findLast(({ at, from_state: from, to_state: to }) => at <= row.created_at && from !== to);
    const isSoon = opened !== undefined && row.created_at - opened.at < SPARE_MS;
    const spent = counted(row.created_at, before);
    const left = budgetAt(row.created_at) - spent * 0.999;
    // While it boots; later its handle does not say so any more.
    const isBilledLess = before.some(({ resource_id: id }) =>
      cloud.machines.some((machine) => machine.id === id && machine.bootMicro !== null),
    );
    if (first && isSoon && spent > 0 && !isBilledLess && left < cost(START_MS + endMs(plan.nodes) - SPARE_MS))
      wrong.push(`${row.name} was ordered with ${left.toFixed(0)} left of ${budgetAt(row.created_at)}`);
  }

  const late = reached && changes.find(({ seq }) => seq > reached.seq);
  if (late) wrong.push(`its budget was changed after it had been reached`);
  return wrong;
}
