// Routes for metrics: columns of points from a cursor, and a few numbers about many jobs. The charts and the list of runs of the
// dashboard read them.

import { z } from "zod";
import { MetricSummaries, SeriesList, SeriesPoints } from "../../schemas/series.ts";
import { turn } from "../log-index.ts";
import { MetricTable } from "../metric-summaries.ts";
import { jobOf, NO_JOB, ok, route, type Call } from "../route.ts";

const PLACES_MAX = 100;
const IDS_MAX = 200;
const NAMES_MAX = 12;
const SERIES_POINTS_MAX = 200_000;
/** Maximum of points in one answer, over all its series; beyond it points are thinned and extremes kept. */
export const ANSWER_POINTS_MAX = 2_000_000;

/** Metrics for charts that hold every point: the list of series, and the points since a cursor. */
export const SERIES_ROUTES = [
  route({
    method: "GET",
    path: "/jobs/{id}/series",
    id: "listSeries",
    summary: "Names of a job's metrics, with the number of points of each",
    responses: { 200: { description: "The series.", schema: SeriesList } },
    errors: [...NO_JOB],
    handle: (call) => ok({ series: call.cp.reads.seriesList(jobOf(call).id) }),
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/series/points",
    id: "getSeriesPoints",
    summary: "Points of some series, from a given index",
    description:
      `\`of\` lists up to ${PLACES_MAX} series, each with the index of the first wanted point: \`of=12:0,13:480\`. With many series, ` +
      `each is downsampled to its share of ${ANSWER_POINTS_MAX} points.`,
    query: z.strictObject({
      of: z
        .string()
        .regex(/^\d{1,15}:\d{1,15}(,\d{1,15}:\d{1,15})*$/, "must be pairs of numbers such as 12:0,13:480")
        .transform((text) =>
          text.split(",").map((pair) => {
            const [id = 0, from = 0] = pair.split(":").map(Number);
            return { id, from };
          }),
        )
        .refine((places) => places.length <= PLACES_MAX, `must list at most ${PLACES_MAX} series`),
      max_points: z.coerce.number().int().min(2).max(SERIES_POINTS_MAX).default(SERIES_POINTS_MAX),
    }),
    responses: { 200: { description: "The columns of each series.", schema: SeriesPoints } },
    errors: [...NO_JOB, "invalid_request"],
    async handle(call) {
      const { id } = jobOf(call);
      const { of, max_points } = call.query;
      const max = Math.min(max_points, Math.floor(ANSWER_POINTS_MAX / of.length));
      const series: z.infer<typeof SeriesPoints>["series"] = [];
      // Reading long series takes a while, and must not delay a run.
      for (const place of of) {
        series.push(...call.cp.reads.seriesPoints(id, [place], max));
        await turn();
      }
      return ok({ series });
    },
  }),
  route({
    method: "GET",
    path: "/v1/metrics",
    id: "listMetricSummaries",
    summary: "Last, lowest and highest values of some metrics of several jobs",
    description:
      `\`ids\` lists up to ${IDS_MAX} jobs, \`names\` is a JSON list of up to ${NAMES_MAX} metrics. Without names, the answer names the ` +
      "metrics that these jobs have. Long series are read in parts: `open` counts those whose extremes are not known yet.",
    query: z.strictObject({
      ids: z
        .string()
        .regex(/^[a-z0-9]{1,64}(,[a-z0-9]{1,64})*$/, "must be ids of jobs, separated by commas")
        .transform((text) => text.split(","))
        .refine((ids) => ids.length <= IDS_MAX, `must list at most ${IDS_MAX} jobs`),
      names: z
        .string()
        .max(8_192)
        .transform((text, context) => {
          const names = z.array(z.string().max(512)).max(NAMES_MAX).safeParse(parsed(text));
          if (names.success) return names.data;
          context.addIssue({ code: "custom", message: `must be a JSON list of at most ${NAMES_MAX} names` });
          return z.NEVER;
        })
        .optional(),
    }),
    responses: { 200: { description: "The numbers, by job and metric.", schema: MetricSummaries } },
    errors: ["invalid_request"],
    handle: async (call) => ok(await tableOf(call.cp).of(call.query.ids, call.query.names ?? [])),
  }),
];

/** One table per control plane. */
const tables = new WeakMap<object, MetricTable>();
function tableOf(cp: Call["cp"]): MetricTable {
  const known = tables.get(cp) ?? new MetricTable(cp.reads);
  tables.set(cp, known);
  return known;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
