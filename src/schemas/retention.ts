// The retention rule of a home, which removes ended runs by age, in the form of the API.

import { z } from "zod";
import { BEST } from "./best.ts";
import { Instant } from "./job.ts";

/** A number and m, h, d or w. */
export const AGE = /^[1-9][0-9]{0,4}[mhdw]$/;

const fields = {
  older_than: z.string().regex(AGE, "must be a number and m, h, d or w, such as 30d").meta({
    description: "Age since the end of the run: a number and m, h, d or w, such as `30d`.",
  }),
  keep_best: z
    .string()
    .regex(BEST, "must be METRIC:N or METRIC:N:max, such as loss:3")
    .nullable()
    .default(null)
    .meta({ description: "`loss:3` keeps the three runs with the lowest loss, `acc:3:max` those with the highest." }),
};
const NEWEST = "Keeps so many of the runs that ended last, whatever their age.";

export const RetentionRule = z
  .strictObject({
    ...fields,
    keep_newest: z.int().min(1).max(100_000).nullable().default(null).meta({ description: NEWEST }),
  })
  .meta({ id: "RetentionRule" });
export type RetentionRule = z.infer<typeof RetentionRule>;

export const RetentionQuery = z.strictObject({
  older_than: fields.older_than,
  keep_best: fields.keep_best.unwrap().unwrap().optional(),
  keep_newest: z.coerce.number().int().min(1).max(100_000).optional().meta({ description: NEWEST }),
});

export const RetentionChange = z
  .strictObject({
    rule: RetentionRule.nullable().meta({ description: "Null removes the rule: then nothing is deleted by age." }),
  })
  .meta({ id: "RetentionChange" });
export type RetentionChange = z.infer<typeof RetentionChange>;

const OldRun = z
  .object({
    id: z.string(),
    label: z.string().nullable(),
    ended_at: Instant,
    disk_bytes: z.int().nullable().meta({ description: "Null until it is measured." }),
  })
  .meta({ id: "OldRun" });
export type OldRun = z.infer<typeof OldRun>;

export const OldRuns = z
  .object({
    count: z.int(),
    bytes: z.int().meta({ description: "Disk space of the runs whose size is known." }),
    unmeasured: z.int().meta({ description: "How many of them have no known size yet." }),
    runs: z.array(OldRun).meta({ description: "The oldest first, 200 at most." }),
    kept: z
      .object({ best: z.int(), newest: z.int(), archived: z.int(), in_use: z.int() })
      .meta({ description: "Runs that are old enough and stay, by the reason." }),
  })
  .meta({ id: "OldRuns", description: "The runs that a rule would remove now, and those that it would keep." });
export type OldRuns = z.infer<typeof OldRuns>;

export const HomeRetention = z
  .object({
    rule: RetentionRule.nullable().meta({ description: "Null by default: nothing is deleted by age." }),
    set_at: Instant.nullable(),
    looked_at: Instant.nullable().meta({ description: "When the rule was last applied; once an hour." }),
    doubt: z.string().nullable().meta({
      description: "Why the rule removes less than the dates say, or nothing: the computer's clock may be wrong.",
    }),
    due: OldRuns.nullable().meta({ description: "Null without a rule." }),
    removed: z
      .array(
        z.object({
          id: z.string(),
          label: z.string().nullable(),
          at: Instant,
          freed_bytes: z.int(),
        }),
      )
      .meta({ description: "The runs that the rule has removed, the newest first, 50 at most." }),
  })
  .meta({ id: "HomeRetention" });
export type HomeRetention = z.infer<typeof HomeRetention>;
