// The rules of money, as providers bill it: what machines have cost, cost now, and may cost at most. Pure. Budgets, limits, costs and the
// plan call it with rows of the ledger.
//
// B1. A machine is billed from its order until the provider proved its end. If a rate changed (storage before GPU), each part has its own.
// B2. An order without an answer may be a machine: it costs the highest price that it accepted until it is found, or proven absent, and at
//     most what the budget gave to it. If no proof comes, it costs that until it can exist no longer (ADR 0035).
// B3. A rate that the provider does not report is unknown, and never 0. A rate that the user gives takes its place.
// B4. A provider's minimum is owed for every machine that existed.

import { descriptorOf, isBilled } from "../providers/descriptors.ts";
import { costUsd, microOf, type PricedTime } from "./money.ts";

const HOUR_MS = 3_600_000;
const MICRO = 1e6;

/** A row of the ledger, as far as its price is concerned. */
export interface PricedMachine extends PricedTime {
  provider: string;
}

/** And its state; for an order, what it may cost at most. A home from an older version lacks these columns. */
export interface BilledMachine extends PricedMachine {
  state: string;
  horizon_at?: number;
  order_micro?: number | null;
  most_micro?: number | null;
  doubt_at?: number | null;
}

/** Rates, in micro-dollars per hour, that replace an unreported price; null if unknown. */
export interface Rates {
  /** The rate of a machine whose provider reports no price. */
  givenMicro: number | null;
  /** The rate of an order without an answer, and of a machine whose price cannot be read. */
  assumedMicro: number | null;
}

export const NO_RATES: Rates = { givenMicro: null, assumedMicro: null };

export interface Spending {
  /** Whole micro-dollars of all machines until now. */
  spentMicro: number;
  /** Per hour, of all machines that may still cost money. */
  rateMicro: number;
  /** False if the rate of a machine is unknown: then both sums are a minimum. */
  isKnown: boolean;
}

/** Milliseconds that the provider bills at least; 0 for one that bills by the second. */
export const minimumMs = (provider: string): number => (descriptorOf(provider)?.minimumBilledSeconds ?? 0) * 1_000;

/** The rate of one machine in micro-dollars per hour, whether it still exists or not; null if it is unknown. */
export function rateOf(machine: BilledMachine, { givenMicro, assumedMicro }: Rates): number | null {
  if (!isBilled(machine.provider)) return 0;
  // An intent is a few seconds old; then it is held, and counts from its order on, or `unknown`. Its guard has the budget's deadlines.
  if (machine.state === "intended") return 0;
  if (machine.held_at === null) return orderRate(machine, { givenMicro, assumedMicro });
  // A machine whose own price cannot be read has that of its offer, which its guard was given, too.
  return machine.price_micro ?? givenMicro ?? machine.order_micro ?? assumedMicro;
}

const orderRate = (machine: BilledMachine, { givenMicro, assumedMicro }: Rates): number | null =>
  machine.order_micro ?? assumedMicro ?? givenMicro;

/**
 * The instant up to which an order that no list has shown may have been a machine; null if it was none: it was refused, it was proven absent, or
 * its request may not even have left.
 */
export function mayHaveRunUntil(machine: BilledMachine, now: number): number | null {
  if (machine.held_at !== null) return null;
  if (!mayCost(machine)) return machine.doubt_at ?? null;
  // After the horizon, the process that wrote this intent must have ended: it may have sent the request before.
  const isFresh = machine.state === "intended" && now <= (machine.horizon_at ?? Infinity);
  return isFresh ? null : now;
}

/** Micro-dollars, not rounded, of an order up to `at` at a rate per hour (B2). */
const orderedMicro = ({ provider, created_at, most_micro }: BilledMachine, rate: number, at: number): number =>
  Math.min(
    most_micro ?? Infinity,
    Math.max(minimumMicro(provider, rate), (rate * Math.max(0, at - created_at)) / HOUR_MS),
  );

/** Whole micro-dollars that an order may have cost up to `at`; null if its rate is unknown. @param givenMicro as in `Rates`. */
export function mayHaveCostMicro(machine: BilledMachine, at: number, givenMicro: number | null): number | null {
  const rate = orderRate(machine, { givenMicro, assumedMicro: null });
  return rate === null ? null : Math.ceil(orderedMicro(machine, rate, at) - 1e-6);
}

/** Whether the machine may cost money now (B2). */
export const mayCost = (machine: BilledMachine): boolean => machine.released_at === null;

