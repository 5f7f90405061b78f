// Turns points into the lines of a chart.
//
// M1. A line is one rank. If its step falls back, the run resumed from a checkpoint, and a new attempt begins: the line
//     continues with that attempt's points, and the points of earlier ones that it repeats form faint lines of their own. A
//     step that falls back over and over does not mean restarts: several processes log as one rank, and their points form
//     one line, in order of step.
// M2. Smoothing uses every point, before any is dropped for drawing. It is an exponential mean, freed of the weight of
//     its first value: m ← w·m + (1−w)·x, shown as m / (1 − wⁿ). Values that are not finite are skipped.
// M3. The least and the greatest of a pixel's points are drawn, so that no spike is lost.

import { csvText } from "../../../../src/domain/csv-text.ts";
import type { Columns } from "./columns.ts";

export interface Curve {
  rank: number;
  /** Counted from 1. */
  attempt: number;
  /** The number of this rank's attempts. The line of the last one has every point that no later attempt repeats. */
  attempts: number;
  /** Ascending. */
  x: number[];
  y: number[];
  /** The lowest and highest values of the ranks behind a mean; as many as in `y`. */
  range?: { low: number[]; high: number[] };
}

export type XAxis = "step" | "time" | { metric: Columns };

/** More falls than this do not count as attempts. */
const ATTEMPTS_MAX = 24;

/** The lines of a series (M1). Times are in seconds from `startMs`. */
export function curvesOf(columns: Columns, axis: XAxis, startMs: number): Curve[] {
  const byRank = new Map<number, Attempt[]>();
  const lastStep = new Map<number, number>();
  const other = typeof axis === "object" ? lookup(axis.metric) : null;
  for (let i = 0; i < columns.value.length; i++) {
    const rank = columns.rank[i] ?? 0;
    const step = columns.step[i] ?? 0;
    const time = columns.time[i] ?? 0;
    const curves = byRank.get(rank) ?? [];
    byRank.set(rank, curves);
    const before = lastStep.get(rank);
    lastStep.set(rank, step);
    if (before === undefined || step < before)
      curves.push({ rank, attempt: curves.length + 1, attempts: 0, x: [], y: [], steps: [], first: step });
    const x =
      axis === "step" ? step : axis === "time" ? time - startMs / 1000 : (other?.get(`${rank}/${step}`) ?? Number.NaN);
    if (!Number.isFinite(x)) continue;
    const curve = curves.at(-1);
    curve?.x.push(x);
    curve?.y.push(columns.value[i] ?? Number.NaN);
    curve?.steps.push(step);
  }
  const all = [...byRank.values()].flatMap((found) => {
    return found.length > ATTEMPTS_MAX ? [together(found)] : continued(found);
  });
  return all.map(ascending).sort((a, b) => a.rank - b.rank || a.attempt - b.attempt);
}

/** One attempt's points, with their steps, and its first step. */
interface Attempt extends Curve {
  steps: number[];
  first: number;
}

/** The line that runs through all attempts, and what later ones repeat of each earlier one. */
function continued(attempts: readonly Attempt[]): Curve[] {
  const count = attempts.length;
  const line: Curve = { rank: attempts[0]?.rank ?? 0, attempt: count, attempts: count, x: [], y: [] };
  const repeated: Curve[] = [];
  for (const [i, { rank, attempt, x, y, steps }] of attempts.entries()) {
    const until = attempts.slice(i + 1).reduce((least, later) => Math.min(least, later.first), Infinity);
    const old: Curve = { rank, attempt, attempts: count, x: [], y: [] };
    for (const [k, step] of steps.entries()) {
      const into = step < until ? line : old;
      into.x.push(x[k] ?? 0);
      into.y.push(y[k] ?? Number.NaN);
    }
    if (old.x.length > 0) repeated.push(old);
  }
  return line.x.length > 0 ? [...repeated, line] : repeated;
}

