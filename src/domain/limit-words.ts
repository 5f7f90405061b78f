// Says in words why a run waits for a limit of the home. The record, the plan, the command line and the dashboard show it.

import { dollars, exactDollars } from "../errors/dollars.ts";
import { isMoney, type LimitName } from "../schemas/limit-names.ts";
import type { LimitReason, Shortage } from "./limits.ts";
import { usdOf } from "./money.ts";

const NOUNS: Readonly<Record<LimitName, string>> = {
  usd_per_day: "today's limit",
  usd_per_month: "this month's limit",
  usd_per_hour: "the limit per hour",
  max_machines: "the limit of machines",
  max_gpus: "the limit of GPUs",
};

const amountOf = (name: LimitName, amount: number): string =>
  isMoney(name) ? dollars(usdOf(Math.max(0, amount))) : String(Math.max(0, amount));

/** As `today's limit leaves $2.00 of $10.00, and the run may need $5.00`. */
export function shortageWords({ limit, of, taken, needs }: Shortage): string {
  const whole = isMoney(limit) ? exactDollars(usdOf(of)) : String(of);
  if (needs === null) return `svc cannot tell what the run may cost, and ${limit} is ${whole}`;
  const need = `the run may need ${amountOf(limit, needs)}`;
  if (taken === null)
    return `svc cannot tell what an open run may still cost, so ${NOUNS[limit]} of ${whole} admits no other; ${need}`;
  return `${NOUNS[limit]} leaves ${amountOf(limit, of - taken)} of ${whole}, and ${need}`;
}

/** A sentence without its full stop. */
export function limitWaitWords({ shortage, behind, never }: LimitReason): string {
  if (never && shortage !== null)
    return `Waits for another limit: ${shortageWords({ ...shortage, taken: 0 })}, so it never fits. Raise ${shortage.limit} or kill the run`;
  if (shortage !== null) return `Waits: ${shortageWords(shortage)}`;
  return behind === null ? "Waits to be let in" : `Waits: ${behind} is first, which others have passed too often`;
}
