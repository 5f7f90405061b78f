// Decides which ended runs are removed by age. `svc prune` and the retention rule of a home both ask here.
//
// RT1. Only an ended run goes. An archived run stays, and so does a run that is in use: another live run resumes from it, its machine is
//      not proven gone, or its files are still being copied.
// RT2. The age counts from the latest instant that its end can have had by the order in which runs were made: a run that was made after
//      another one did not end before that one began, whatever the clock said then.
// RT3. Time for which no control plane ran, and which is not trusted yet, is no age (retention-time.ts).

import { bestOf, type Best } from "../schemas/best.ts";
import type { OldRuns } from "../schemas/retention.ts";
import type { Gap } from "./retention-time.ts";

const MINUTE_MS = 60_000;
const UNITS: Readonly<Record<string, number>> = {
  m: MINUTE_MS,
  h: 60 * MINUTE_MS,
  d: 1_440 * MINUTE_MS,
  w: 10_080 * MINUTE_MS,
};

/** Milliseconds of `30d`, `12h`, `2w`; null for other text. */
export function ageMs(text: string): number | null {
  const [, count, unit = ""] = /^([0-9]{1,6})([mhdw])$/.exec(text) ?? [];
  return count === undefined ? null : Number(count) * (UNITS[unit] ?? 0);
}

export interface AgedRun {
  /** Runs that were made later have a higher number. */
  order: number;
  created_at: number;
  /** Null for a run that has not ended. */
  ended_at: number | null;
  isArchived: boolean;
}

export interface AgeRule<T> {
  now: number;
  olderMs: number;
  gaps: readonly Gap[];
  best: Best | null;
  /** How many of the runs that ended last stay. */
  newest: number;
  /** Narrows the runs that are asked for; those that stay as the best or newest are among them. */
  isAsked: (run: T) => boolean;
  /** Asked only for runs that are old enough. */
  isInUse: (run: T) => boolean;
  /** The value by which runs are the best. */
  valueIn: (run: T, best: Best) => number | null;
}

export interface ChosenOld<T> {
  /** The oldest first. */
  goes: T[];
  kept: OldRuns["kept"];
}

export function chooseOld<T extends AgedRun>(runs: readonly T[], rule: AgeRule<T>): ChosenOld<T> {
  const { now, olderMs, best, newest } = rule;
  const ended = endsOf(runs, now).filter(({ run }) => run.ended_at !== null && rule.isAsked(run));
  const isOld = ({ end }: { end: number }): boolean => trustedAge(end, now, rule.gaps) > olderMs;
  const pool = ended.filter(({ run }) => !run.isArchived);
  const isBest = new Set(
    best
      ? bestOf(
          pool.map(({ run }) => run),
          best,
          (run) => rule.valueIn(run, best),
        )
      : [],
  );
  const isNewest = new Set(
    pool
      .toSorted((a, b) => b.end - a.end || b.run.order - a.run.order)
      .slice(0, newest)
      .map(({ run }) => run),
  );
  const kept = {
    best: 0,
    newest: 0,
    archived: ended.filter((one) => one.run.isArchived && isOld(one)).length,
    in_use: 0,
  };
  const goes: typeof pool = [];
  for (const one of pool.filter(isOld)) {
    if (isBest.has(one.run)) kept.best++;
    else if (isNewest.has(one.run)) kept.newest++;
    else if (rule.isInUse(one.run)) kept.in_use++;
    else goes.push(one);
  }
  return { goes: goes.toSorted((a, b) => a.end - b.end || a.run.order - b.run.order).map(({ run }) => run), kept };
}

/** RT2. An instant after now was written by a wrong clock, and proves nothing about other runs. */
function endsOf<T extends AgedRun>(runs: readonly T[], now: number): { run: T; end: number }[] {
  let made = -Infinity;
  return runs
    .toSorted((a, b) => a.order - b.order)
    .map((run) => {
      if (run.created_at <= now) made = Math.max(made, run.created_at);
      return { run, end: Math.max(run.ended_at ?? now, made) };
    });
}

/** RT3. */
const trustedAge = (end: number, now: number, gaps: readonly Gap[]): number =>
  gaps.reduce((age, { from, to, ms }) => age - Math.min(ms, Math.max(0, to - Math.max(from, end))), now - end);
