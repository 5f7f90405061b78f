// The claim of a run under the limits of a home: the most that it may cost and hold. Pure; made from its stored spec and its
// rows of the ledger, so that no claim can be lost or counted twice (ADR 0033).

import { descriptorOf, isBilled } from "../providers/descriptors.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { mayCost, microOver, mostMicro, rateOf, spendingOf, type BilledMachine, type Rates } from "./billing.ts";
import { endOf, givenRate, leastOf, ratesOf } from "./budget.ts";
import { candidateSpecs, PREEMPTIONS_BY_DEFAULT, RETRIES_BY_DEFAULT } from "./candidates.ts";
import { gpuCount } from "./gpus.ts";
import type { Amounts } from "./limits.ts";
import { microOf } from "./money.ts";
import { stopGraceSeconds } from "./stop-grace.ts";

const HOUR_MS = 3_600_000;
/** The longest that a day and a month can last, with the hour by which clocks are changed. */
const DAY_MS_MAX = 25 * HOUR_MS;
const MONTH_MS_MAX = (31 * 24 + 1) * HOUR_MS;

/** Seconds from the order to the script, as earlier runs of this home took; null without any. */
export type StartSeconds = (provider: string, gpus: string) => number | null;

interface Worst {
  /** Per hour, of all nodes together, at the dearest candidate; null if it is unknown. */
  rateMicro: number | null;
  /** The whole run costs at most this; null if nothing limits it. */
  mostMicro: number | null;
  machines: number;
  gpus: number;
}

/** Runs on this computer and in notebooks cost nothing: they count under no limit. */
export const countsUnderLimits = (spec: RunSpec): boolean =>
  candidateSpecs(spec, false).some(({ spec: placed }) => isBilled(placed.provider));

/** The highest price per hour of one machine; null if nothing bounds it. */
function highestRate(placed: RunSpec): number | null {
  if (!isBilled(placed.provider)) return 0;
  if (descriptorOf(placed.provider)?.capabilities.reports_price === false) return givenRate(placed);
  return placed.price_cap === undefined ? null : microOf(placed.price_cap);
}

function worstOf(spec: RunSpec, startSeconds: StartSeconds): Worst {
  const candidates = candidateSpecs(spec, false);
  const rates = candidates.map(({ spec: placed }) => highestRate(placed));
  const known = rates.filter((rate) => rate !== null);
  const rateMicro = known.length < rates.length ? null : Math.max(...known) * spec.nodes;
  const isSpot = candidates.some(({ spec: placed }) => (placed.spot ?? "never") !== "never");
  const placements =
    1 + (spec.retry?.max ?? RETRIES_BY_DEFAULT) + (isSpot ? (spec.max_preemptions ?? PREEMPTIONS_BY_DEFAULT) : 0);
  const startAndEnd = candidates.map(({ spec: placed }) => {
    const { provider, gpus } = placed;
    const graceSeconds = stopGraceSeconds(placed);
    const least = leastOf({ provider, graceSeconds }, HOUR_MS, startSeconds(provider, gpus));
    return Math.max(least.startSeconds + least.endSeconds, least.minimumSeconds) * 1_000;
  });
  return {
    rateMicro,
    mostMicro: mostMicro({
      rateMicro,
      budgetMicro: spec.budget_usd === undefined ? null : microOf(spec.budget_usd),
      // 0 minutes mean that there is none.
      maxRuntimeMs: spec.max_runtime_minutes ? spec.max_runtime_minutes * 60_000 : null,
      startMs: placements * Math.max(...startAndEnd),
      endMs: 0,
    }),
    machines: spec.nodes,
    gpus: Math.max(...candidates.map(({ spec: placed }) => gpuCount(placed.gpus))) * spec.nodes,
  };
}

/** The most that can fall into a period: the rest of the run, or its rate over the whole period. */
function within(ms: number, restMicro: number | null, rateMicro: number | null): number | null {
  const timed = rateMicro === null ? null : microOver(rateMicro, ms);
  if (timed === null || restMicro === null) return timed ?? restMicro;
  return Math.min(timed, restMicro);
}

const claim = (restMicro: number | null, { rateMicro, machines, gpus }: Omit<Worst, "mostMicro">): Amounts => ({
  usd_per_day: within(DAY_MS_MAX, restMicro, rateMicro),
  usd_per_month: within(MONTH_MS_MAX, restMicro, rateMicro),
  usd_per_hour: rateMicro,
  max_machines: machines,
  max_gpus: gpus,
});

/** The claim of a run that has not begun. */
export function claimOf(spec: RunSpec, startSeconds: StartSeconds): Amounts {
  const worst = worstOf(spec, startSeconds);
  return claim(worst.mostMicro, worst);
}

/** A run that was let in: its machines now, and its claim from now on. */
export interface OpenClaim {
  held: {
    /** Of the machines whose price a provider or the user gave. */
    rateMicro: number;
    machines: number;
    gpus: number;
    /** Machines that exist and have no such price. */
    unpriced: number;
  };
  /** Dollars are those that it may still cost; the others include what it holds. */
  claim: Amounts;
}

/** A cap bounds a price that is unknown, and is not that price: such a machine counts among what a run may still need. */
function knownRates(machines: readonly BilledMachine[], rates: Rates): { rateMicro: number; unpriced: number } {
  const open = machines.filter(mayCost);
  const isUnpriced = ({ provider, held_at, price_micro }: BilledMachine): boolean =>
    isBilled(provider) && held_at !== null && price_micro === null && rates.givenMicro === null;
  const known = open.filter((machine) => !isUnpriced(machine));
  return {
    rateMicro: known.reduce((sum, machine) => sum + (rateOf(machine, rates) ?? 0), 0),
    unpriced: open.length - known.length,
  };
}

/** @param machines all of the run's rows of the ledger. */
export function claimOfOpen(
  spec: RunSpec,
  machines: readonly BilledMachine[],
  now: number,
  startSeconds: StartSeconds,
): OpenClaim {
  const worst = worstOf(spec, startSeconds);
  const { spentMicro, rateMicro, isKnown } = spendingOf(machines, now, ratesOf(spec, machines));
  const open = machines.filter(({ released_at }) => released_at === null).length;
  const each = Math.ceil(worst.gpus / spec.nodes);
  // Without a bound in the spec, the price of its present machine is the best that is known.
  const seen = open > 0 && isKnown && rateMicro > 0 ? rateMicro : null;
  const rate = worst.rateMicro === null ? seen : Math.max(worst.rateMicro, rateMicro);
  // A run without a budget may last longer than planned; its end still costs this.
  const end = spec.budget_usd === undefined ? microOver(rateMicro, endOf(stopGraceSeconds(spec))) : 0;
  const rest = worst.mostMicro === null ? null : Math.max(worst.mostMicro - spentMicro, end);
  const count = Math.max(worst.machines, open);
  return {
    held: { ...knownRates(machines, ratesOf(spec, machines)), machines: open, gpus: open * each },
    claim: claim(rest, { rateMicro: rate, machines: count, gpus: Math.max(worst.gpus, open * each) }),
  };
}
