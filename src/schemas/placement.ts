// The placements of a job in the form of the API: each machine or gang that the job used or tried to get, in order. The status of
// an open one is its job's.

import { z } from "zod";
import { Instant, JobError, JobStatus } from "./job.ts";
import { LimitWait } from "./limits.ts";
import { FAILURES, SPOT_CHOICES } from "./names.ts";
import { ProviderName } from "./spec.ts";

export const Placement = z
  .object({
    n: z.int().meta({ description: "Its number, from 1." }),
    candidate: z.int().meta({ description: "Index in the spec's `candidates`; 0 for a spec without them." }),
    provider: ProviderName,
    gpus: z.string(),
    region: z.string().nullable(),
    spot: z.enum(SPOT_CHOICES),
    status: JobStatus.meta({ description: "The job's status while it is open, then how it ended." }),
    opened_at: Instant,
    started_at: Instant.nullable().meta({ description: "When the script began on it; null if it never did." }),
    closed_at: Instant.nullable().meta({ description: "When the provider confirmed the end of its last machine." }),
    price_per_hour_usd: z.number().nullable().meta({ description: "The sum over its nodes." }),
    cost_usd: z.number(),
    failure: z
      .string()
      .nullable()
      .meta({
        description: `Why it ended without success: ${FAILURES.filter((kind) => kind !== "other").join(", ")}, exit:<code> or other.`,
      }),
    step: z.string().nullable().meta({ description: "The step in which it failed." }),
    error: JobError.nullable(),
    exit_code: z.int().nullable(),
    checkpoint: z
      .string()
      .nullable()
      .meta({ description: "The newest complete checkpoint on this computer when it closed." }),
    resumed_from: z
      .object({ job: z.string(), checkpoint: z.string() })
      .nullable()
      .meta({ description: "The checkpoint from which its script started." }),
    goes_on: z.boolean().meta({ description: "Whether another placement followed." }),
    work_lost_seconds: z.number().nullable().meta({
      description:
        "Time of the script that the next placement had to repeat: from the checkpoint that it started from to the end of this one. Null if none followed or it is unknown.",
    }),
    work_lost_usd: z.number().nullable(),
    saved_usd: z.number().nullable().meta({
      description:
        "On a spot machine, compared with the cheapest machine on demand that was offered at the time; else null.",
    }),
    machines: z.array(z.string()).meta({ description: "Names of its machines in the ledger." }),
  })
  .meta({ id: "Placement" });
export type Placement = z.infer<typeof Placement>;

/** The last answer of a candidate. */
export const TriedCandidate = z.object({
  candidate: z.int(),
  provider: z.string(),
  gpus: z.string(),
  why: z.string(),
});
export type TriedCandidate = z.infer<typeof TriedCandidate>;

export const Waiting = z
  .object({
    since: Instant.meta({ description: "When the search for a machine began." }),
    until: Instant.nullable().meta({ description: "When the run gives up; null before the first answers." }),
    next_at: Instant.nullable().meta({ description: "When svc asks again; null while it asks." }),
    tried: z.array(TriedCandidate),
    limit: LimitWait.nullable().meta({
      description: "Set while limits of the home hold the run back: it searches once they have room.",
    }),
  })
  .meta({ id: "Waiting", description: "The wait of a run in status `waiting`. No machine exists meanwhile." });
export type Waiting = z.infer<typeof Waiting>;

export const Placements = z
  .object({ placements: z.array(Placement), waiting: Waiting.nullable() })
  .meta({ id: "Placements" });
export type Placements = z.infer<typeof Placements>;
