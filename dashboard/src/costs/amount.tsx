// Amounts of costs. An unknown price is never shown as zero.

import { WASTE_KINDS } from "../../../src/schemas/cost-names.ts";
import type { CostTotal } from "../../../src/schemas/costs.ts";
import { usd } from "../format.ts";

export const wastedOf = ({ waste }: Pick<CostTotal, "waste">): number =>
  WASTE_KINDS.reduce((sum, kind) => sum + waste[kind], 0);

export function Amount({ of }: { of: Pick<CostTotal, "cost_usd"> & Partial<CostTotal> }) {
  if (of.cost_usd === null) return <>unknown</>;
  return (
    <>
      {(of.hours_without_price ?? 0) > 0 && "> "}
      {usd(of.cost_usd)}
    </>
  );
}
