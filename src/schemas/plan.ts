// A preview of a run, before anything costs money.

import { z } from "zod";
import { HostHistory } from "./hosts.ts";
import { InstallPlan, StartPlan } from "./install.ts";
import { JobStatus, LeftOut } from "./job.ts";
import { ProviderName } from "./spec.ts";

export const PlanOffer = z
  .object({
    /** The provider's own name for the offered machine. */
    id: z.string(),
    price_per_hour_usd: z.number().nullable(),
    /** The provider's description for a person: GPU, memory, place. */
    facts: z.record(z.string(), z.string()),
    /** False if the price is above the cap. */
    within_cap: z.boolean(),
    /** Why it is tried last: its host was bad within 7 days. Null for the others. */
    avoided: z.string().nullable(),
  })
  .meta({ id: "PlanOffer" });
export type PlanOffer = z.infer<typeof PlanOffer>;

export const Plan = z
  .object({
    provider: ProviderName,
    gpus: z.string(),
    nodes: z.int(),
    /** The directory whose code the run uses, absolute, even if the request omitted it. */
    project_dir: z.string(),
    /** Cheapest first, the first few of `offers_total`. */
    offers: z.array(PlanOffer),
    offers_total: z.int(),
    /**
     * All nodes together, at the cheapest offer within the cap; null if there is no such offer or no price is reported.
     */
    price_per_hour_usd: z.number().nullable(),
    /** The maximum cost of the run, if it has a time limit and a price. */
    cost_max_usd: z.number().nullable(),
    /** How machines of this GPU at this provider have turned out in this home; null where none was rented. */
    history: HostHistory.nullable(),
    /** The project's files: sent to the machine, or kept as a record where the run works in place. */
    code: z
      .object({
        files: z.int(),
        bytes: z.int(),
        sent: z.boolean(),
        largest: z.array(z.object({ path: z.string(), size: z.int() })),
        /** Project files that are excluded; null if there are none. */
        left_out: LeftOut.nullable(),
      })
      .nullable(),
    /** The packages that will be installed before the script starts; null if they cannot be determined. */
    install: InstallPlan.nullable(),
    /** How the script will be started; null if that cannot be determined. */
    start: StartPlan.nullable(),
    account: z.object({ name: z.string(), balance_usd: z.number().nullable() }).nullable(),
    /** The mechanisms that end the machine, as sentences. */
    stops: z.array(z.string()),
    warnings: z.array(z.string()),
    /** Why the run would be refused; empty if it would be started. */
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
    /** A suggested first run: a ready body for `POST /jobs`; null if the example is not installed. */
    example: z.object({ label: z.string(), spec: z.record(z.string(), z.unknown()) }).nullable(),
  })
  .meta({ id: "Summary" });
export type Summary = z.infer<typeof Summary>;
