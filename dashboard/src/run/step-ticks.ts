// Computes the marks above the steps of a run.

import type { TimeScale } from "./time-scale.ts";

export interface Tick {
  /** Position from 0 to 1. */
  place: number;
  words: string;
}

const NICE_S = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600,
  7_200, 18_000, 36_000, 86_400, 172_800, 432_000, 864_000,
];
/** Minimum distance between two marks, as a share of the axis. */
const APART = 0.16;
const APART_MIN = 0.14;
/** No mark this close to the end: its label would not fit. */
const LAST = 0.92;

/** At round times: on each side of a shortened stretch, and within it at times that are round there. */
export function stepTicks(scale: TimeScale): Tick[] {
  const edges = [0, ...scale.gaps.flatMap((gap) => [gap.left, gap.right]), 1];
  const ticks: Tick[] = [];
  for (const [i, right] of edges.slice(1).entries()) {
    const left = edges[i] ?? 0;
    const [from, to] = [left, right].map((place) => (scale.when(place) - scale.from) / 1000) as [number, number];
    if (right - left < APART_MIN || to <= from) continue;
    const wanted = ((to - from) * APART) / (right - left);
    // Times are sums of whole milliseconds: a stride that almost fits is good enough.
    const stride = NICE_S.find((nice) => nice >= wanted - 1e-6) ?? Math.ceil(wanted / 864_000) * 864_000;
    for (let n = Math.ceil(from / stride - 1e-9); n * stride < to; n++) {
      const place = scale.at(scale.from + n * stride * 1000);
      const last = ticks.at(-1);
      if (place <= LAST && (!last || place - last.place >= APART_MIN))
        ticks.push({ place, words: tickWords(n * stride) });
    }
  }
  return ticks;
}

const PARTS: readonly [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

function tickWords(s: number): string {
  if (s === 0) return "0";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${Number(s.toFixed(3))} s`;
  let left = Math.round(s);
  const words: string[] = [];
  for (const [size, unit] of PARTS) {
    if (left >= size) words.push(`${Math.floor(left / size)} ${unit}`);
    left %= size;
  }
  return words.join(" ");
}
