// The budget of a run: what was spent, what an orderly end needs, and how long the rest lasts. Pure; the engine, the records and the guard's
// deadline are made from it (ADR 0030).

import type { RunSpec } from "../schemas/spec.ts";
import { endMs, lastsMs, microOver, minimumMs, spendingOf, type BilledMachine, type Rates } from "./billing.ts";
import { microOf } from "./money.ts";

/** From the order to terminate until the provider confirms the end. */
const RELEASE_MS = 15_000;
/** The guard ends its machine this long before the budget is spent: it checks every 2 s, and its first call may be refused. */
const SELF_END_SECONDS = 6;
/** Time for the runner to record the end of the script. */
const STOP_SPARE_SECONDS = 5;
/** From the order until the script starts, where no earlier run of this home says how long it takes. */
const START_SECONDS = 60;

/** Shares of the budget, in percent, about which a warning is recorded. */
export const WARNINGS = [75, 90] as const;

export interface BudgetNow {
  budgetMicro: number;
  spentMicro: number;
  /** Per hour, of all machines that may cost money now. */
  rateMicro: number;
  /** The cost of a graceful shutdown that begins now. */
  keptMicro: number;
  /** The amount that the script may still use; negative if the end began too late. */
  leftMicro: number;
  /** False if the rate of a machine is unknown. */
  isKnown: boolean;
  /** Until the run has to be asked to end, and until the release has to begin, in milliseconds; Infinity at no rate. */
  stopInMs: number;
  releaseInMs: number;
  /** The highest warning that is due; 0 for none. */
  warning: number;
}

/** Files that are not on this computer yet, and how fast they come. */
export interface Unfetched {
  bytes: number;
  bytesPerSecond: number | null;
}
export const ALL_FETCHED: Unfetched = { bytes: 0, bytesPerSecond: null };

export const endOf = (graceSeconds: number, { bytes, bytesPerSecond }: Unfetched = ALL_FETCHED): number =>
  endMs({ graceMs: graceSeconds * 1_000, bytes, bytesPerSecond, releaseMs: RELEASE_MS });

/** Micro-dollars per hour that the user gave for one machine without a reported price; null without it. */
export const givenRate = ({ rate_usd_per_hour: given }: Pick<RunSpec, "rate_usd_per_hour">): number | null =>
  given === undefined ? null : microOf(given);

/** The rates for what no provider reports, of a run with this spec. */
export function ratesOf(
  spec: Pick<RunSpec, "price_cap" | "rate_usd_per_hour">,
  machines: readonly BilledMachine[],
): Rates {
  const seen = machines.flatMap(({ price_micro }) => (price_micro === null ? [] : [price_micro]));
  const cap = spec.price_cap === undefined ? [] : [microOf(spec.price_cap)];
  const known = [...cap, ...seen];
  return {
    givenMicro: givenRate(spec),
    assumedMicro: known.length === 0 ? null : Math.max(...known),
  };
}

export interface BudgetParts {
  budgetMicro: number;
  machines: readonly BilledMachine[];
  rates: Rates;
  now: number;
  graceSeconds: number;
  unfetched?: Unfetched;
}

export function budgetNow({ budgetMicro, machines, rates, now, graceSeconds, unfetched }: BudgetParts): BudgetNow {
  const { spentMicro, rateMicro, isKnown } = spendingOf(machines, now, rates);
  const keptMicro = microOver(rateMicro, endOf(graceSeconds, unfetched));
  const unspent = budgetMicro - spentMicro;
  const leftMicro = unspent - keptMicro;
  const share = (spentMicro / budgetMicro) * 100;
  return {
    budgetMicro,
    spentMicro,
    rateMicro,
    keptMicro,
    leftMicro,
    isKnown,
    stopInMs: lastsMs(leftMicro, rateMicro),
    releaseInMs: lastsMs(unspent - microOver(rateMicro, RELEASE_MS), rateMicro),
    warning: WARNINGS.findLast((percent) => share >= percent) ?? 0,
  };
}

/** Until the next warning is due, in milliseconds. */
export function warnsInMs({ budgetMicro, spentMicro, rateMicro }: BudgetNow, warned: number): number {
  const next = WARNINGS.find((percent) => percent > warned);
  return next === undefined ? Infinity : lastsMs((budgetMicro * next) / 100 - spentMicro, rateMicro);
}

/** The machine's own deadlines, in seconds from now. */
export interface MachineLimit {
  /** TERM to the runner. */
  stopSeconds: number;
  /** The machine ends itself. */
  endSeconds: number;
}

/** How long an unspent amount lasts at the rate of all machines of the run; null without a rate. */
export function machineLimit(unspentMicro: number, rateMicro: number, graceSeconds: number): MachineLimit | null {
  const lasts = lastsMs(unspentMicro, rateMicro) / 1_000;
  if (!Number.isFinite(lasts)) return null;
  const endSeconds = Math.max(0, lasts - SELF_END_SECONDS);
  return { stopSeconds: Math.max(0, endSeconds - graceSeconds - STOP_SPARE_SECONDS), endSeconds };
}

/** The least that another machine costs: its start, its end, the provider's minimum. */
export interface Least {
  micro: number;
  startSeconds: number;
  endSeconds: number;
  minimumSeconds: number;
}

/** @param rateMicro per hour, of all nodes together. @param startSeconds as earlier runs of this home took; null without any. */
export function leastOf(
  { provider, graceSeconds }: { provider: string; graceSeconds: number },
  rateMicro: number,
  startSeconds: number | null,
): Least {
  const start = startSeconds ?? START_SECONDS;
  const end = endOf(graceSeconds);
  const minimum = minimumMs(provider);
  return {
    micro: microOver(rateMicro, Math.max(minimum, start * 1_000 + end)),
    startSeconds: start,
    endSeconds: end / 1_000,
    minimumSeconds: minimum / 1_000,
  };
}
