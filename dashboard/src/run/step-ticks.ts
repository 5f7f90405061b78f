// The marks above the steps of a run.

import { timeMarks } from "./metrics/axis-words.ts";
import type { TimeScale } from "./time-scale.ts";

export interface Tick {
  /** From 0 to 1. */
  place: number;
  words: string;
}

const NICE_S = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600,
  7_200, 14_400, 28_800, 86_400,
];
const PLACES = [0, 0.2, 0.4, 0.6, 0.8];

/** At round times; on an axis with stretches drawn short, at equal places. */
export function stepTicks(scale: TimeScale): Tick[] {
  if (scale.gaps.length > 0) {
    const words = timeMarks(PLACES.map((place) => rounded((scale.when(place) - scale.from) / 1000)));
    return PLACES.map((place, i) => ({ place, words: words[i] ?? "" }));
  }
  const s = (scale.to - scale.from) / 1000;
  const stride = NICE_S.find((nice) => s / nice <= 5) ?? Math.ceil(s / 5 / 86_400) * 86_400;
  const ticks: Tick[] = [];
  for (let at = 0; at <= s * 0.9; at += stride) ticks.push({ place: at / s, words: tickWords(at) });
  return ticks;
}

/** To the millisecond. */
const rounded = (s: number): number => Math.round(s * 1_000) / 1_000;

function tickWords(s: number): string {
  if (s === 0) return "0";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${Number(s.toFixed(1))} s`;
  if (s < 7_200) return `${Math.round(s / 60)} m`;
  return s < 172_800 ? `${Number((s / 3_600).toFixed(1))} h` : `${Math.round(s / 86_400)} d`;
}
