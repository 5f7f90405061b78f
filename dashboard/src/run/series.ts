// The metrics of one run as they are charted. New points are fetched from where the active series end; the whole, thinned
// by the server with its extremes kept, is read now and then and at the end.

import type { MetricPoint, Metrics } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";

const POINTS_MAX = 1_500;
const WHOLE_EVERY_MS = 30_000;

export type Series = Record<string, MetricPoint[]>;

export class SeriesReader {
  series: Series = {};
  readonly #id: string;
  #wholeAt = 0;
  #active = new Set<string>();

  constructor(id: string) {
    this.#id = id;
  }

  /** Reads what is new; `whole` reads everything again. */
  async read(whole: boolean): Promise<void> {
    const now = Date.now();
    const since = this.#since();
    if (whole || since === null || now - this.#wholeAt > WHOLE_EVERY_MS) {
      const { series } = await api.metrics(this.#id, { max_points: POINTS_MAX });
      this.#wholeAt = now;
      this.#active = new Set(Object.keys(series));
      this.series = Object.fromEntries(Object.entries(series).map(([name, points]) => [name, sorted(points)]));
      return;
    }
    this.#merge(await api.metrics(this.#id, { since_step: since, max_points: POINTS_MAX }));
  }

  /** The last step of the active series that is farthest behind, so that none of them loses a point. */
  #since(): number | null {
    const ends = [...this.#active].flatMap((name) => this.series[name]?.at(-1)?.step ?? []);
    return ends.length === 0 ? null : Math.min(...ends);
  }

  #merge({ series }: Metrics): void {
    const advanced = new Set<string>();
    const next = { ...this.series };
    for (const [name, points] of Object.entries(series)) {
      const had = next[name] ?? [];
      const known = new Set(had.slice(-2 * POINTS_MAX).map(pointKey));
      const fresh = points.filter((point) => !known.has(pointKey(point)));
      if (fresh.length === 0) continue;
      next[name] = sorted([...had, ...fresh]);
      advanced.add(name);
    }
    if (advanced.size > 0) this.#active = advanced;
    this.series = next;
  }
}

const pointKey = (point: MetricPoint) => `${point.rank}/${point.step}/${point.time}`;
const sorted = (points: MetricPoint[]) => [...points].sort((a, b) => a.step - b.step || a.time - b.time);

export interface Summary {
  last: MetricPoint;
  min: number | null;
  max: number | null;
  points: number;
  /** How many values are NaN or infinite. */
  odd: number;
}

export function summary(points: readonly MetricPoint[]): Summary | null {
  const last = points.at(-1);
  if (!last) return null;
  let [min, max, odd] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (const { value } of points) {
    if (typeof value !== "number") {
      odd++;
      continue;
    }
    if (value < min) min = value;
    if (value > max) max = value;
  }
  return {
    last,
    min: min === Number.POSITIVE_INFINITY ? null : min,
    max: max === Number.NEGATIVE_INFINITY ? null : max,
    points: points.length,
    odd,
  };
}
