// A preview of a run, before anything costs money.

import { z } from "zod";
import { HostHistory } from "./hosts.ts";
import { InstallPlan, StartPlan } from "./install.ts";
import { JobStatus, LeftOut } from "./job.ts";
import { SPOT_CHOICES } from "./names.ts";
import { ProviderName } from "./spec.ts";

export const PlanOffer = z
  .object({
    /** The provider's own name for the offered machine. */
    id: z.string(),
    candidate: z.int().meta({ description: "Index in the spec's `candidates`; 0 for a spec without them." }),
    provider: ProviderName,
    spot: z.boolean().meta({ description: "Whether the provider may take the machine back." }),
    price_per_hour_usd: z.number().nullable(),
    /** The provider's description for a person: GPU, memory, place. */
    facts: z.record(z.string(), z.string()),
    /** False if the price is above the cap. */
    within_cap: z.boolean(),
    /** Why it is tried last: its host was bad within 7 days. Null for the others. */
    avoided: z.string().nullable(),
    age_seconds: z.number().meta({ description: "Time since the provider listed it." }),
    budget_lasts_seconds: z.number().nullable().meta({
      description:
        "Time from the order until svc asks the script to stop, for all nodes; null without a budget or a price.",
    }),
  })
  .meta({ id: "PlanOffer" });
export type PlanOffer = z.infer<typeof PlanOffer>;

const Refusal = z.object({ code: z.string(), message: z.string(), hint: z.string(), field: z.string().nullable() });

export const StartTimes = z
  .object({
    /** From the order until the script began, in seconds. */
    seconds: z.number(),
    /** From the order until SSH answered. */
    ssh_seconds: z.number(),
    /** How many placements these medians rest on. */
    runs: z.int(),
  })
  .meta({ id: "StartTimes", description: "Medians of this home's own placements with the same provider and GPUs." });
export type StartTimes = z.infer<typeof StartTimes>;

export const PlanCandidate = z
  .object({
    candidate: z.int(),
    provider: ProviderName,
    gpus: z.string(),
    region: z.string().nullable(),
    spot: z.enum(SPOT_CHOICES),
    price_cap: z.number().nullable(),
    offers_total: z.int(),
    /** All nodes together, at its cheapest offer within the cap; null without one, or if the provider reports no price. */
    price_per_hour_usd: z.number().nullable(),
    /** Why it cannot be rented now; null if it can. */
    refusal: Refusal.nullable(),
    /** How long its provider took to answer; null if it was not asked. */
    answer_seconds: z.number().nullable(),
    expected_start: StartTimes.nullable(),
    history: HostHistory.nullable().meta({
      description: "How such machines have worked in this home; null if none was rented.",
    }),
  })
  .meta({ id: "PlanCandidate" });
export type PlanCandidate = z.infer<typeof PlanCandidate>;

export const Plan = z
  .object({
    provider: ProviderName,
    gpus: z.string(),
    nodes: z.int(),
    /** The directory whose code the run uses, absolute, even if the request omitted it. */
    project_dir: z.string(),
    /** The first few of each candidate, in the order of the candidates; of one candidate the cheapest first. */
    offers: z.array(PlanOffer),
    offers_total: z.int(),
    /** One for each machine that the spec allows. */
    candidates: z.array(PlanCandidate),
    /** The candidates that have a machine now, in the order in which svc would try them. */
    order: z.array(z.int()),
    /**
     * All nodes together, at the cheapest offer within the cap of the candidate that is tried first; null if there is no such offer or
     * no price is reported.
     */
    price_per_hour_usd: z.number().nullable(),
    /** The maximum cost of the run: its budget, or its time limit at its price; null without both. */
    cost_max_usd: z.number().nullable(),
    budget_usd: z.number().nullable(),
    budget_lasts_seconds: z
      .number()
      .nullable()
      .meta({ description: "At `price_per_hour_usd`; null without a budget or a price." }),
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
    refusals: z.array(Refusal),
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
