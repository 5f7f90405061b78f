// Refuses a budget that svc cannot hold, before anything is rented: no rate to count with, or less than a start and an end cost.

import { givenRate, leastOf, type Least } from "../domain/budget.ts";
import { candidateCount, candidateSpec } from "../domain/candidates.ts";
import { microOf, usdOf } from "../domain/money.ts";
import { SvcError } from "../errors/index.ts";
import type { Provider } from "../providers/provider.ts";
import type { StartTimes } from "../schemas/plan.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { stopGraceSeconds } from "../domain/stop-grace.ts";
import { affordable } from "../steps/provision.ts";

/** A submission does not wait longer for a price. */
const ASK_MS = 5_000;

export interface BudgetChecks {
  providers: ReadonlyMap<string, Provider>;
  startTimes: (provider: string, gpus: string) => StartTimes | null;
}

const refusal = (error: SvcError): SvcError =>
  new SvcError(error.code, error.data, { errors: [{ field: "spec.budget_usd", message: error.message }] });

/** Throws `budget_rate_unknown` if a candidate's machines cost money at an unknown rate. */
export function checkRates(providers: BudgetChecks["providers"], spec: RunSpec): void {
  if (spec.budget_usd === undefined || spec.rate_usd_per_hour !== undefined) return;
  for (let index = 0; index < candidateCount(spec); index++) {
    const { provider } = candidateSpec(spec, index);
    const { bills, reports_price } = providers.get(provider)?.info.capabilities ?? {
      bills: false,
      reports_price: true,
    };
    if (bills && !reports_price) throw refusal(new SvcError("budget_rate_unknown", { provider }));
  }
}

/** A candidate's price per hour for all nodes together, in micro-dollars; null if it is unknown now. */
export interface PricedCandidate {
  spec: RunSpec;
  rateMicro: number | null;
}

/** Throws `budget_too_small` if the budget is less than the start and the end of every candidate cost. */
export function checkEnough(spec: RunSpec, priced: readonly PricedCandidate[], { startTimes }: BudgetChecks): void {
  const { budget_usd: budget } = spec;
  if (budget === undefined) return;
  const leasts: (Least & { rateMicro: number })[] = [];
  for (const { spec: placed, rateMicro } of priced) {
    // An unknown price refuses nothing: the order is checked again when there is one.
    if (rateMicro === null) return;
    const { provider, gpus } = placed;
    const start = startTimes(provider, gpus)?.seconds ?? null;
    leasts.push({ ...leastOf({ provider, graceSeconds: stopGraceSeconds(placed) }, rateMicro, start), rateMicro });
  }
  const [least] = leasts.toSorted((a, b) => a.micro - b.micro);
  if (least === undefined || least.micro <= microOf(budget)) return;
  throw refusal(
    new SvcError("budget_too_small", {
      budget,
      needs: usdOf(least.micro),
      rate: usdOf(least.rateMicro),
      start_seconds: Math.round(least.startSeconds),
      end_seconds: Math.round(least.endSeconds),
      minimum_seconds: least.minimumSeconds,
    }),
  );
}

/** Both checks for a submission. Asks the candidates' providers for a price; one that does not answer refuses nothing. */
export async function checkBudget(checks: BudgetChecks, spec: RunSpec): Promise<void> {
  if (spec.budget_usd === undefined) return;
  checkRates(checks.providers, spec);
  const specs = Array.from({ length: candidateCount(spec) }, (_, index) => candidateSpec(spec, index));
  const priced = specs.map(async (placed): Promise<PricedCandidate> => {
    const provider = checks.providers.get(placed.provider);
    return { spec: placed, rateMicro: provider === undefined ? null : await rateOf(provider, placed) };
  });
  checkEnough(spec, await Promise.all(priced), checks);
}

async function rateOf(provider: Provider, spec: RunSpec): Promise<number | null> {
  const { bills, reports_price } = provider.info.capabilities;
  if (!bills) return 0;
  const each = reports_price ? await priceOf(provider, spec) : givenRate(spec);
  return each === null ? null : each * spec.nodes;
}

async function priceOf(provider: Provider, spec: RunSpec): Promise<number | null> {
  try {
    const offers = await provider.listOffers(spec, AbortSignal.timeout(ASK_MS));
    return affordable(provider, spec, offers)[0]?.priceMicro ?? null;
  } catch {
    return null;
  }
}
