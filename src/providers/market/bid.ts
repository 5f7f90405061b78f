// The bid for an interruptible machine. The search turns each offer on demand into such an offer as well.
//
// B1. The bid is the least one that the marketplace takes now, and a tenth more, so that the next small rise does not end the run.
// B2. It is never above the same machine's price on demand, nor, with its disk, above the cap. If the least bid already
//     exceeds one of them, the machine is not offered as a bid.

import { priceMicroOf } from "../../domain/money.ts";
import { dollars } from "../../errors/dollars.ts";
import type { Offer } from "../provider.ts";
import type { OfferRow } from "./wire.ts";

/** Micro-dollars above the least bid: a tenth of it. */
const marginOf = (leastMicro: number): number => Math.ceil(leastMicro / 10);
/** Bids are whole tenths of a thousandth of a dollar an hour, from 0.001 to 128 (source: its API documentation, 2026). */
const STEP_MICRO = 100;
const LEAST_MICRO = 1_000;
const MOST_MICRO = 128_000_000;

/** The same machine as a bid; null if no bid is possible (B2). Prices are those of the whole machine. */
export function bidFor(offer: Offer, row: OfferRow, capUsd: number | null): Offer | null {
  const leastMicro = priceMicroOf(row.min_bid);
  if (leastMicro === null || offer.priceMicro === null) return null;
  // Without its disk.
  const onDemandMicro = priceMicroOf(row.dph_base) ?? offer.priceMicro - Number(offer.extra?.disk_micro ?? 0);
  const diskMicro = Math.max(0, offer.priceMicro - onDemandMicro);
  const capMicro = capUsd === null ? Infinity : capUsd * 1e6 - diskMicro;
  const most = Math.floor(Math.min(onDemandMicro, capMicro, MOST_MICRO) / STEP_MICRO) * STEP_MICRO;
  const least = Math.max(LEAST_MICRO, Math.ceil(leastMicro / STEP_MICRO) * STEP_MICRO);
  const bid = Math.min(most, Math.max(least, Math.ceil((leastMicro + marginOf(leastMicro)) / STEP_MICRO) * STEP_MICRO));
  if (bid < least || leastMicro >= onDemandMicro) return null;
  const onDemand = dollars(offer.priceMicro / 1e6);
  return {
    ...offer,
    priceMicro: bid + diskMicro,
    spot: true,
    facts: { ...offer.facts, terms: `a bid: whoever bids more takes the machine; ${onDemand}/h on demand` },
    extra: { ...offer.extra, bid_usd: (bid / 1e6).toFixed(4), on_demand_micro: String(offer.priceMicro) },
  };
}
