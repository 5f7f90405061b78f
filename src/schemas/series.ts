// Metrics as columns, read incrementally from a cursor: for a chart that holds every point and fetches none twice.

import { z } from "zod";
import { MetricValue } from "./job.ts";

export const SeriesList = z
  .object({
    series: z.array(
      z.object({
        /** Index for `of` of the points; valid in this job only. */
        id: z.int(),
        name: z.string(),
        points: z.int(),
      }),
    ),
  })
  .meta({ id: "SeriesList", description: "Sorted by name." });
export type SeriesList = z.infer<typeof SeriesList>;

export const SeriesColumns = z
  .object({
    id: z.int(),
    /** The index of the first point, and the cursor for the next read. */
    from: z.int(),
    next: z.int(),
    /** More points exist in this range than were requested: extremes and non-finite values were kept. */
    thinned: z.boolean(),
    step: z.array(z.number()),
    /** Seconds since the epoch. */
    time: z.array(z.number()),
    value: z.array(MetricValue),
    /** The node, for `system/` series. */
    rank: z.array(z.int()),
  })
  .meta({ id: "SeriesColumns", description: "Points in order of arrival; the arrays have the same length." });
export type SeriesColumns = z.infer<typeof SeriesColumns>;
export const SeriesPoints = z.object({ series: z.array(SeriesColumns) }).meta({ id: "SeriesPoints" });
export type SeriesPoints = z.infer<typeof SeriesPoints>;

export const MetricSummary = z
  .object({
    last: z.number().nullable().meta({ description: "The newest value; null if it is not finite." }),
    min: z.number().nullable().meta({ description: "The lowest of the finite values." }),
    max: z.number().nullable(),
    points: z.int(),
    samples: z.array(z.number().nullable()).meta({ description: "Evenly spaced values, for a tiny chart." }),
  })
  .meta({ id: "MetricSummary" });
export type MetricSummary = z.infer<typeof MetricSummary>;

export const MetricSummaries = z
  .object({
    /** Metrics of these jobs, those of most jobs first. */
    names: z.array(z.string()),
    more_names: z.boolean(),
    /** By job, then by metric. */
    jobs: z.record(z.string(), z.record(z.string(), MetricSummary)),
    open: z
      .int()
      .meta({ description: "How many long series are not read to their end: ask again for their extremes." }),
  })
  .meta({ id: "MetricSummaries" });
export type MetricSummaries = z.infer<typeof MetricSummaries>;
