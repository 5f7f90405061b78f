// The names of statuses, steps and machine states, as the API spells them. This file loads no zod, so that the command line and the
// dashboard can list the names without loading the schemas; `job.ts` builds its schemas from it.

export const ACTIVE_STATUSES = [
  "provisioning",
  "awaiting_ssh",
  "syncing",
  "installing",
  "running",
  "terminating",
] as const;

/** How a run ended. An ended run has its outcome as its status. */
export const OUTCOMES = ["succeeded", "failed", "cancelled", "interrupted", "timed_out"] as const;

export const JOB_STATUSES = [...ACTIVE_STATUSES, ...OUTCOMES] as const;

type Status = (typeof JOB_STATUSES)[number];
export const hasEnded = (status: Status): boolean => (OUTCOMES as readonly Status[]).includes(status);

/** In the order in which a run goes through them. */
export const STEP_NAMES = [
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
