// How long a budget lasts, for the plan.

import { endOf } from "../domain/budget.ts";
import { lastsMs } from "../domain/billing.ts";
import { microOf } from "../domain/money.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { stopGraceSeconds } from "../domain/stop-grace.ts";

/**
 * Seconds from the order of the machines until the script is asked to stop; null without a budget or without a rate.
 * @param rateMicro per hour, of all nodes together.
 */
export function budgetLasts(spec: RunSpec, rateMicro: number): number | null {
  if (spec.budget_usd === undefined) return null;
  const ms = lastsMs(microOf(spec.budget_usd), rateMicro) - endOf(stopGraceSeconds(spec));
  return Number.isFinite(ms) ? Math.max(0, ms / 1_000) : null;
}
