// Errors about the limits of a home.

import { dollars, exactDollars } from "./dollars.ts";
import { entry } from "./entry.ts";

/** These limits count; the others are dollars. */
const COUNTED = new Set(["max_machines", "max_gpus"]);

const amountOf = (limit: string, amount: number): string => (COUNTED.has(limit) ? String(amount) : dollars(amount));
const limitOf = (limit: string, amount: number): string => (COUNTED.has(limit) ? String(amount) : exactDollars(amount));

export const HOME_LIMITS = {
  limit_never_fits: entry<{ limit: string; of: number; needs: number; field: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) =>
      `The run may need ${amountOf(d.limit, d.needs)}, and the limit ${d.limit} of this home is ${limitOf(d.limit, d.of)}. It could never start, so it was refused. Nothing was rented.`,
    hint: (d) => `Lower ${d.field}, or raise ${d.limit} with \`svc limits set\`. \`svc limits\` shows all limits.`,
  }),
  limit_cost_unknown: entry<{ limit: string; of: number; field: string; provider: string | null }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) =>
      d.provider === null
        ? `Nothing bounds what the run may cost, and the limit ${d.limit} of this home is ${exactDollars(d.of)}. Nothing was rented.`
        : `svc cannot tell what the run may cost: ${d.provider} reports no price, and the limit ${d.limit} of this home is ${exactDollars(d.of)}. Nothing was rented.`,
    hint: (d) =>
      d.provider !== null
        ? "Give the price of one machine as rate_usd_per_hour, in the run or in the credential's `extra`."
        : d.field === "price_cap"
          ? "Set price_cap, the most that one machine may cost per hour."
          : "Set budget_usd, or price_cap with or without max_runtime_minutes.",
  }),
};
