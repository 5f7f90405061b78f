// Checks costs and receipts at the end of a simulation against the simulated provider's own bill. The simulation asks for it once per
// world. The reports are those of the API; what is expected of them comes from the cloud's prices and instants alone.
//
// K1. A machine is on the receipt from its order until its proof, which enclose the time in which it existed, at its provider's price, with the
//     provider's minimum. The excess of svc's count over the bill is exactly the time before the machine existed and after it was gone. If the
//     provider bills less until the machine is ready, svc counts at least its bill, and at most the whole price.
// K2. Each report, by whatever it groups, sums to the receipts, before and after the rows are added to the sums of the home.
// K3. A machine that is on no receipt was made twice by its provider for one order, or ended before any list could show it.

import { localCalendar } from "../../src/domain/calendar.ts";
import { COST_DIMENSIONS } from "../../src/schemas/cost-names.ts";
import type { Receipt } from "../../src/schemas/costs.ts";
import { readCosts, readReceipt } from "../../src/store/cost-reads.ts";
import { CostStore } from "../../src/store/cost-store.ts";
import type { Sqlite } from "../../src/store/database.ts";
import { billMicro, type Cloud, type CloudMachine } from "./cloud.ts";

const HOUR_MS = 3_600_000;
const leastMs = (provider: string): number => (provider === "cloudvm" ? 60_000 : 0);

/** Micro-dollars, and numbers of machines. */
export interface CostSums {
  machines: number;
  /** The provider's bill for the machines on receipts. */
  bill: number;
  /** The sum that the reports show for them. */
  shown: number;
  /** The amount that svc counts beyond the bill by design: from the order until the machine existed, and from its end until the proof. */
  before: number;
  after: number;
  /** Counted at the whole price while the provider billed less, because svc had not looked since; with `before` and `after` of these machines. */
  boot: number;
  /** The provider's minimum, where the time of the machine is shorter. */
  minimum: number;
  /** Machines on no receipt: doubles, and those that ended unseen. */
  unseen: number;
}
export const NO_COST_SUMS: Readonly<CostSums> = {
  machines: 0,
  bill: 0,
  shown: 0,
  before: 0,
  after: 0,
  boot: 0,
  minimum: 0,
  unseen: 0,
};

export const plusCosts = (a: CostSums, b: CostSums): CostSums => ({
  machines: a.machines + b.machines,
  bill: a.bill + b.bill,
  shown: a.shown + b.shown,
  before: a.before + b.before,
  after: a.after + b.after,
  boot: a.boot + b.boot,
  minimum: a.minimum + b.minimum,
  unseen: a.unseen + b.unseen,
});

/** Rows of a table: what svc shows, and what it is made of. */
export function costRows(sums: CostSums): [string, string][] {
  const { machines, bill, shown, before, after, boot, minimum, unseen } = sums;
  const usd = (micro: number): string => `$${(micro / 1e6).toFixed(2)}`;
  return [
    ["machines on receipts", String(machines)],
    ["their bill at the provider", usd(bill)],
    ["and from the order until the machine existed", usd(before)],
    ["and from its end until the proof", usd(after)],
    ["and what was counted beyond a lower price while a machine boots", usd(boot)],
    ["and provider minimums", usd(minimum)],
    ["costs, receipts and all groups show", usd(shown)],
    ["difference", usd(shown - bill - before - after - boot - minimum)],
    ["machines made twice, or ended unseen", String(unseen)],
  ];
}

export function costsOf(db: Sqlite, jobs: readonly string[], cloud: Cloud, fail: (what: string) => void): CostSums {
  const all = <Row>(text: string, ...args: unknown[]): Row[] => db.prepare(text).all(...args) as Row[];
  const { now } = cloud.world;
  const sums = { ...NO_COST_SUMS };
  const receipts = jobs
    .map((id): Receipt | null => readReceipt(all, id, now, localCalendar))
    .filter((receipt) => receipt !== null);
  const byId = new Map(cloud.machines.map((machine) => [machine.id, machine]));
  const seen = new Set<string>();
  for (const machine of receipts.flatMap(({ machines }) => machines)) {
    const made = machine.id === null ? undefined : byId.get(machine.id);
    if (made === undefined || machine.to === null || machine.cost_usd === null) {
      if (machine.id !== null) fail(`the receipt of ${machine.name} has no price or no end`);
      continue;
    }
    seen.add(made.id);
    const [from, to] = [Date.parse(machine.from), Date.parse(machine.to)];
    const gone = made.goneAt ?? now;
    if (from > made.landedAt || to < gone) fail(`the receipt of ${machine.name} leaves out a time in which it existed`);
    const micro = (ms: number): number => (made.priceMicro * ms) / HOUR_MS;
    const owed = Math.max(micro(to - from), micro(leastMs(made.provider)));
    const shown = machine.cost_usd * 1e6;
    const bill = billMicro(made, made.landedAt, gone);
    sums.machines += 1;
    sums.shown += shown;
    sums.bill += bill;
    if (made.bootMicro !== null) {
      // Each look may round to a whole micro-dollar.
      if (shown < bill - 100 || shown > owed + 100)
        fail(`the receipt of ${machine.name} shows ${shown}, and it cost from ${bill} to ${owed}`);
      sums.boot += shown - bill;
      continue;
    }
    if (Math.abs(shown - owed) > 1) fail(`the receipt of ${machine.name} shows ${shown}, and it cost ${owed}`);
    sums.before += micro(made.landedAt - from);
    sums.after += micro(to - gone);
    sums.minimum += owed - micro(to - from);
  }
  const lost = (made: CloudMachine): boolean => !made.foreign && !seen.has(made.id);
  for (const made of cloud.machines.filter(lost)) {
    sums.unseen += 1;
    const row = all<{ n: number }>(
      "SELECT count(*) AS n FROM machine WHERE name = ? AND held_at IS NOT NULL",
      made.name,
    );
    // A machine without a job is one that the sweep ended: it is in the reports, and on no receipt.
    if (!made.doubled && (row[0]?.n ?? 0) > 0) fail(`${made.name} was held, and is on no receipt`);
  }
  const owed = receipts.flatMap(({ machines }) => machines).reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0);
  const agree = (when: string): void => {
    for (const by of COST_DIMENSIONS) {
      const { groups, total } = readCosts(all, { by }, now, localCalendar);
      const sum = groups.reduce((usd, { cost_usd }) => usd + (cost_usd ?? 0), 0);
      for (const [what, usd] of [["groups", sum] as const, ["total", total.cost_usd ?? 0] as const])
        if (Math.abs(usd - owed) > 1e-6) fail(`the ${what} by ${by} are ${usd} ${when}, the receipts ${owed}`);
    }
  };
  agree("before the rows are added");
  const store = new CostStore(db);
  store.useZone(localCalendar.zone);
  while (store.addSome(100, now, localCalendar) === 100);
  agree("after the rows were added");
  return sums;
}
