// What a run would do, told before anything is paid for.

import { z } from "zod";
import { InstallPlan, StartPlan } from "./install.ts";
import { JobStatus, LeftOut } from "./job.ts";
import { ProviderName } from "./spec.ts";

export const PlanOffer = z
  .object({
    /** The provider's own name for what would be rented. */
    id: z.string(),
    price_per_hour_usd: z.number().nullable(),
    /** What the provider tells of it, for a person: GPU, memory, place. */
    facts: z.record(z.string(), z.string()),
    /** False where it is dearer than the cap. */
    within_cap: z.boolean(),
  })
  .meta({ id: "PlanOffer" });
export type PlanOffer = z.infer<typeof PlanOffer>;

export const Plan = z
  .object({
    provider: ProviderName,
    gpus: z.string(),
    nodes: z.int(),
    /** The directory whose code the run uses, absolute, also where the request left it out. */
    project_dir: z.string(),
    /** Cheapest first, the first few of `offers_total`. */
    offers: z.array(PlanOffer),
    offers_total: z.int(),
    /** All nodes together, at the cheapest offer within the cap; null where there is none or no price is told. */
    price_per_hour_usd: z.number().nullable(),
    /** The most that the run can cost, where it has a limit of time and a price. */
    cost_max_usd: z.number().nullable(),
    /** The project's files: sent to the machine, or kept as a record where the run works in place. */
    code: z
      .object({
        files: z.int(),
        bytes: z.int(),
        sent: z.boolean(),
        largest: z.array(z.object({ path: z.string(), size: z.int() })),
        /** What of the project is no part of it; null where that is nothing. */
        left_out: LeftOut.nullable(),
      })
      .nullable(),
    /** What will be installed before the script starts; null where that cannot be told. */
    install: InstallPlan.nullable(),
    /** How the script will be started; null where that cannot be told. */
    start: StartPlan.nullable(),
    account: z.object({ name: z.string(), balance_usd: z.number().nullable() }).nullable(),
    /** What ends the machine, in words. */
    stops: z.array(z.string()),
    warnings: z.array(z.string()),
    /** Why the run would be refused; empty where it would be started. */
    refusals: z.array(
      z.object({ code: z.string(), message: z.string(), hint: z.string(), field: z.string().nullable() }),
    ),
  })
  .meta({
    id: "Plan",
    description: "A preview of what a run would rent, send and cost. Nothing is rented, started or stored.",
  });
export type Plan = z.infer<typeof Plan>;

export const Summary = z
  .object({
    /** How many runs have each status. */
    runs: z.partialRecord(JobStatus, z.int()),
    total: z.int(),
    /** What a first run may be: a ready body for `POST /jobs`; null where the example is not installed. */
    example: z.object({ label: z.string(), spec: z.record(z.string(), z.unknown()) }).nullable(),
  })
  .meta({ id: "Summary" });
export type Summary = z.infer<typeof Summary>;
