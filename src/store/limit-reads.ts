// Reads the limits of a home, what counts under them now, and the runs that wait. The engine decides by these reads within a transaction, and
// the API shows them. Loads neither a query builder nor zod, as `open-reads.ts`.

import { isBilled } from "../providers/descriptors.ts";
import { localCalendar, monthOf, type Calendar } from "../domain/calendar.ts";
import { cellsOf } from "../domain/costs.ts";
import { claimOf, claimOfOpen, countsUnderLimits, type StartSeconds } from "../domain/limit-claims.ts";
import { NO_LIMITS, NOTHING_TAKEN, plus, type Amounts, type Waiter } from "../domain/limits.ts";
import { priceMicroOf, usdOf } from "../domain/money.ts";
import { isMoney, LIMIT_NAMES, type LimitName } from "../schemas/limit-names.ts";
import type { HomeLimits, LimitUse } from "../schemas/limits.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { storedCost } from "./cost-reads.ts";
import { readStartTimes } from "./placement-reads.ts";
import { haveLimits, readWaits, waitOf } from "./limit-waits.ts";
import type { All, JobRow, MachineRow } from "./tables.ts";

export function readLimits(all: All): Amounts {
  if (!haveLimits(all)) return NO_LIMITS;
  const rows = all<{ name: string; value: number }>("SELECT name, value FROM home_limit");
  return { ...NO_LIMITS, ...Object.fromEntries(rows.map(({ name, value }) => [name, value])) };
}

export interface Accounts {
  limits: Amounts;
  /** Spent in the period, or held now. */
  used: Amounts;
  /** Open runs may still need this in addition; null if that is unknown. */
  reserved: Amounts;
  /** Machines that exist and whose price is unknown: at most their cap is reserved for them. */
  unpriced: number;
  waiters: Waiter[];
}

interface Counted {
  now: number;
  calendar: Calendar;
  startSeconds: StartSeconds;
  /** A job that is left out of the sums. */
  without?: string;
}

/** The sums of the open runs and of the period, and the claims of the runs that wait. */
export function readAccounts(all: All, { now, calendar, startSeconds, without }: Counted): Accounts {
  const today = calendar.dayOf(now);
  const waits = readWaits(all);
  const waiting = new Map(waits.map((row) => [row.job_id, row]));
  const rows = all<MachineRow>(
    "SELECT * FROM machine WHERE released_at IS NULL OR job_id IN (SELECT id FROM job WHERE state <> 'terminal')",
  ).filter(({ provider }) => isBilled(provider));
  const machines = Map.groupBy(rows, ({ job_id }) => job_id);
  const jobs = all<JobRow>("SELECT * FROM job WHERE state <> 'terminal' ORDER BY id");
  const held = { rateMicro: 0, machines: 0, gpus: 0, unpriced: 0 };
  let reserved = NOTHING_TAKEN;
  const waiters = new Map<string, Waiter>();
  for (const job of jobs) {
    const spec: RunSpec = specOf(job);
    const own = machines.get(job.id) ?? [];
    machines.delete(job.id);
    const wait = waiting.get(job.id);
    if (wait !== undefined) {
      // Only a kill continues a parked run.
      if (job.parked === null)
        waiters.set(job.id, { id: job.id, claim: claimOf(spec, startSeconds), passes: wait.passes });
      continue;
    }
    if (job.id === without || !countsUnderLimits(spec)) continue;
    const { held: has, claim } = claimOfOpen(spec, own, now, startSeconds);
    held.rateMicro += has.rateMicro;
    held.machines += has.machines;
    held.gpus += has.gpus;
    held.unpriced += has.unpriced;
    reserved = plus(reserved, {
      ...claim,
      usd_per_hour: claim.usd_per_hour === null ? null : claim.usd_per_hour - has.rateMicro,
      max_machines: (claim.max_machines ?? 0) - has.machines,
      max_gpus: (claim.max_gpus ?? 0) - has.gpus,
    });
  }
  // Machines that no open run owns; the sweep ends them.
  for (const orphan of [...machines.values()].flat()) {
    held.rateMicro += orphan.price_micro ?? 0;
    held.machines += 1;
    held.unpriced += orphan.price_micro === null ? 1 : 0;
  }
  return {
    limits: readLimits(all),
    used: {
      usd_per_day: spentSince(all, today, now, calendar),
      usd_per_month: spentSince(all, `${monthOf(today)}-01`, now, calendar),
      usd_per_hour: held.rateMicro,
      max_machines: held.machines,
      max_gpus: held.gpus,
    },
    reserved,
    unpriced: held.unpriced,
    waiters: waits.flatMap(({ job_id }) => waiters.get(job_id) ?? []),
  };
}

