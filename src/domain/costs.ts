// Splits the cost of a machine by day and by what the machine did. Pure; the reads and the sums of the store call it (ADR 0031).

import type { Calendar } from "./calendar.ts";
import {
  costMicro,
  estimateMicro,
  mayHaveCostMicro,
  mayHaveRunUntil,
  type BilledMachine,
  type PricedMachine,
} from "./billing.ts";
import { costUsd, microOf } from "./money.ts";
import type { WasteKind } from "../schemas/cost-names.ts";

/** The activity of a machine in a part of its time. */
export type CostKind = "work" | WasteKind;

/** A part of a machine's time with one activity; its end is the start of the next part. */
export interface Span {
  kind: CostKind;
  from: number;
}

/** Sums of costs. Money is whole micro-dollars, times are milliseconds. */
export interface CostAmounts {
  /** Machines that were ordered on this day with this activity first, and how many of them have no known price. */
  machines: number;
  unpriced: number;
  ms: number;
  /** Time without a known price, and how much of it has no rate from the user either. */
  unpricedMs: number;
  unratedMs: number;
  micro: number;
  /** For the time without a price, by the user's rate. */
  estimateMicro: number;
}
export const NO_COSTS: Readonly<CostAmounts> = {
  machines: 0,
  unpriced: 0,
  ms: 0,
  unpricedMs: 0,
  unratedMs: 0,
  micro: 0,
  estimateMicro: 0,
};

/** The costs of a day and an activity. */
export interface CostCell extends CostAmounts {
  day: string;
  kind: CostKind;
}

export interface CostedMachine extends BilledMachine {
  /** Whether the provider bills at all. */
  bills: boolean;
}

const HOUR_MS = 3_600_000;

/** Micro-dollars owed for the machine up to `at`: at the end of its time, exactly the ledger's sum, with the provider's minimum. */
export function owedAt(machine: PricedMachine, at: number, end: number): number {
  if (at >= end) return costMicro({ ...machine, released_at: end }, end);
  const { created_at, spent_micro = 0, priced_at } = machine;
  const since = priced_at ?? created_at;
  if (at < since) return Math.round((spent_micro * Math.max(0, at - created_at)) / Math.max(1, since - created_at));
  return microOf(costUsd({ ...machine, released_at: at }, at));
}

/**
 * @param spans parts of the time of the machine, in order; the first begins with its order.
 * @param rateMicro the user's rate per hour for a machine without a price; null for none.
 */
export function cellsOf(
  machine: CostedMachine,
  spans: readonly Span[],
  rateMicro: number | null,
  now: number,
  calendar: Calendar,
): CostCell[] {
  const { created_at, held_at, released_at, price_micro } = machine;
  const isOrder = held_at === null;
  const mayRunUntil = mayHaveRunUntil(machine, now);
  // A refused order was never a machine; a request that was sent a moment ago is not one yet.
  if (isOrder && mayRunUntil === null) return [];
  const end = Math.max(created_at, isOrder ? (mayRunUntil ?? now) : (released_at ?? now));
  /** The cost, up to an instant, of the time without a price; null if no rate is known. */
  const estimateAt = (at: number): number | null => {
    if (isOrder) return mayHaveCostMicro(machine, at, rateMicro);
    if (rateMicro === null) return null;
    return at >= end
      ? estimateMicro(machine.provider, rateMicro, at - created_at)
      : Math.round((rateMicro * (at - created_at)) / HOUR_MS);
  };
  const isUnpriced = machine.bills && (held_at === null || price_micro === null);
  const cells = new Map<string, CostCell>();
  let first = true;
  let owed = 0;
  let estimated = 0;
  const add = (kind: CostKind, from: number, to: number): void => {
    const day = calendar.dayOf(from);
    const key = `${day} ${kind}`;
    const cell: CostCell = cells.get(key) ?? { day, kind, ...NO_COSTS };
    cells.set(key, cell);
    if (first) cell.machines = 1;
    if (first && isUnpriced) cell.unpriced = 1;
    first = false;
    const ms = to - from;
    cell.ms += ms;
    if (machine.bills) {
      const owedNow = owedAt(machine, to, end);
      cell.micro += owedNow - owed;
      owed = owedNow;
    }
    if (!isUnpriced) return;
    cell.unpricedMs += ms;
    const estimatedNow = estimateAt(to);
    if (estimatedNow === null) {
      cell.unratedMs += ms;
      return;
    }
    cell.estimateMicro += estimatedNow - estimated;
    estimated = estimatedNow;
  };
  for (const [index, { kind, from }] of spans.entries()) {
    const until = Math.min(end, spans[index + 1]?.from ?? end);
    let at = Math.max(created_at, from);
    if (at === until && index === 0) add(kind, at, at);
    while (at < until) {
      const to = Math.min(until, Math.max(at + 1, calendar.nextDay(at)));
      add(kind, at, to);
      at = to;
    }
  }
  return [...cells.values()];
}

/** The known facts about a machine's use. Instants are milliseconds since the epoch; null if it did not happen yet. */
export interface Use {
  createdAt: number;
  startedAt: number | null;
  /** End of the script's work. */
  endedAt: number | null;
  /** When svc began to end the machine. */
  endingAt: number | null;
  /** The end of the script's time that another machine had to repeat. */
  lostMs: number;
  /** Whether the job failed with this machine's placement. */
  failed: boolean;
  /** Intervals in which no GPU worked, in order. */
  idle: readonly (readonly [from: number, to: number])[];
}

/** The parts of a machine's time, in order and without a gap. */
export function spansOf({ createdAt, startedAt, endedAt, endingAt, lostMs, failed, idle }: Use): Span[] {
  const spans: Span[] = [{ kind: "starting", from: createdAt }];
  let at = createdAt;
  const begin = (kind: CostKind, from: number | null): void => {
    if (from === null) return;
    at = Math.max(at, from);
    spans.push({ kind, from: at });
  };
  if (startedAt !== null) {
    const until = endedAt ?? endingAt ?? Infinity;
    const lostFrom = lostMs > 0 && Number.isFinite(until) ? Math.max(startedAt, until - lostMs) : until;
    begin(failed ? "failed" : "work", startedAt);
    if (!failed)
      for (const [from, to] of idle) {
        if (from >= lostFrom || to <= at) continue;
        begin("idle_gpu", from);
        begin("work", Math.min(to, lostFrom));
      }
    if (!failed && lostFrom < until) begin("lost", lostFrom);
    begin("held", endedAt);
  }
  begin("proof", endingAt);
  return spans;
}

/** A GPU works if its use is at least this, in percent. */
const BUSY_PERCENT = 5;
/** Shorter pauses are normal: an evaluation, a checkpoint, a download. */
const IDLE_MS_MIN = 5 * 60_000;

/** Intervals of at least five minutes in which the busiest GPU had nothing to do. */
export function idleOf(samples: readonly { at: number; use: number }[]): [from: number, to: number][] {
  const idle: [number, number][] = [];
  let from: number | null = null;
  let last = 0;
  const close = (): void => {
    if (from !== null && last - from >= IDLE_MS_MIN) idle.push([from, last]);
    from = null;
  };
  for (const { at, use } of samples) {
    if (use >= BUSY_PERCENT) close();
    // A gap without samples says nothing.
    else if (from !== null && at - last > IDLE_MS_MIN) close();
    if (use < BUSY_PERCENT) {
      from ??= at;
      last = at;
    }
  }
  close();
  return idle;
}
