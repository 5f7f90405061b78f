// Adds up a run's budget for its page. Between two readings of the record it continues at the present rate, up to the time at
// which svc will ask the script to stop.

import { WARNINGS } from "../../../src/domain/budget.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { isActive } from "../status.ts";

type Spending = Pick<
  JobRecord,
  "status" | "budget_usd" | "spent_usd" | "budget_kept_usd" | "rate_usd_per_hour" | "budget_stops_at"
>;

export interface BudgetSums {
  budgetUsd: number;
  spentUsd: number;
  keptUsd: number;
  leftUsd: number;
  /** Spent and kept, as shares of the budget from 0 to 1. */
  spent: number;
  kept: number;
  /** The highest share in percent that a warning names and that is spent; 0 for none. */
  warning: number;
}

const HOUR_MS = 3_600_000;

/** Null without a budget, or if the spent amount is unknown. @param now milliseconds since the epoch */
export function budgetSums(job: Spending, now: number): BudgetSums | null {
  const { budget_usd: budgetUsd, spent_usd: known } = job;
  if (budgetUsd === null || known === null) return null;
  const keptAtMost = job.budget_kept_usd ?? 0;
  const left = leftAt(job, now);
  // The record may be newer than the clock of the page.
  const spentUsd = left === null ? known : Math.max(known, budgetUsd - keptAtMost - left);
  const keptUsd = Math.min(keptAtMost, Math.max(0, budgetUsd - spentUsd));
  return {
    budgetUsd,
    spentUsd,
    keptUsd,
    leftUsd: Math.max(0, budgetUsd - spentUsd - keptUsd),
    spent: Math.min(1, spentUsd / budgetUsd),
    kept: keptUsd / budgetUsd,
    warning: WARNINGS.findLast((percent) => (spentUsd / budgetUsd) * 100 >= percent) ?? 0,
  };
}

/** Null if the present rate does not tell. */
function leftAt(job: Spending, now: number): number | null {
  const { budget_stops_at: at, rate_usd_per_hour: rate } = job;
  if (!isActive(job) || at === null || rate === null) return null;
  return (rate * Math.max(0, Date.parse(at) - now)) / HOUR_MS;
}
