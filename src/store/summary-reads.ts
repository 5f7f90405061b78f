// Reads a few numbers of many series, for a list of runs: which metrics there are, their last, lowest and highest values, and
// some samples for a tiny chart.

import type { All } from "./tables.ts";

export interface SeriesNames {
  /** Those of most runs first. */
  names: string[];
  /** More names than `max` exist. */
  more: boolean;
}

export interface NamedSeries {
  id: number;
  jobId: string;
  name: string;
  points: number;
}

export interface SeriesShape {
  /** The extremes of the finite values; null without any. */
  min: number | null;
  max: number | null;
  /** The newest value; null if it is not a number. */
  last: number | null;
  /** Evenly spaced, the first and the newest included; null for a value that is not finite. */
  samples: (number | null)[];
}

export function readSeriesNames(all: All, jobIds: readonly string[], max: number): SeriesNames {
  const rows = all<{ name: string }>(
    `SELECT name FROM series WHERE job_id IN (SELECT value FROM json_each(?))
     GROUP BY name ORDER BY count(*) DESC, name LIMIT ?`,
    JSON.stringify(jobIds),
    max + 1,
  );
  return { names: rows.slice(0, max).map(({ name }) => name), more: rows.length > max };
}

export const readNamedSeries = (all: All, jobIds: readonly string[], names: readonly string[]): NamedSeries[] =>
  all<NamedSeries>(
    `SELECT s.id AS id, s.job_id AS jobId, s.name AS name,
            coalesce((SELECT max(i) + 1 FROM point WHERE series_id = s.id), 0) AS points
     FROM series s
     WHERE s.job_id IN (SELECT value FROM json_each(?)) AND s.name IN (SELECT value FROM json_each(?))`,
    JSON.stringify(jobIds),
    JSON.stringify(names),
  );

/** Extremes of the points from `from` to before `to`; samples of all points before `to`. */
export function readSeriesShape(
  all: All,
  series: number,
  { from, to, samples }: { from: number; to: number; samples: number },
): SeriesShape {
  const [ends] = all<{ min: number | null; max: number | null }>(
    `SELECT min(value) AS min, max(value) AS max FROM point
     WHERE series_id = ? AND i >= ? AND i < ? AND value > -9e999 AND value < 9e999`,
    series,
    from,
    to,
  );
  const count = Math.min(samples, to);
  const places = Array.from({ length: count }, (_, k) =>
    count === 1 ? to - 1 : Math.round((k * (to - 1)) / (count - 1)),
  );
  const rows = all<{ value: number | null }>(
    "SELECT value FROM point WHERE series_id = ? AND i IN (SELECT value FROM json_each(?)) ORDER BY i",
    series,
    JSON.stringify(places),
  );
  const values = rows.map(({ value }) => (value === null || !Number.isFinite(value) ? null : value));
  return { min: ends?.min ?? null, max: ends?.max ?? null, last: values.at(-1) ?? null, samples: values };
}
