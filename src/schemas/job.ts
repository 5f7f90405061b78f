// Records that the control plane answers with. Names are the wire's; instants are RFC 3339 UTC.

import { z } from "zod";
import type { Capabilities } from "../providers/descriptor.ts";
import { ARCHIVED_CHOICES, JOB_STATUSES, MACHINE_STATES, NOTE_KINDS, OUTCOMES, STEP_NAMES } from "./names.ts";
import { ProviderName } from "./spec.ts";
import { TAGS_MAX } from "./tag-words.ts";
import { Tag } from "./tags.ts";

export const JobStatus = z.enum(JOB_STATUSES).meta({ id: "JobStatus" });
export type JobStatus = z.infer<typeof JobStatus>;
export const Outcome = z.enum(OUTCOMES);
export type Outcome = z.infer<typeof Outcome>;

export const StepName = z.enum(STEP_NAMES).meta({ id: "StepName" });
export type StepName = z.infer<typeof StepName>;

export const Instant = z.iso.datetime();

export const JobError = z
  .object({ code: z.string(), message: z.string(), hint: z.string() })
  .meta({ id: "JobError", description: "The failure, its effect on the machine and the cost, and what to do." });
export type JobError = z.infer<typeof JobError>;

export const Note = z
  .object({ kind: z.enum(NOTE_KINDS), message: z.string() })
  .meta({ id: "Note", description: "The current situation: a kind for programs, a message for people." });
export type Note = z.infer<typeof Note>;

export const MachineState = z.enum(MACHINE_STATES).meta({
  id: "MachineState",
  description:
    "intended: a create request may be in flight; unknown: its answer was lost; held: exists and may cost money; releasing: svc has requested termination, not yet confirmed; released: confirmed gone by the provider.",
});
export type MachineState = z.infer<typeof MachineState>;

export const JobMachine = z
  .object({
    id: z.string().nullable(),
    name: z.string(),
    node: z.int(),
    address: z.string().nullable(),
    state: MachineState,
    price_per_hour_usd: z.number().nullable(),
    created_at: Instant,
    terminated_at: Instant.nullable(),
  })
  .meta({ id: "JobMachine" });
export type JobMachine = z.infer<typeof JobMachine>;

/** A file or folder of the project that is excluded from the run, and why. */
export const LeftOutName = z.object({ path: z.string(), why: z.string() });
export type LeftOutName = z.infer<typeof LeftOutName>;
export const LeftOut = z
  .object({
    /** Files and folders; a folder counts once, whatever it holds. */
    count: z.int(),
    /** The first of them: at most 20. */
    names: z.array(LeftOutName),
    /** How many further files git ignores; they are not named here. A folder counts once. */
    ignored: z.int(),
  })
  .meta({ id: "LeftOut", description: "Files of the project that are not part of the run's code." });
export type LeftOut = z.infer<typeof LeftOut>;
/**
 * As stored in a job's row. `list` is the id of the longer list that the home keeps, or null; `missed` says how many of
 * `count` a person might miss: they come first.
 */
export type StoredLeftOut = LeftOut & { list: string | null; missed: number };

export const JobRecord = z
  .object({
    id: z.string(),
    status: JobStatus,
    exit_code: z.int().nullable(),
    cost_usd: z.number(),
    cost_estimate_usd: z.number().nullable().meta({
      description:
        "The cost with the rate that you gave for machines without a reported price. Null if `cost_usd` is complete, or if a rate is unknown.",
    }),
    rate_usd_per_hour: z.number().nullable().meta({
      description:
        "The price per hour of all its machines that may cost money now, given rates included; null if a rate is unknown.",
    }),
    budget_usd: z.number().nullable(),
    spent_usd: z.number().nullable().meta({
      description:
        "The sum that counts against the budget: all machines, failed ones and unproven ends included. Null if a rate is unknown.",
    }),
    budget_left_usd: z.number().nullable().meta({
      description:
        "The amount that the script may still use: the budget minus the amount spent and the amount kept for the end.",
    }),
    budget_kept_usd: z.number().nullable().meta({ description: "Kept for the end: grace, downloads, release." }),
    budget_stops_at: Instant.nullable().meta({
      description: "When the script will be asked to stop, at the present rate; null if nothing is spent now.",
    }),
    label: z.string().nullable(),
    tags: z.array(z.string()),
    provider: ProviderName,
    gpus: z.string(),
    nodes: z.int(),
    entrypoint: z.string(),
    args: z.array(z.string()),
    created_at: Instant,
    started_at: Instant.nullable(),
    ended_at: Instant.nullable(),
    price_per_hour_usd: z.number().nullable(),
    machines: z.array(JobMachine),
    placements: z.int().meta({
      description:
        "How many machines or gangs it has used or tried to get, one after the other. 0 while it waits for its first.",
    }),
    error: JobError.nullable(),
    resumed_from: z.object({ job: z.string(), checkpoint: z.string().nullable() }).nullable().meta({
      description:
        "The checkpoint that the run started from: the run that saved it, and its path. Null for a run that started from the beginning; `checkpoint` is null until it is chosen.",
    }),
    code_snapshot: z.string().nullable(),
    disk_bytes: z.int().nullable().meta({
      description:
        "Disk space of the run's log and checkpoints on this computer. Until the run has ended and been measured, the sum of their lengths.",
    }),
    archived_at: Instant.nullable().meta({
      description: "When the run was archived. An archived run is left out of lists and is not removed by age.",
    }),
    /** Null if nothing was excluded, or if the run is older than this record. */
    left_out: LeftOut.nullable(),
    spec: z.record(z.string(), z.unknown()),
    note: Note.nullable(),
  })
  .meta({ id: "JobRecord" });
