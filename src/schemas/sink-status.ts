// The upload status of a job's sinks.

import { z } from "zod";
import { Instant, JobError } from "./job.ts";
import { SinkKind } from "./sink.ts";

export const SinkState = z.enum(["waiting", "copying", "retrying", "done", "gave_up"]).meta({
  id: "SinkState",
  description:
    "waiting: everything so far is copied and the run continues; copying: files are being copied or are queued; retrying: the last attempt failed; done: the run has ended and everything is copied; gave_up: svc stopped retrying after the end of the run, and the remaining files exist only in this home.",
});
export type SinkState = z.infer<typeof SinkState>;

const Amount = z.object({ files: z.int(), bytes: z.int() });

export const SinkStatus = z
  .object({
    /** Index in the spec's list. */
    sink: z.int(),
    kind: SinkKind,
    url: z.string(),
    what: z.array(z.enum(["checkpoints", "logs"])),
    state: SinkState,
    /** Uploaded and verified, each file in its newest version. */
    sent: Amount,
    /** On this computer and not uploaded yet. */
    waiting: Amount,
    /** Never uploaded, each with the reason. At most 100 of them. */
    left_out: z.array(z.object({ path: z.string(), why: z.string() })),
    /** Large files that are being uploaded; `sent` counts the bytes that the store has. */
    uploads: z.array(z.object({ path: z.string(), size: z.int(), sent: z.int() })),
    last_copied_at: Instant.nullable(),
    error: JobError.nullable(),
    next_attempt_at: Instant.nullable(),
  })
  .meta({ id: "SinkStatus" });
export type SinkStatus = z.infer<typeof SinkStatus>;
export const JobSinks = z.object({ sinks: z.array(SinkStatus) }).meta({ id: "JobSinks" });
export type JobSinks = z.infer<typeof JobSinks>;
