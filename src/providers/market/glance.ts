// The offers that one search shows, for a plan that must not wait. The marketplace answers with its cheapest machines, and allows the next
// search six seconds later. A candidate that is not among them is reported as unknown, with the price above which it may have offers.

import { priceMicroOf, usdOf } from "../../domain/money.ts";
import { SvcError } from "../../errors/index.ts";
import type { Offer } from "../provider.ts";
import type { Found } from "./joint-search.ts";

/** The time from the arrival of an answer until its reader has seen it. */
const SETTLE_MS = 100;

/**
 * @param whole all searches; they continue for the next plan.
 * @param first the first of them.
 */
export async function glanceAt(
  whole: Promise<Offer[]>,
  first: Promise<Found>,
  gpus: string,
  pause: (ms: number) => Promise<void>,
): Promise<Offer[]> {
  whole.catch(() => undefined);
  const settled = first.then(async ({ fullTo }) => {
    await pause(SETTLE_MS);
    return fullTo;
  });
  const isWhole = await Promise.race([whole.then(() => true), settled.then(() => false)]);
  if (isWhole) return whole;
  const fullTo = await settled;
  const micro = fullTo === null ? null : priceMicroOf(fullTo);
  throw new SvcError("offers_unknown", { provider: "market", gpus, from: micro === null ? null : usdOf(micro) });
}