const together = (curves: readonly Curve[]): Curve => ({
  rank: curves[0]?.rank ?? 0,
  attempt: 1,
  attempts: 1,
  x: curves.flatMap((curve) => curve.x),
  y: curves.flatMap((curve) => curve.y),
});

/** The last value of a metric at each rank and step. */
function lookup(columns: Columns): Map<string, number> {
  const found = new Map<string, number>();
  for (let i = 0; i < columns.value.length; i++)
    found.set(`${columns.rank[i]}/${columns.step[i]}`, columns.value[i] ?? Number.NaN);
  return found;
}

function ascending(curve: Curve): Curve {
  let sorted = true;
  for (let i = 1; i < curve.x.length && sorted; i++) sorted = (curve.x[i] ?? 0) >= (curve.x[i - 1] ?? 0);
  if (sorted) return curve;
  const order = curve.x.map((_, i) => i).sort((a, b) => (curve.x[a] ?? 0) - (curve.x[b] ?? 0) || a - b);
  return { ...curve, x: order.map((i) => curve.x[i] ?? 0), y: order.map((i) => curve.y[i] ?? 0) };
}

/** M2. `weight` from 0 (no smoothing) to below 1. */
export function smoothed(values: readonly number[], weight: number): number[] {
  if (weight <= 0) return [...values];
  let mean = 0;
  let left = 1;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    left *= weight;
    return mean / (1 - left);
  });
}

/** M3: indices, ascending, of the points to draw between `from` and `to`, and of the neighbours on each side. */
export function drawnPoints(
  x: readonly number[],
  y: readonly number[],
  range: readonly [number, number] | null,
  buckets: number,
): number[] {
  const first = range === null ? 0 : Math.max(0, lowerBound(x, range[0]) - 1);
  const last = range === null ? x.length : Math.min(x.length, lowerBound(x, range[1]) + 2);
  const count = last - first;
  if (count <= 2 * buckets) return Array.from({ length: count }, (_, i) => first + i);
  const kept: number[] = [first];
  for (let b = 0; b < buckets; b++) {
    const start = first + Math.floor((b * count) / buckets);
    const end = first + Math.floor(((b + 1) * count) / buckets);
    let [low, high] = [-1, -1];
    for (let i = start; i < end; i++) {
      const value = y[i] ?? Number.NaN;
      if (!Number.isFinite(value)) continue;
      if (low < 0 || value < (y[low] ?? 0)) low = i;
      if (high < 0 || value > (y[high] ?? 0)) high = i;
    }
    for (const i of low === high ? [low] : [Math.min(low, high), Math.max(low, high)])
      if (i > (kept.at(-1) ?? -1)) kept.push(i);
  }
  if ((kept.at(-1) ?? 0) < last - 1) kept.push(last - 1);
  return kept;
}

/** The first index whose value is not below `value`. */
function lowerBound(sorted: readonly number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The positions of values that are not finite, thinned evenly if there are many. */
export function oddPlaces(curve: Curve, max = 200): number[] {
  const places = curve.x.filter((_, i) => !Number.isFinite(curve.y[i]));
  if (places.length <= max) return places;
  return Array.from({ length: max }, (_, i) => places[Math.floor((i * places.length) / max)] ?? 0);
}

/** A script may log any number as a time, even one outside the range of dates: that is written raw. */
function instant(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString();
}

/**
 * A table of comma-separated values: every point. A name that a spreadsheet would read as a formula is quoted as text.
 */
export function csvOf(name: string, runs: readonly { label: string; columns: Columns }[]): string {
  const rows = [["run", "rank", "step", "time", name].map(csvText).join(",")];
  for (const { label, columns } of runs)
    for (let i = 0; i < columns.value.length; i++)
      rows.push(
        `${csvText(label)},${columns.rank[i]},${columns.step[i]},${instant(columns.time[i] ?? 0)},${columns.value[i]}`,
      );
  return `${rows.join("\n")}\n`;
}
