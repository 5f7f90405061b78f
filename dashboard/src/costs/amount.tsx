// Amounts of costs. An unknown price is never shown as zero.

import { WASTE_KINDS } from "../../../src/schemas/cost-names.ts";
import type { CostTotal } from "../../../src/schemas/costs.ts";
import { usd } from "../format.ts";

export const wastedOf = ({ waste }: Pick<CostTotal, "waste">): number =>
  WASTE_KINDS.reduce((sum, kind) => sum + waste[kind], 0);

interface AmountProps {
  of: Pick<CostTotal, "cost_usd"> & Partial<CostTotal>;
  /** In a table, where words take too much room. */
  short?: boolean;
}

export function Amount({ of, short = false }: AmountProps) {
  if (of.cost_usd === null) return <>unknown</>;
  if ((of.hours_without_price ?? 0) === 0) return <>{usd(of.cost_usd)}</>;
  return short ? (
    <span title="At least: the price of some machines is unknown.">≥ {usd(of.cost_usd)}</span>
  ) : (
    <>at least {usd(of.cost_usd)}</>
  );
}
