// The words for sums of money and time, which the report and the receipt of `svc costs` share.

import { dollars } from "../../../errors/dollars.ts";
import { WASTE_KINDS, WASTE_WORDS } from "../../../schemas/cost-names.ts";
import type { CostTotal } from "../../../schemas/costs.ts";
import { duration } from "../../text.ts";

/** The known cost; `unknown` where no price is known, and a mark where some are. */
export function knownCost({ cost_usd, machines_without_price, hours_without_price }: CostTotal): string {
  if (cost_usd === null) return "unknown";
  return machines_without_price > 0 || hours_without_price > 0 ? `> ${dollars(cost_usd)}` : dollars(cost_usd);
}

/** The least amount that `dollars` shows. */
const LEAST_USD = 1e-6;

/** Each cause that cost something. */
export const wasteWords = ({ waste }: Pick<CostTotal, "waste">): string =>
  WASTE_KINDS.filter((kind) => waste[kind] >= LEAST_USD)
    .map((kind) => `${WASTE_WORDS[kind]} ${dollars(waste[kind])}`)
    .join(", ");

export const hoursOf = ({ hours }: Pick<CostTotal, "hours">): string => duration(hours * 3_600_000);
