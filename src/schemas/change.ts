// The fields of a run that may be changed after its start.

import { z } from "zod";
import { line } from "./line.ts";
import { Tags } from "./tags.ts";
import { BudgetUsd, PriceCap, RunSpec } from "./spec.ts";

export const JobChange = z
  .strictObject({
    budget_usd: BudgetUsd.nullable().optional(),
    max_runtime_minutes: RunSpec.shape.max_runtime_minutes.unwrap().nullable().optional(),
    price_cap: PriceCap.nullable().optional(),
    label: line(200).nullable().optional(),
    tags: Tags.optional().meta({ description: "All tags of the run; an empty list removes them." }),
  })
  .refine((change) => Object.values(change).some((value) => value !== undefined), "must change something")
  .meta({ id: "JobChange", description: "Fields that are left out stay; null removes a limit or the label." });
export type JobChange = z.infer<typeof JobChange>;
