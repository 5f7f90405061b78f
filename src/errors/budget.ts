// Errors about the budget of a run, and about changes of a live run.

import { entry } from "./entry.ts";
import { dollarParts, dollars, exactDollars } from "./dollars.ts";

export const BUDGET = {
  budget_reached: entry<{ budget: number; spent: number; kept: number; why?: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => {
      const [spent, kept] = dollarParts(d.budget, [d.spent, d.kept]);
      return `The run reached its budget of ${exactDollars(d.budget)}: ${spent} was spent, and svc kept ${kept} for the end.${d.why === undefined ? "" : ` ${d.why}`}`;
    },
    hint: "svc asks the script to save and stop, downloads its files and releases the machine. Submit the run again with resume_from and a higher budget_usd; it continues from the last complete checkpoint.",
  }),
  budget_too_small: entry<{
    budget: number;
    needs: number;
    rate: number;
    start_seconds: number;
    end_seconds: number;
    minimum_seconds: number;
  }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => {
      const least = d.minimum_seconds > 0 ? `, with a minimum of ${d.minimum_seconds} s` : "";
      return `A budget of ${exactDollars(d.budget)} is too small: the run needs at least ${dollars(d.needs, d.budget)} at ${dollars(d.rate)}/h, for ${d.start_seconds} s until the script starts and ${d.end_seconds} s for the end${least}.`;
    },
    hint: "Nothing was rented. Raise budget_usd, or choose a cheaper machine.",
  }),
  budget_rate_unknown: entry<{ provider: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) =>
      `svc cannot hold a budget at ${d.provider}, which reports no price. Nothing was rented and nothing costs money.`,
    hint: "Give the price of one machine as rate_usd_per_hour, in the run or in the credential's `extra`; or leave budget_usd out.",
  }),
  change_refused: entry<{ id: string; field: string; why: string }>({
    status: 409,
    exit: 2,
    retry: "never",
    message: (d) => `${d.field} of the run ${d.id} cannot be changed: ${d.why}. Nothing was changed.`,
    hint: "`svc jobs` shows the run. A run that has ended accepts only a label and tags; submit it again with resume_from to continue.",
  }),
};
