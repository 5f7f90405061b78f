// Advances the sums of a run's budget by the present rate since its record was read.

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

/** Null without a budget, or if what was spent is unknown. @param sinceMs since the record was read */
export function budgetSums(job: Spending, sinceMs: number): BudgetSums | null {
  const { budget_usd: budgetUsd, spent_usd: known, rate_usd_per_hour: rate } = job;
  if (budgetUsd === null || known === null) return null;
  const spentUsd = known + (isActive(job) ? ((rate ?? 0) * Math.max(0, sinceMs)) / HOUR_MS : 0);
  const keptUsd = Math.min(job.budget_kept_usd ?? 0, Math.max(0, budgetUsd - spentUsd));
  const spent = Math.min(1, spentUsd / budgetUsd);
  return {
    budgetUsd,
    spentUsd,
    keptUsd,
    leftUsd: Math.max(0, budgetUsd - spentUsd - keptUsd),
    spent,
    kept: keptUsd / budgetUsd,
    warning: WARNINGS.findLast((percent) => (spentUsd / budgetUsd) * 100 >= percent) ?? 0,
  };
}
