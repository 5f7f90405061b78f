// The stored log as lines, for a viewer that cannot hold a log of a million lines.

import { z } from "zod";

export const LogLine = z
  .object({
    /** Counted from 1, as `grep -n` counts. */
    line: z.int(),
    /** When the part in which the line begins was written, in milliseconds since the epoch; 0 if unknown. */
    at_ms: z.number(),
    /** With colours; a progress bar is reduced to its last state. */
    text: z.string(),
    /** Characters omitted at the end of a very long line. */
    cut: z.int(),
  })
  .meta({ id: "LogLine" });
export type LogLine = z.infer<typeof LogLine>;

const Whole = {
  /** Lines of the whole log; a last line without an end counts. */
  total_lines: z.int(),
  bytes: z.int(),
};

export const LogLines = z
  .object({ ...Whole, lines: z.array(LogLine) })
  .meta({ id: "LogLines", description: "Lines in order; fewer than requested when they are long." });
export type LogLines = z.infer<typeof LogLines>;

export const LogMatches = z
  .object({
    ...Whole,
    /** Lines that match. */
    matches: z.int(),
    /** More matches exist than were counted. */
    capped: z.boolean(),
    /** The index of the match in `lines[0]`, counted from 0. */
    from: z.int(),
    lines: z.array(LogLine),
  })
  .meta({ id: "LogMatches" });
export type LogMatches = z.infer<typeof LogMatches>;
