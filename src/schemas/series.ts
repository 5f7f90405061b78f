// Metrics as columns, read on from where a reader stands: what a chart needs that holds every point and asks for none twice.

import { z } from "zod";
import { MetricValue } from "./job.ts";

export const SeriesList = z
  .object({
    series: z.array(
      z.object({
        /** For `of` of the points; good in this job only. */
        id: z.int(),
        name: z.string(),
        points: z.int(),
      }),
    ),
  })
  .meta({ id: "SeriesList", description: "In order of name." });
export type SeriesList = z.infer<typeof SeriesList>;

export const SeriesColumns = z
  .object({
    id: z.int(),
    /** The place of the first point, and where to go on. */
    from: z.int(),
    next: z.int(),
    /** There were more points between the two than were asked for: extremes and what is not finite were kept. */
    thinned: z.boolean(),
    step: z.array(z.number()),
    /** Seconds since the epoch. */
    time: z.array(z.number()),
    value: z.array(MetricValue),
    /** Of `system/` series the node. */
    rank: z.array(z.int()),
  })
  .meta({ id: "SeriesColumns", description: "Points in order of arrival; the arrays have the same length." });
export type SeriesColumns = z.infer<typeof SeriesColumns>;
export const SeriesPoints = z.object({ series: z.array(SeriesColumns) }).meta({ id: "SeriesPoints" });
export type SeriesPoints = z.infer<typeof SeriesPoints>;