/**
 * Micro-dollars of all machines since the start of a day, at the user's rate where no price is reported. Days that are in the future count:
 * they are those of a clock that was set back since.
 */
function spentSince(all: All, from: string, now: number, calendar: Calendar): number {
  const isCurrent = all("SELECT 1 FROM cost_zone WHERE zone = ?", calendar.zone).length > 0;
  const [sum] = isCurrent
    ? all<{ micro: number }>(
        "SELECT coalesce(sum(micro + estimate_micro), 0) AS micro FROM cost_sum WHERE dim = 'day' AND day >= ?",
        from,
      )
    : [{ micro: 0 }];
  const isIn = ({ day }: { day: string }): boolean => day >= from;
  const of = (cells: readonly { day: string; micro: number; estimateMicro: number }[]): number =>
    cells.filter(isIn).reduce((total, cell) => total + cell.micro + cell.estimateMicro, 0);
  const stored = isCurrent
    ? all<{ cells: string }>("SELECT m.cells AS cells FROM cost_open o CROSS JOIN cost_machine m ON m.name = o.name")
    : [];
  const changed = stored.reduce((total, { cells }) => total + of(storedCost(cells).cells), 0);
  const open = isCurrent
    ? all<MachineRow & { rate: number | null }>(
        "SELECT m.*, j.spec ->> 'rate_usd_per_hour' AS rate FROM cost_open o CROSS JOIN machine m ON m.name = o.name LEFT JOIN job j ON j.id = m.job_id",
      )
    : all<MachineRow & { rate: number | null }>(
        "SELECT m.*, j.spec ->> 'rate_usd_per_hour' AS rate FROM machine m LEFT JOIN job j ON j.id = m.job_id",
      );
  const present = open.reduce((total, { rate, ...machine }) => {
    const spans = [{ kind: "work" as const, from: machine.created_at }];
    const bills = isBilled(machine.provider);
    return total + of(cellsOf({ ...machine, bills }, spans, priceMicroOf(rate), now, calendar));
  }, 0);
  return Math.max(0, (sum?.micro ?? 0) - changed + present);
}

const shown = (name: LimitName, amount: number | null): number | null =>
  amount !== null && isMoney(name) ? usdOf(amount) : amount;

export function readHomeLimits(all: All, now: number): HomeLimits {
  const startSeconds: StartSeconds = (provider, gpus) => readStartTimes(all, provider, gpus)?.seconds ?? null;
  const { limits, used, reserved, unpriced } = haveLimits(all)
    ? readAccounts(all, { now, calendar: localCalendar, startSeconds })
    : { limits: NO_LIMITS, used: NOTHING_TAKEN, reserved: NOTHING_TAKEN, unpriced: 0 };
  const use = (name: LimitName): LimitUse => {
    const [limit, has, more] = [limits[name], used[name] ?? 0, reserved[name]];
    return {
      limit: shown(name, limit),
      used: shown(name, has) ?? 0,
      reserved: shown(name, more),
      left: limit === null || more === null ? null : shown(name, Math.max(0, limit - has - more)),
    };
  };
  const [day, month, hour, machines, gpus] = LIMIT_NAMES;
  const waits = readWaits(all);
  return {
    usd_per_day: use(day),
    usd_per_month: use(month),
    usd_per_hour: use(hour),
    max_machines: use(machines),
    max_gpus: use(gpus),
    machines_without_price: unpriced,
    waiting: waits.map((row, index) => ({ job_id: row.job_id, ...waitOf(row, index + 1, waits.length) })),
  };
}