/** The micro-dollars, not rounded, that are owed for one machine; null if its rate is unknown. */
export function owedMicro(machine: BilledMachine, now: number, rates: Rates): number | null {
  const existed = machine.held_at !== null;
  if (!existed) {
    const until = mayHaveRunUntil(machine, now);
    if (until === null || !isBilled(machine.provider)) return 0;
    const rate = orderRate(machine, rates);
    return rate === null ? null : orderedMicro(machine, rate, until);
  }
  const rate = rateOf(machine, rates);
  if (rate === null) return null;
  const least = minimumMicro(machine.provider, rate);
  // A price of the ledger has its own history; a given or assumed rate applies to the whole time.
  const owed =
    machine.price_micro !== null
      ? costUsd(machine, now) * MICRO
      : (rate * Math.max(0, (machine.released_at ?? now) - machine.created_at)) / HOUR_MS;
  return Math.max(least, owed);
}

/** Micro-dollars of a provider's minimum at this rate per hour (B4). */
const minimumMicro = (provider: string, rateMicro: number): number => (rateMicro * minimumMs(provider)) / HOUR_MS;

/** Whole micro-dollars of one machine at the prices that its provider reported; a machine without one adds nothing. */
export function costMicro(machine: PricedMachine, now: number): number {
  const { provider, price_micro, held_at } = machine;
  const least = price_micro === null || held_at === null ? 0 : minimumMicro(provider, price_micro);
  return Math.max(Math.round(least), microOf(costUsd(machine, now)));
}

/** The same for `ms` of a machine without a reported price, at a rate that the user gave. */
export const estimateMicro = (provider: string, rateMicro: number, ms: number): number =>
  Math.round(Math.max(minimumMicro(provider, rateMicro), (rateMicro * Math.max(0, ms)) / HOUR_MS));

export function spendingOf(machines: readonly BilledMachine[], now: number, rates: Rates = NO_RATES): Spending {
  let spent = 0;
  let rateMicro = 0;
  let isKnown = true;
  for (const machine of machines) {
    const owed = owedMicro(machine, now, rates);
    if (owed === null) isKnown = false;
    else spent += owed;
    if (mayCost(machine)) rateMicro += rateOf(machine, rates) ?? 0;
  }
  // Upwards: what is owed must not be rounded below a limit.
  return { spentMicro: Math.max(0, Math.ceil(spent - 1e-6)), rateMicro, isKnown };
}

/** Whole micro-dollars for `ms` at a rate per hour, rounded up. */
export const microOver = (rateMicro: number, ms: number): number =>
  Math.max(0, Math.ceil((rateMicro * Math.max(0, ms)) / HOUR_MS - 1e-6));

/** How long an amount lasts at a rate per hour, in milliseconds; Infinity at no rate. */
export const lastsMs = (micro: number, rateMicro: number): number =>
  rateMicro <= 0 ? Infinity : (Math.max(0, micro) / rateMicro) * HOUR_MS;

/** The duration of a graceful shutdown: the script's grace, the downloads, the release. */
export interface End {
  graceMs: number;
  /** Bytes of checkpoints and log that are not on this computer yet. */
  bytes: number;
  /** As measured; null before any were downloaded. */
  bytesPerSecond: number | null;
  releaseMs: number;
}

/** Without a measurement: the least download speed of a home connection. */
const BYTES_PER_SECOND = 2_000_000;

export const endMs = ({ graceMs, bytes, bytesPerSecond, releaseMs }: End): number =>
  graceMs + (Math.max(0, bytes) / Math.max(1, bytesPerSecond ?? BYTES_PER_SECOND)) * 1_000 + releaseMs;

export interface MostParts {
  /** Per hour, of all nodes together; null if it is unknown. */
  rateMicro: number | null;
  budgetMicro: number | null;
  /** Limit of the time in which the script runs; null for none. */
  maxRuntimeMs: number | null;
  /** Before the script begins, and after it ends. */
  startMs: number;
  endMs: number;
}

/** The micro-dollars that a run may cost at most; null if nothing limits them. */
export function mostMicro({ rateMicro, budgetMicro, maxRuntimeMs, startMs, endMs }: MostParts): number | null {
  const timed =
    rateMicro === null || maxRuntimeMs === null ? null : microOver(rateMicro, startMs + maxRuntimeMs + endMs);
  if (timed === null) return budgetMicro;
  return budgetMicro === null ? timed : Math.min(timed, budgetMicro);
}
