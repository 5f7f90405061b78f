// The lines of a chart: one per run, rank, metric and attempt; or, for many ranks, their mean with the range around it.

import type { Line } from "./chart.ts";
import { curvesOf, type Curve, type XAxis } from "./curves.ts";
import type { MetricsSet } from "./reader.ts";
import { isSystem, type Member } from "./shown-chart.ts";

export interface ShownRun {
  id: string;
  label: string;
  startMs: number;
}

/** Up to this many ranks have a line each, unless the user chooses. */
export const RANKS_APART_MAX = 4;
export type RankLook = "each" | "band" | null;

interface Found {
  run: number;
  member: Member;
  curve: Curve;
}

/** `versions` makes React notice that the columns have grown. */
export function linesOf(
  set: MetricsSet,
  runs: readonly ShownRun[],
  { members, x, ranks: look, versions }: { members: readonly Member[]; x: string; ranks: RankLook; versions: string },
): readonly Line[] {
  if (versions === "") return [];
  const found: Found[] = [];
  for (const member of members) {
    for (const [run, reader] of set.readers.entries()) {
      const columns = reader.columns(member.name);
      const other = x === "step" || x === "time" ? null : reader.columns(x);
      if (!columns) continue;
      const axis: XAxis = x === "step" || x === "time" ? x : { metric: other ?? columns };
      for (const curve of curvesOf(columns, axis, runs[run]?.startMs ?? 0)) found.push({ run, member, curve });
    }
  }
  const ranks = new Set(found.map(({ curve }) => curve.rank));
  const isBand = ranks.size > 1 && (look ?? (ranks.size > RANKS_APART_MAX ? "band" : "each")) === "band";
  if (isBand) return bandLines(found, runs, members);
  const groups = [...new Set(found.map(groupOf))];
  // If each run is one line, its colour is the same in every chart.
  const areMany = ranks.size > 1 || members.length > 1;
  const names = apart(runs);
  const order = [...ranks].sort((a, b) => a - b);
  return found.map((each) => {
    const { run, member, curve } = each;
    const words = [
      runs.length > 1 ? (names[run] ?? null) : null,
      ranks.size > 1 ? `${isSystem(member.name) ? "node" : "rank"} ${curve.rank}` : null,
      member.label,
      curve.attempt < curve.attempts ? `attempt ${curve.attempt}, repeated later` : null,
    ].filter((word) => word !== null);
    return {
      label: words.join(" · ") || member.name,
      colour: areMany ? groups.indexOf(groupOf(each)) : run,
      earlier: curve.attempt < curve.attempts,
      // Equal lines would hide each other.
      dash: order.indexOf(curve.rank),
      curve,
    };
  });
}

/** A line per run and metric: the mean of its ranks at each x, and how far they lie apart. */
function bandLines(found: readonly Found[], runs: readonly ShownRun[], members: readonly Member[]): Line[] {
  // A mean over attempts would say nothing: only the newest points of each step count.
  const last = found.filter(({ curve }) => curve.attempt === curve.attempts);
  const groups = [...Map.groupBy(last, ({ run, member }) => `${run}/${member.name}`).values()];
  const names = apart(runs);
  return groups.flatMap((group, i) => {
    const [first] = group;
    if (!first) return [];
    const count = new Set(group.map(({ curve }) => curve.rank)).size;
    const words = [runs.length > 1 ? (names[first.run] ?? null) : null, first.member.label].filter(
      (word) => word !== null,
    );
    const kind = isSystem(first.member.name) ? "nodes" : "ranks";
    return [
      {
        label: [...words, count > 1 ? `mean of ${count} ${kind}, and their range` : first.member.name].join(" · "),
        colour: members.length > 1 ? i : first.run,
        earlier: false,
        dash: 0,
        curve: meanOf(group.map(({ curve }) => curve)),
      },
    ];
  });
}

/** The mean, lowest and highest value of several curves at each x that any of them has. */
export function meanOf(curves: readonly Curve[]): Curve {
  const at = new Map<number, { sum: number; n: number; low: number; high: number }>();
  for (const { x, y } of curves)
    for (const [i, place] of x.entries()) {
      const value = y[i] ?? Number.NaN;
      const sums = at.get(place) ?? { sum: 0, n: 0, low: Infinity, high: -Infinity };
      at.set(place, sums);
      if (!Number.isFinite(value)) continue;
      sums.sum += value;
      sums.n += 1;
      sums.low = Math.min(sums.low, value);
      sums.high = Math.max(sums.high, value);
    }
  const x = [...at.keys()].sort((a, b) => a - b);
  const of = (value: (sums: { sum: number; n: number; low: number; high: number }) => number) =>
    x.map((place) => {
      const sums = at.get(place);
      return sums && sums.n > 0 ? value(sums) : Number.NaN;
    });
  return {
    rank: 0,
    attempt: 1,
    attempts: 1,
    x,
    y: of(({ sum, n }) => sum / n),
    range: { low: of(({ low }) => low), high: of(({ high }) => high) },
  };
}

/** Lines of one colour: those of one run, rank and metric. */
const groupOf = ({ run, member, curve }: Found): string => `${run}/${curve.rank}/${member.name}`;

const SAME_MIN = 8;

/** Names of runs that differ where one sees them: a long common beginning is cut, and equal labels get their id. */
export function apart(runs: readonly ShownRun[]): string[] {
  const labels = runs.map(({ label }) => label);
  const [first = ""] = labels;
  let same = 0;
  while (labels.length > 1 && same < first.length && labels.every((label) => label[same] === first[same])) same++;
  const cut = Math.max(...[" ", "/", ",", "_", "-"].map((mark) => first.lastIndexOf(mark, same - 1))) + 1;
  return runs.map(({ id, label }) => {
    const isTwin = labels.filter((each) => each === label).length > 1 && label !== id;
    const short = cut >= SAME_MIN && !isTwin && label.length > cut ? `…${label.slice(cut)}` : label;
    return isTwin ? `${label} (${id.slice(-4)})` : short;
  });
}
