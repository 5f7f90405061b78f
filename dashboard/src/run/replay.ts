// Reconstructs the state of a run at a moment from its records: transitions, attempts, events.

import type { FeedEvent, JobMachine, JobRecord, Timeline, TimelineStep } from "../../../src/schemas/job.ts";
import { amountOf } from "../machines.ts";

export interface Moment {
  at: number;
  state: string;
  /** The event that caused the transition. */
  because: string | null;
  running: TimelineStep[];
  retrying: TimelineStep[];
  /** Machines that might have cost money at that time. */
  machines: JobMachine[];
  /** What was owed until that time: `> $0.40` or `unknown` if a machine has no known price, null if none has one. */
  spent: string | null;
  /** Events of the last moments before. */
  events: FeedEvent[];
}

const EVENTS_SHOWN = 6;
const ms = (at: string | null): number | null => (at === null ? null : Date.parse(at));

/** Instants at which something changed, ascending. */
export function moments(timeline: Timeline, events: readonly FeedEvent[]): number[] {
  const all = [
    ...timeline.transitions.map((each) => each.at),
    ...timeline.steps.flatMap((step) => [step.started_at, step.ended_at]),
    ...events.map((event) => event.at),
  ];
  return [...new Set(all.flatMap((at) => ms(at) ?? []))].sort((a, b) => a - b);
}

export function momentOf(job: JobRecord, timeline: Timeline, events: readonly FeedEvent[], at: number): Moment {
  const last = timeline.transitions.filter((each) => Date.parse(each.at) <= at).at(-1);
  const begun = timeline.steps.filter((step) => (ms(step.started_at) ?? Infinity) <= at);
  const running = begun.filter((step) => (ms(step.ended_at) ?? Infinity) > at && step.status !== "pending");
  // A failed attempt waits for the next one of its step, node and placement.
  const retrying = begun.filter((step) => {
    if (step.error === null || running.includes(step)) return false;
    // Each placement counts its attempts from 1.
    const isSame = (each: TimelineStep): boolean =>
      each.step === step.step && each.node === step.node && each.placement === step.placement;
    const next = timeline.steps.find((each) => isSame(each) && each.attempt === step.attempt + 1);
    const newest = begun.every((each) => !isSame(each) || each.attempt <= step.attempt);
    return newest && (next !== undefined || step.status === "retrying");
  });
  const ordered = job.machines.filter((machine) => Date.parse(machine.created_at) <= at);
  const amounts = ordered.map(({ price_per_hour_usd: price, created_at, terminated_at }) => {
    const heldMs = Math.min(at, ms(terminated_at) ?? at) - Date.parse(created_at);
    return price === null ? null : (Math.max(0, heldMs) / 3_600_000) * price;
  });
  const isPriced = job.machines.some((machine) => machine.price_per_hour_usd !== null);
  return {
    at,
    state: last?.to ?? "created",
    because: last?.event ?? null,
    running,
    retrying,
    machines: ordered.filter((machine) => (ms(machine.terminated_at) ?? Infinity) > at),
    spent: isPriced ? amountOf(amounts) : null,
    events: events.filter((event) => Date.parse(event.at) <= at).slice(-EVENTS_SHOWN),
  };
}
