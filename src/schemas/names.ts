// The names of statuses, steps and machine states, as the API spells them. This file loads no zod, so that the command line and the
// dashboard can list the names without loading the schemas; `job.ts` builds its schemas from it.

export const ACTIVE_STATUSES = [
  "waiting",
  "provisioning",
  "awaiting_ssh",
  "syncing",
  "installing",
  "running",
  "terminating",
] as const;

/** Which runs a list shows, by whether they are archived. */
export const ARCHIVED_CHOICES = ["hidden", "only", "all"] as const;

/** How a run ended. An ended run has its outcome as its status. */
export const OUTCOMES = ["succeeded", "failed", "cancelled", "interrupted", "timed_out"] as const;

export const JOB_STATUSES = [...ACTIVE_STATUSES, ...OUTCOMES] as const;

type Status = (typeof JOB_STATUSES)[number];
export const hasEnded = (status: Status): boolean => (OUTCOMES as readonly Status[]).includes(status);

/** In the order in which a run goes through them. */
export const STEP_NAMES = [
  "place",
  "provision",
  "await_ssh",
  "sync",
  "install",
  "launch",
  "stream",
  "collect",
  "terminate",
] as const;

export const MACHINE_STATES = ["intended", "unknown", "held", "releasing", "released"] as const;

/** Why a placement ended without success. In addition, `exit:<code>` stands for the script's own exit code. */
export const FAILURES = [
  "no_machine",
  "machine_unfit",
  "boot_failed",
  "image_failed",
  "machine_lost",
  "preempted",
  "install_failed",
  "oom",
  "other",
] as const;

/** The failures after which `retry.on` may ask for another placement. */
export const RETRYABLE = [
  "machine_lost",
  "preempted",
  "machine_unfit",
  "boot_failed",
  "install_failed",
  "oom",
] as const;

export const CHOICES = ["in_order", "cheapest"] as const;
export const SPOT_CHOICES = ["never", "prefer", "only"] as const;

/** The subject of a note on a run or a machine. */
export const NOTE_KINDS = [
  /** The stored state of the run cannot be continued; only a kill ends it. */
  "parked",
  /** The create call failed or its answer was lost: a machine may exist. */
  "order_unknown",
  /** svc has asked for the release of the machine. */
  "terminating",
  /** The provider still lists the machine after a release. */
  "still_listed",
  /** An attempt to release the machine failed; svc retries. */
  "terminate_failed",
  /** No run owns the machine; svc releases it. */
  "orphan",
  /** The machine cannot start; svc releases it and orders another one. */
  "machine_broken",
  "disk_full",
  /** The runtime of a notebook could not be reached at the end: the script may still run there. */
  "left_running",
  "step_retrying",
  "step_waiting",
  /** No candidate has a machine: svc asks them again. Nothing is billed. */
  "waiting_for_capacity",
  /** The limits of the home have no room for the run yet. Nothing is billed. */
  "waiting_for_limits",
  /** The run uses another machine than its first. */
  "continuing",
  /** The run lacked files of the project, which may be why it failed. */
  "code_left_out",
  "sink_copying",
  "sink_retrying",
  "sink_gave_up",
  "sink_left_out",
] as const;

export type NoteKind = (typeof NOTE_KINDS)[number];

const COSTLY_NOTES: readonly NoteKind[] = [
  "parked",
  "order_unknown",
  "terminating",
  "still_listed",
  "terminate_failed",
  "orphan",
];

/** Whether a note of this kind says that a machine may cost money for nothing. */
export const mayCostMoney = (kind: NoteKind): boolean => COSTLY_NOTES.includes(kind);

/** The fields of a job's record, in its order. */
export const JOB_FIELDS = [
  "id",
  "status",
  "exit_code",
  "cost_usd",
  "cost_estimate_usd",
  "rate_usd_per_hour",
  "budget_usd",
  "spent_usd",
  "budget_left_usd",
  "budget_kept_usd",
  "budget_stops_at",
  "label",
  "tags",
  "provider",
  "gpus",
  "nodes",
  "entrypoint",
  "args",
  "created_at",
  "started_at",
  "ended_at",
  "price_per_hour_usd",
  "machines",
  "placements",
  "error",
  "resumed_from",
  "code_snapshot",
  "disk_bytes",
  "archived_at",
  "left_out",
  "spec",
  "note",
] as const;
