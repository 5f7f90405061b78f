// Money. Inside svc it is whole micro-dollars, so that sums are exact; people and the API read dollars. `null` is a
// price that the provider did not report: the cost of such a machine is unknown and never shown as $0.00.

import { dollarParts, dollars, exactDollars } from "../errors/dollars.ts";

const MICRO = 1e6;
const HOUR_MS = 3_600_000;

export const usdOf = (micro: number): number => micro / MICRO;
export const usdOrNull = (micro: number | null): number | null => (micro === null ? null : usdOf(micro));

/** Rounds to the nearest micro-dollar. */
export const microOf = (usd: number): number => Math.round(usd * MICRO);

/** Written so that NaN fails: a price that is not a number is never within the cap. */
export const isWithinCap = (priceMicro: number, capUsd: number): boolean => priceMicro <= capUsd * MICRO;

/** Dollars per hour. */
const PRICE_MAX = 1_000_000;

/** Dollars per hour as integer micro-dollars; null for anything that is not a finite number of 0 or more. */
export function priceMicroOf(usd: unknown): number | null {
  if (typeof usd !== "number" || !Number.isFinite(usd) || usd < 0 || usd > PRICE_MAX) return null;
  // Upwards: a price above the cap must not be rounded onto it.
  return Math.max(0, Math.ceil(usd * MICRO - 1e-6));
}

const NUMBER = /^\+?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/**
 * The price of a machine that is rented already, in integer micro-dollars per hour; null if it cannot be read. More is accepted than from
 * an offer, because such a machine costs money in any case: a number in text, and a price above the maximum, which counts as the maximum.
 * No provider rents out for nothing: 0 is a price that it does not know.
 */
export function rentMicroOf(usd: unknown): number | null {
  const told = typeof usd === "string" && NUMBER.test(usd.trim()) ? Number(usd) : usd;
  return priceMicroOf(typeof told === "number" && told > PRICE_MAX ? PRICE_MAX : told) || null;
}

/** The cost in dollars of `ms` at a price per hour. */
export const costOver = (priceMicro: number, ms: number): number => (Math.max(0, ms) / HOUR_MS) * usdOf(priceMicro);

/** The ledger's record of a machine's price over time. */
export interface PricedTime {
  price_micro: number | null;
  /** Micro-dollars owed up to `priced_at`. A home of the first schema lacks this column. */
  spent_micro: number | undefined;
  /** Since when `price_micro` is the price; null or undefined: since `created_at`. */
  priced_at: number | null | undefined;
  created_at: number;
  held_at: number | null;
  released_at: number | null;
}

/**
 * The dollars owed for one machine, from its order until the provider proved its end (or until now). A machine without
 * a reported price adds nothing.
 */
export function costUsd(row: PricedTime, now: number): number {
  const spent = usdOf(row.spent_micro ?? 0);
  if (row.price_micro === null || row.held_at === null) return spent;
  return spent + costOver(row.price_micro, (row.released_at ?? now) - (row.priced_at ?? row.created_at));
}

/** The cost of a run, for people: `$0.40`; `unknown` or `> $0.40` if the price of a machine was not reported. */
export function costText(job: {
  cost_usd: number;
  machines: readonly { price_per_hour_usd: number | null }[];
}): string {
  if (job.machines.every((machine) => machine.price_per_hour_usd !== null)) return dollars(job.cost_usd);
  return job.cost_usd > 0 ? `> ${dollars(job.cost_usd)}` : "unknown";
}

/** The cost of a run next to its budget, for people: `$0.31 of $2.00`; without a budget as `costText`. */
export function spentText(job: {
  cost_usd: number;
  machines: readonly { price_per_hour_usd: number | null }[];
  budget_usd: number | null;
  spent_usd: number | null;
}): string {
  const { budget_usd: budget, spent_usd: spent } = job;
  if (budget === null) return costText(job);
  return `${spent === null ? costText(job) : dollarParts(budget, [spent])[0]} of ${exactDollars(budget)}`;
}
