// The limits of a home: what all of its runs together may cost and hold. Pure: the engine lets runs in by these rules, in the transaction of
// the order, and the plan asks them what would happen (ADR 0033).
//
// H1. Letting a run in never makes the costs of a period and the needs of all open runs pass a limit.
// H2. Waiting runs are asked in the order of their submission. A run that fits may pass one that does not.
// H3. A run that PASSES_MAX others have passed is first: until it is let in, no younger run is.
// H4. A run that fits under no circumstances blocks no other.
// H5. An unknown claim never fits under a limit that would have to count it.

import { LIMIT_NAMES, type LimitName } from "../schemas/limit-names.ts";

/** Micro-dollars, machines or GPUs by limit; null for no limit, or for an unknown amount. */
export type Amounts = Readonly<Record<LimitName, number | null>>;

const amounts = (of: (name: LimitName) => number | null): Amounts => ({
  usd_per_day: of("usd_per_day"),
  usd_per_month: of("usd_per_month"),
  usd_per_hour: of("usd_per_hour"),
  max_machines: of("max_machines"),
  max_gpus: of("max_gpus"),
});

export const NOTHING_TAKEN: Amounts = amounts(() => 0);
export const NO_LIMITS: Amounts = amounts(() => null);
export const areSet = (limits: Amounts): boolean => LIMIT_NAMES.some((name) => limits[name] !== null);

/** The sum, which is unknown if a part is. */
export const plus = (one: Amounts, other: Amounts): Amounts =>
  amounts((name) => {
    const [a, b] = [one[name], other[name]];
    return a === null || b === null ? null : a + b;
  });

/** A limit that does not leave enough. */
export interface Shortage {
  limit: LimitName;
  of: number;
  /** Null if nothing can tell what an open run may still cost. */
  taken: number | null;
  /** Null if nothing can tell what the run may cost. */
  needs: number | null;
}

/** The first limit that leaves too little; null if the claim fits. */
export function shortageOf(limits: Amounts, taken: Amounts, claim: Amounts): Shortage | null {
  for (const limit of LIMIT_NAMES) {
    const of = limits[limit];
    if (of === null) continue;
    const [before, needs] = [taken[limit], claim[limit]];
    // Written so that NaN does not fit.
    if (before === null || needs === null || !(before + needs <= of)) return { limit, of, taken: before, needs };
  }
  return null;
}

/** After this many younger runs were let in before it, a waiting run is first. */
export const PASSES_MAX = 10;

export interface Waiter {
  id: string;
  claim: Amounts;
  /** How many younger runs were let in while it waited. */
  passes: number;
}

/** Why a run waits. */
export interface LimitReason {
  /** Null if it would fit, and only another run is before it. */
  shortage: Shortage | null;
  /** The run that is first (H3), if that is another one. */
  behind: string | null;
  /** Whether it would not fit either if nothing else ran. */
  never: boolean;
}

export interface Admission extends LimitReason {
  id: string;
  isIn: boolean;
  passes: number;
}

/** @param waiters oldest first. */
export function verdictsOf(limits: Amounts, taken: Amounts, waiters: readonly Waiter[]): Admission[] {
  const verdicts: Admission[] = [];
  let used = taken;
  let behind: string | null = null;
  for (const { id, claim, passes } of waiters) {
    const shortage = shortageOf(limits, used, claim);
    const never = shortageOf(limits, NOTHING_TAKEN, claim) !== null;
    const isIn: boolean = shortage === null && behind === null;
    verdicts.push({ id, isIn, passes, shortage, behind, never });
    if (isIn) {
      used = plus(used, claim);
      for (const older of verdicts) if (!older.isIn && !older.never) older.passes += 1;
    }
    behind ??= verdicts.find((one) => !one.isIn && !one.never && one.passes >= PASSES_MAX)?.id ?? null;
  }
  return verdicts;
}