export type JobRecord = z.infer<typeof JobRecord>;

/** One value or several separated by commas; `what` describes the allowed values in an error. */
const listOf = <T extends z.ZodType<unknown, string>>(schema: T, max: number, what: string) =>
  z
    .string()
    .max(16_384)
    .transform((text, context): z.output<T>[] => {
      const all = z.array(schema).max(max).safeParse(text.split(","));
      if (all.success) return all.data;
      context.addIssue({ code: "custom", message: `must be ${what}, or several separated by commas` });
      return z.NEVER;
    });

/** Selects runs for a list or a count. */
export const JobsFilter = z.strictObject({
  /** Text that occurs in the id, label, tags, entrypoint, GPUs, provider or error; upper and lower case are equal. */
  q: z.string().min(1).max(200).optional(),
  provider: ProviderName.optional(),
  label: z.string().max(200).optional(),
  tag: listOf(Tag, TAGS_MAX, "a tag")
    .optional()
    .meta({ description: "Runs that have this tag; of several, separated by commas, all of them." }),
  created_from: Instant.optional().meta({ description: "Submitted at this instant or later." }),
  created_until: Instant.optional().meta({ description: "Submitted before this instant." }),
  archived: z.enum(ARCHIVED_CHOICES).optional().meta({
    description:
      "`hidden` leaves archived runs out, `only` lists nothing else, `all` lists both. `hidden` by default, and `all` for runs given by `ids`.",
  }),
});
export type JobsFilter = z.infer<typeof JobsFilter>;

export const JobsQuery = z.strictObject({
  /** One status or several. */
  status: listOf(JobStatus, 20, `one of ${JobStatus.options.join(", ")}`).optional(),
  /** These jobs only, by their full ids. */
  ids: listOf(z.string().regex(/^[a-z0-9]{1,64}$/), 200, "the full id of a job").optional(),
  ...JobsFilter.shape,
  limit: z.coerce.number().int().min(1).max(500).default(50),
  cursor: z
    .string()
    .regex(/^[a-z0-9]{1,64}$/, "must be the next_cursor of an earlier page")
    .optional(),
});
export type JobsQuery = z.infer<typeof JobsQuery>;
export const JobsPage = z
  .object({ jobs: z.array(JobRecord), next_cursor: z.string().nullable() })
  .meta({ id: "JobsPage" });
export type JobsPage = z.infer<typeof JobsPage>;

export const AttemptStatus = z.enum(["pending", "running", "succeeded", "failed", "retrying", "cancelled"]);
export const TimelineStep = z
  .object({
    step: StepName,
    node: z.int(),
    attempt: z.int(),
    status: AttemptStatus,
    started_at: Instant.nullable(),
    ended_at: Instant.nullable(),
    error: JobError.nullable(),
    detail: z.record(z.string(), z.unknown()).nullable(),
    /** When the next attempt is due, while `status` is `retrying`. */
    next_attempt_at: Instant.nullable(),
    placement: z
      .int()
      .nullable()
      .meta({ description: "Number of the placement it belongs to; null for `place`, which looks for one." }),
  })
  .meta({ id: "TimelineStep" });
