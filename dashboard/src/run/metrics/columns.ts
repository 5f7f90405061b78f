// The points of one metric of one run, in the order of arrival.

import type { SeriesColumns } from "../../../../src/schemas/series.ts";

export interface Columns {
  step: number[];
  /** Seconds since the epoch. */
  time: number[];
  /** NaN and the infinities are kept. */
  value: number[];
  rank: number[];
  /** The cursor for the next read. */
  next: number;
  /** The run has more points than a browser receives: extremes were kept, but means over them are not exact. */
  thinned: boolean;
}

export const noColumns = (): Columns => ({ step: [], time: [], value: [], rank: [], next: 0, thinned: false });

const numberOf = (value: SeriesColumns["value"][number]): number => (typeof value === "number" ? value : Number(value));

/** Appends points. Known points (an answer that arrived twice) are skipped. */
export function append(columns: Columns, more: SeriesColumns): void {
  if (more.from < columns.next || more.next <= columns.next) return;
  for (let i = 0; i < more.step.length; i++) {
    columns.step.push(more.step[i] ?? 0);
    columns.time.push(more.time[i] ?? 0);
    columns.value.push(numberOf(more.value[i] ?? 0));
    columns.rank.push(more.rank[i] ?? 0);
  }
  columns.next = more.next;
  columns.thinned ||= more.thinned;
}

export interface Summary {
  last: number;
  lastStep: number;
  min: number | null;
  max: number | null;
  points: number;
  /** Values that are NaN or infinite. */
  odd: number;
}

export function summary({ step, value }: Columns): Summary | null {
  if (value.length === 0) return null;
  let [min, max, odd, last] = [Infinity, -Infinity, 0, 0];
  for (const [i, each] of value.entries()) {
    if ((step[i] ?? 0) >= (step[last] ?? 0)) last = i;
    if (!Number.isFinite(each)) odd++;
    else {
      if (each < min) min = each;
      if (each > max) max = each;
    }
  }
  const found = min !== Infinity;
  return {
    last: value[last] ?? Number.NaN,
    lastStep: step[last] ?? 0,
    min: found ? min : null,
    max: found ? max : null,
    points: value.length,
    odd,
  };
}
