// Budgets on rented machines that boot, with the provider's bill as the judge.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { expect, it } from "vitest";
import { BUDGET_SECONDS, MODES, nameOfBudget, runBudgetCell, type BudgetCell } from "./budget-cell.ts";

const AT: Record<(typeof MODES)[number], Partial<BudgetCell>> = {
  alive: {},
  killed: { at: "log", provider: "podhost", fault: "delete_errors" },
  asleep: { at: "sync.started", fault: "delete_errors" },
};

it.concurrent.for(MODES)(
  "The bill stays within the budget with a control plane that is %s",
  { timeout: 300_000 },
  async (mode) => {
    const cell: BudgetCell = {
      provider: "market",
      mode,
      fault: "none",
      faultAt: "start",
      at: "log",
      afterMs: 0,
      budgetSeconds: BUDGET_SECONDS,
      seed: 0,
      ...AT[mode],
    };
    const outcome = await runBudgetCell(cell);
    console.log(`${nameOfBudget(cell)}: ${outcome.overSeconds.toFixed(1)} s of the rate over the budget`);
    expect(outcome.wrong).toEqual([]);
    // It worked for most of its budget.
    expect(outcome.overSeconds).toBeGreaterThan(-30);
  },
);