export type TimelineStep = z.infer<typeof TimelineStep>;
export const TimelineTransition = z
  .object({
    seq: z.int(),
    from: z.string().nullable(),
    to: z.string(),
    event: z.string(),
    at: Instant,
    placement: z
      .int()
      .nullable()
      .meta({ description: "Number of the placement that it opens, belongs to or closes; null if none." }),
  })
  .meta({ id: "TimelineTransition" });
export type TimelineTransition = z.infer<typeof TimelineTransition>;
export const Timeline = z
  .object({
    steps: z.array(TimelineStep),
    transitions: z.array(TimelineTransition),
    tracker_url: z
      .string()
      .optional()
      .meta({ description: "Address of the run at the tracker, as reported by its machine; http or https." }),
  })
  .meta({ id: "Timeline" });
export type Timeline = z.infer<typeof Timeline>;

/** JSON has no NaN: the three values that are not finite travel as these strings. */
export const MetricValue = z.union([z.number(), z.enum(["NaN", "Infinity", "-Infinity"])]);
export const MetricPoint = z
  .object({ step: z.number(), time: z.number(), value: MetricValue, rank: z.int() })
  .meta({ id: "MetricPoint" });
export type MetricPoint = z.infer<typeof MetricPoint>;
export const Metrics = z.object({ series: z.record(z.string(), z.array(MetricPoint)) }).meta({ id: "Metrics" });
export type Metrics = z.infer<typeof Metrics>;
export const MetricsQuery = z.strictObject({
  name: z.string().max(512).optional(),
  since_step: z.coerce.number().optional(),
  max_points: z.coerce.number().int().min(2).max(100_000).optional(),
});
export type MetricsQuery = z.infer<typeof MetricsQuery>;

export const CheckpointFile = z
  .object({
    path: z.string(),
    size: z.int(),
    modified_at: Instant,
    in_progress: z.boolean().optional().meta({
      description: "True for a file that was still being written during the download: its end may be missing.",
    }),
    placement: z.int().optional().meta({
      description:
        "The placement whose machine saved it; absent for the first. Compare `modified_at` only within one: clocks differ.",
    }),
  })
  .meta({ id: "CheckpointFile" });
export type CheckpointFile = z.infer<typeof CheckpointFile>;
export const Checkpoints = z.object({ files: z.array(CheckpointFile) }).meta({ id: "Checkpoints" });
export type Checkpoints = z.infer<typeof Checkpoints>;

export const ResumePoint = z
  .object({
    name: z
      .string()
      .meta({ description: "Path of the file or folder in the checkpoint directory: `resume_checkpoint`." }),
    step: z.int().nullable().meta({ description: "As the script announced it; null if it did not." }),
    files: z.int(),
    bytes: z.int(),
    saved_at: Instant,
  })
  .meta({ id: "ResumePoint" });
export type ResumePoint = z.infer<typeof ResumePoint>;
export const ResumePoints = z.object({ checkpoints: z.array(ResumePoint) }).meta({ id: "ResumePoints" });
export type ResumePoints = z.infer<typeof ResumePoints>;

export const CodeFile = z.object({
  path: z.string(),
  size: z.int(),
  /** Null where only size and time were recorded. */
  sha256: z.string().nullable(),
  mode: z.enum(["file", "executable"]),
  /** False if the content was not kept: data of a run that worked in place. */
  kept: z.literal(false).optional(),
  /** Modification time, if the content was not kept. */
  modified_at: Instant.optional(),
});
export type CodeFile = z.infer<typeof CodeFile>;
export const CodeSnapshot = z
  .object({
    id: z.string(),
    files: z.array(CodeFile),
    bytes: z.int(),
    git: z
      .object({
        commit: z.string(),
        branch: z.string().nullable(),
        dirty: z.boolean(),
        /** `git describe --tags --long --always`, for builds that take their version from git. */
        describe: z.string().nullable().optional(),
      })
      .nullable(),
    created_at: Instant,
  })
  .meta({ id: "CodeSnapshot" });
export type CodeSnapshot = z.infer<typeof CodeSnapshot>;

export const LedgerMachine = z
  .object({
    name: z.string(),
    id: z.string().nullable(),
    provider: ProviderName,
    job_id: z.string().nullable(),
    node: z.int(),
    state: MachineState,
    address: z.string().nullable(),
    price_per_hour_usd: z.number().nullable(),
    /** Dollars so far, each period at the price of that time; null if the price is unknown. */
    cost_usd: z.number().nullable(),
    created_at: Instant,
    age_seconds: z.number(),
    note: Note.nullable(),
  })
  .meta({ id: "LedgerMachine" });
