// Budgets on rented machines that boot, with the provider's bill as the judge.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { expect, it } from "vitest";
import { MODES, runBudgetCell, type BudgetCell } from "./budget-cell.ts";

const AT: Record<(typeof MODES)[number], BudgetCell["at"]> = { alive: "log", killed: "log", asleep: "sync.started" };

it.concurrent.for(MODES)(
  "The bill stays within the budget with a control plane that is %s",
  { timeout: 300_000 },
  async (mode) => {
    const outcome = await runBudgetCell({ provider: "market", mode, at: AT[mode] });
    console.log(`${mode}: ${outcome.overSeconds.toFixed(1)} s of the rate over the budget`);
    expect(outcome.wrong).toEqual([]);
    // It worked for most of its budget.
    expect(outcome.overSeconds).toBeGreaterThan(-30);
  },
);
