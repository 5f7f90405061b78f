// Reads metrics by index: each point of a series has a number, so that a reader resumes exactly where it stopped.

import { downsample } from "../domain/downsample.ts";
import type { MetricPoint } from "../schemas/job.ts";
import type { SeriesColumns, SeriesList } from "../schemas/series.ts";
import type { All } from "./tables.ts";

/** Maximum of points of one series in memory to choose from; of more, the newest. */
const READ_MAX = 1_000_000;

export interface SeriesPlace {
  id: number;
  /** Index of the first requested point. */
  from: number;
}

export function readSeriesList(all: All, jobId: string): SeriesList["series"] {
  return all<{ id: number; name: string; points: number }>(
    `SELECT s.id AS id, s.name AS name, coalesce((SELECT max(i) + 1 FROM point WHERE series_id = s.id), 0) AS points
     FROM series s WHERE s.job_id = ? ORDER BY s.name`,
    jobId,
  );
}

/** Places in other jobs' series are ignored. */
export function readSeriesPoints(
  all: All,
  jobId: string,
  places: readonly SeriesPlace[],
  maxPoints: number,
): SeriesColumns[] {
  const own = new Map(
    all<{ id: number; points: number }>(
      `SELECT s.id AS id, coalesce((SELECT max(i) + 1 FROM point WHERE series_id = s.id), 0) AS points
       FROM series s WHERE s.job_id = ? AND s.id IN (SELECT value FROM json_each(?))`,
      jobId,
      JSON.stringify(places.map(({ id }) => id)),
    ).map((series) => [series.id, series.points]),
  );
  return places.flatMap(({ id, from }) => {
    const next = own.get(id);
    if (next === undefined) return [];
    const first = Math.max(from, next - READ_MAX);
    const rows = all<{ step: number; time: number; value: number | null; rank: number }>(
      "SELECT step, time, value, rank FROM point WHERE series_id = ? AND i >= ? AND i < ? ORDER BY i",
      id,
      first,
      next,
    );
    const points = rows.map((row) => ({ ...row, value: finite(row.value) }));
    const kept = downsample(points, maxPoints);
    return [
      {
        id,
        from: first,
        next: Math.max(first, next),
        thinned: kept.length < points.length || first > from,
        step: kept.map((point) => point.step),
        time: kept.map((point) => point.time),
        value: kept.map((point) => point.value),
        rank: kept.map((point) => point.rank),
      },
    ];
  });
}

/** SQLite has no NaN: it is stored as NULL. JSON has none of the three. */
export const finite = (value: number | null): MetricPoint["value"] =>
  value === null ? "NaN" : value === Infinity ? "Infinity" : value === -Infinity ? "-Infinity" : value;