export type LedgerMachine = z.infer<typeof LedgerMachine>;
export const Machines = z.object({ machines: z.array(LedgerMachine) }).meta({ id: "Machines" });

export const ReconcileReport = z
  .object({
    dry_run: z.boolean(),
    /** Journals folded again and compared with the stored snapshot. */
    replayed: z.array(z.object({ job_id: z.string(), ok: z.boolean(), first_difference_seq: z.int().nullable() })),
    /** Unfinished jobs that resume where they stopped; also those that only have machines left to release. */
    resumed: z.array(z.string()),
    /** Machines that jobs are releasing and that are not proven gone yet: they may still cost money. */
    ending: z.array(
      z.object({
        name: z.string(),
        id: z.string().nullable(),
        provider: z.string(),
        job_id: z.string(),
        price_per_hour_usd: z.number().nullable(),
      }),
    ),
    /** Machines of ours that no live job owns. */
    terminated: z.array(
      z.object({ name: z.string(), id: z.string().nullable(), provider: z.string(), job_id: z.string().nullable() }),
    ),
    failed: z.array(z.object({ name: z.string(), provider: z.string(), error: JobError })),
    unreachable_providers: z.array(z.string()),
    /**
     * Machines on the accounts of connected providers without this installation's mark: another installation's, or made
     * by hand. Never touched.
     */
    foreign: z.array(z.object({ provider: z.string(), id: z.string(), name: z.string().nullable() })),
  })
  .meta({ id: "ReconcileReport" });
export type ReconcileReport = z.infer<typeof ReconcileReport>;

export const Gpu = z
  .object({ model: z.string(), vram_gb: z.int(), providers: z.array(ProviderName) })
  .meta({ id: "Gpu" });
export type Gpu = z.infer<typeof Gpu>;

const ProviderCapabilities = z.object({
  runs_here: z.boolean().meta({ description: "Its machine is this computer." }),
  owns_machine: z.boolean().meta({ description: "svc makes and ends the machine." }),
  bills: z.boolean().meta({ description: "A machine costs money while it exists." }),
  reports_price: z.boolean(),
  gpus: z.enum(["none", "optional", "required"]).meta({ description: "Whether its machines have GPUs." }),
  nodes_max: z.int(),
  self_end: z.boolean().meta({ description: "The machine can end itself." }),
  list_by_tag: z.boolean(),
  spot: z.boolean().meta({ description: "It rents machines that it may take back at any time." }),
}) satisfies z.ZodType<Capabilities>;

export const ProviderInfo = z
  .object({
    name: ProviderName,
    speaks: z.string(),
    connected: z.boolean(),
    source: z.enum(["env", "store", "registry", "none_needed"]).nullable(),
    missing: z.array(z.string()),
    capabilities: ProviderCapabilities,
    stops_by_itself: z.string(),
  })
  .meta({ id: "ProviderInfo" });
export type ProviderInfo = z.infer<typeof ProviderInfo>;

/** One entry of the feed behind `GET /v1/events`. `seq` grows over all jobs and is never reused. */
export const FeedEvent = z
  .object({
    seq: z.int(),
    job_id: z.string().nullable(),
    at: Instant,
    /** job.created, job.transition, job.changed, job.archived, budget.warned, budget.reached, placement.opened, placement.closed, step.started, step.succeeded, step.retrying, step.failed, step.cancelled, machine.changed, checkpoint.saved, checkpoint.removed, job.removed, tracker.linked, pull.started, pull.ended, price.raised, alert, notice */
    type: z.string(),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "FeedEvent" });
export type FeedEvent = z.infer<typeof FeedEvent>;

/**
 * Live hints on the same socket: they carry no `seq`, are not replayed, and only announce that there is more to read.
 */
export const FeedHint = z.object({
  type: z.enum(["log.advanced", "metrics.advanced"]),
  job_id: z.string(),
  bytes: z.int().optional(),
});
export type FeedHint = z.infer<typeof FeedHint>;

export const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    hint: z.string(),
    errors: z.array(z.object({ field: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details." });
export type Problem = z.infer<typeof Problem>;

export const Health = z
  .object({
    status: z.literal("ok"),
    version: z.string(),
    pid: z.int(),
    home: z.string(),
    started_at: Instant,
    installation_id: z.string(),
  })
  .meta({ id: "Health" });
