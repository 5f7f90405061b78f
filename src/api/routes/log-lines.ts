// Routes that read a log by line number and search it, from one index per control plane.

import { z } from "zod";
import { LogLines, LogMatches } from "../../schemas/log.ts";
import { invalid } from "../field-errors.ts";
import { LogIndex } from "../log-index.ts";
import { LogSearch } from "../log-search.ts";
import { jobOf, NO_JOB, ok, route, type Call } from "../route.ts";
import { Switch, wholeQuery } from "./logs.ts";

const COUNT_MAX = 2_000;
const Line = wholeQuery(1_000_000_000);
const Count = wholeQuery(COUNT_MAX).default(500);

/** One index per control plane. */
const indexes = new WeakMap<object, { index: LogIndex; search: LogSearch }>();
function indexOf({ cp }: Call): { index: LogIndex; search: LogSearch } {
  let known = indexes.get(cp);
  if (!known) {
    const index = new LogIndex(cp.reads);
    indexes.set(cp, (known = { index, search: new LogSearch(cp.reads, index) }));
  }
  return known;
}

/** The log by line, for readers that cannot hold all of it. */
export const LOG_LINE_ROUTES = [
  route({
    method: "GET",
    path: "/jobs/{id}/logs/lines",
    id: "getLogLines",
    summary: "Lines of a job's log",
    description:
      "From line `from` (counted from 1), from the first line written at `at_ms` (milliseconds since the epoch) or later, or the " +
      "last `count`. Long lines are truncated, and long responses contain fewer lines than requested.",
    query: z.strictObject({ from: Line.optional(), at_ms: wholeQuery(8_640_000_000_000_000).optional(), count: Count }),
    responses: { 200: { description: "The lines, and how many there are.", schema: LogLines } },
    errors: [...NO_JOB, "invalid_request"],
    async handle(call) {
      const { id } = jobOf(call);
      const { from, at_ms, count } = call.query;
      if (from !== undefined && at_ms !== undefined)
        throw invalid([{ field: "at_ms", message: "cannot be combined with from" }]);
      const { index } = indexOf(call);
      const counted = await index.count(id);
      const first =
        from !== undefined
          ? Math.max(0, from - 1)
          : at_ms !== undefined
            ? await index.lineAtTime(id, at_ms)
            : Math.max(0, counted.lines - count);
      const lines = await index.lines(id, first, count);
      return ok({ total_lines: counted.lines, bytes: counted.bytes, lines } satisfies LogLines);
    },
  }),
  route({
    method: "GET",
    path: "/jobs/{id}/logs/search",
    id: "searchLog",
    summary: "Lines of a job's log that match",
    description:
      "Lines that contain `q` (a lower-case `q` ignores case), that look like errors (`errors=1`), that belong to one node or rank " +
      "(`tag=node1`); all given conditions must hold. From match `from` (counted from 0), from the first match at line `near` or " +
      "later, or the last `count`.",
    query: z.strictObject({
      q: z.string().max(500).default(""),
      errors: Switch.optional(),
      tag: z
        .string()
        .regex(/^[\w .:-]{1,40}$/, "must be a tag such as node1 or rank3")
        .optional(),
      from: Line.optional(),
      near: Line.optional(),
      count: Count,
    }),
    responses: { 200: { description: "Matching lines, and how many there are.", schema: LogMatches } },
    errors: [...NO_JOB, "invalid_request"],
    async handle(call) {
      const { id } = jobOf(call);
      const { q, errors, tag, from, near, count } = call.query;
      const question = { text: q, errors: errors ?? false, tag: tag ?? null };
      const page = { from, near: near === undefined ? undefined : Math.max(0, near - 1), count };
      return ok(await indexOf(call).search.find(id, question, page));
    },
  }),
];
