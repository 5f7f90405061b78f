// Last, lowest and highest values of the metrics of many runs, for `GET /v1/metrics`. The extremes of a long series are folded
// in parts and kept: points are only ever appended, so each is read once.

import type { MetricSummaries, MetricSummary } from "../schemas/series.ts";
import type { Reads } from "../store/reads.ts";
import type { NamedSeries } from "../store/summary-reads.ts";
import { turn } from "./log-index.ts";

const NAMES_MAX = 500;
const SAMPLES = 24;
const PART_POINTS = 50_000;
/** Points read for one answer; with more, the answer says how many series are still open. */
const ANSWER_POINTS = 1_000_000;
const KNOWN_MAX = 20_000;

type Extremes = Pick<MetricSummary, "min" | "max"> & { read: number };
export type SummaryReads = Pick<Reads, "seriesNames" | "namedSeries" | "seriesShape">;

export class MetricTable {
  readonly #reads: SummaryReads;
  readonly #known = new Map<string, Extremes>();

  constructor(reads: SummaryReads) {
    this.#reads = reads;
  }

  async of(ids: readonly string[], names: readonly string[]): Promise<MetricSummaries> {
    const { names: all, more } = this.#reads.seriesNames(ids, NAMES_MAX);
    const jobs: MetricSummaries["jobs"] = {};
    let open = 0;
    let left = ANSWER_POINTS;
    for (const series of names.length === 0 ? [] : this.#reads.namedSeries(ids, names)) {
      if (series.points === 0) continue;
      const { summary, read } = await this.#summaryOf(series, left);
      left = Math.max(0, left - read);
      if (this.#isOpen(series)) open += 1;
      // Without a prototype: a script may call its metric `__proto__`.
      (jobs[series.jobId] ??= Object.create(null) as Record<string, MetricSummary>)[series.name] = summary;
    }
    return { names: all, more_names: more, jobs, open };
  }

  #isOpen({ jobId, name, points }: NamedSeries): boolean {
    return (this.#known.get(keyOf(jobId, name))?.read ?? 0) < points;
  }

  /** Reads at most `left` further points. The extremes are null until all points are known. */
  async #summaryOf({ id, jobId, name, points }: NamedSeries, left: number) {
    const key = keyOf(jobId, name);
    let known = this.#known.get(key) ?? { min: null, max: null, read: 0 };
    // Fewer points than were read: another series has taken the name.
    if (known.read > points) known = { min: null, max: null, read: 0 };
    let read = 0;
    while (known.read < points && read < left) {
      const to = Math.min(points, known.read + PART_POINTS);
      const { min, max } = this.#reads.seriesShape(id, known.read, to, 1);
      read += to - known.read;
      known = { min: lesser(known.min, min), max: greater(known.max, max), read: to };
      await turn();
    }
    this.#known.delete(key);
    this.#known.set(key, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest);
    const { last, samples } = this.#reads.seriesShape(id, points, points, SAMPLES);
    const ends = known.read < points ? { min: null, max: null } : { min: known.min, max: known.max };
    return { summary: { last, ...ends, points, samples } satisfies MetricSummary, read };
  }
}

const keyOf = (jobId: string, name: string): string => `${jobId}/${name}`;
const lesser = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
const greater = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.max(a, b);
