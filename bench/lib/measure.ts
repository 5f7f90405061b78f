// The form of a measurement, and the calculation of one figure from several rounds.

export interface Row {
  /** The measured quantity, in a few words. */
  what: string;
  /** The median of the rounds. */
  figure: number;
  unit: string;
  /** The smallest and the largest round. */
  spread: [number, number];
  rounds: number;
  /** The same work done in the plainest way, in the same minute; null if nothing simpler does the same. */
  baseline: number | null;
  /** The comparison of `figure` with `baseline` in the target's terms: a ratio, a difference, or nothing. */
  compared: string;
  target: string;
  met: boolean;
}

/** One group of rows that a separate process measures. */
export interface Bench {
  name: string;
  about: string;
  /** Ten minutes by default. */
  limitMs?: number;
  measure(): Promise<Row[]>;
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

export function spreadOf(values: readonly number[]): [number, number] {
  return [Math.min(...values), Math.max(...values)];
}

/** A figure with three digits that count. */
export function figureOf(value: number): string {
  const size = Math.abs(value);
  const places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

interface Rounds {
  what: string;
  unit: string;
  values: readonly number[];
  baseline?: readonly number[];
  target: string;
  /** Judges the figure; `baseline` is the median of the baseline's rounds, NaN without one. */
  met: (figure: number, baseline: number) => boolean;
  compared?: (figure: number, baseline: number) => string;
}

/** One line of the table, from the rounds of a measurement and of its baseline. */
export function rowOf(rounds: Rounds): Row {
  const figure = median(rounds.values);
  const baseline = rounds.baseline === undefined ? null : median(rounds.baseline);
  const compare = rounds.compared ?? ((f, b) => `${(f / b).toFixed(2)}x`);
  return {
    what: rounds.what,
    figure,
    unit: rounds.unit,
    spread: spreadOf(rounds.values),
    rounds: rounds.values.length,
    baseline,
    compared: baseline === null ? "" : compare(figure, baseline),
    target: rounds.target,
    met: rounds.met(figure, baseline ?? Number.NaN),
  };
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
