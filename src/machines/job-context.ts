// The context of a job machine. Plain JSON: it must equal its own JSON round trip, because the stored text is the
// truth.

import type { CandidateImage } from "../domain/candidates.ts";
import type { Failure } from "../domain/failure.ts";
import type { JobError, Outcome, StepName } from "../schemas/job.ts";

export type NodePhase =
  "waiting" | "provisioned" | "reachable" | "synced" | "installed" | "launched" | "ended" | "collected" | "released";

export interface NodeContext {
  node: number;
  phase: NodePhase;
  exit_code: number | null;
}

/** The rules by which another placement follows; from the spec, and fixed when the job is made. */
export interface PlacementRules {
  /** Whether candidates are searched for a machine in `waiting`. False: one candidate, and no waiting. */
  searches: boolean;
  /** Further placements after failures that `retry_on` names, preemptions apart. */
  retry_max: number;
  retry_on: readonly string[];
  /** Whether `machine_lost` and `preempted` count as named in `retry_on` once a complete checkpoint was downloaded. */
  recovers: boolean;
  max_preemptions: number;
  /** Whether machines are rented on demand once `max_preemptions` is reached; else the job ends. */
  falls_back: boolean;
  /** The image of each candidate; absent if there is no search. */
  images?: readonly CandidateImage[];
}

/** The rules of a job that has one placement, whatever its outcome. */
export const NO_FURTHER_PLACEMENTS: PlacementRules = {
  searches: false,
  retry_max: 0,
  retry_on: [],
  recovers: false,
  max_preemptions: 0,
  falls_back: false,
};

export interface JobInput {
  job_id: string;
  nodes: number;
  /** Limit of the time in `running`, summed over all placements, in milliseconds; null for no limit. */
  max_runtime_ms: number | null;
  /** Limit of all costs of the job, in micro-dollars; null for none. Absent in journals of machine versions before 4. */
  budget_micro?: number | null;
  /** Absent in journals of machine versions before 3. */
  rules?: PlacementRules;
  /** True if the limits of the home hold the job back. Absent otherwise, and in journals of machine versions before 6. */
  held?: boolean;
  /** Instant of the event that created the job, milliseconds since the epoch. */
  at: number;
}

/** How a placement ended without success. `step` is the one that failed or ran out of time. */
export interface PlacementFailure {
  kind: Failure;
  step: StepName;
}

/** A candidate that had no machine, with its provider's reason. */
export interface Refusal {
  candidate: number;
  at: number;
  code: string;
  message: string;
}

export interface JobContext {
  job_id: string;
  max_runtime_ms: number | null;
  /** Limit of all costs of the job, in micro-dollars; null for none. */
  budget_micro: number | null;
  /** The highest share of the budget, in percent, about which a warning was recorded; 0 before the first. */
  warned: number;
  rules: PlacementRules;
  /** Number of the open placement, else of the last one; 0 before the first. */
  placement: number;
  /** Index of this placement's candidate, or of the next one's while the job waits; null during a search. */
  candidate: number | null;
  /** Whether the job uses only machines on demand from now on. */
  on_demand: boolean;
  /** Whether the limits of the home hold the job back. Once it is let in it stays so. */
  held: boolean;
  /** Start of the current search for a machine; null while the job holds one or is held back. */
  searching_since: number | null;
  /** The candidates that had no machine in this search, each with its last error. */
  refusals: Refusal[];
  /** The candidates whose image could not start. */
  bad_images: { candidate: number; message: string }[];
  failure: PlacementFailure | null;
  /** The newest complete checkpoint on this computer, reported during the release of the machine. */
  checkpoint: string | null;
  /** Placements that followed a failure; preemptions are counted apart. */
  retries: number;
  preemptions: number;
  /** Keys are `<failure> <step>` of earlier placements; each value is the newest complete checkpoint at that time. */
  seen: Record<string, string | null>;
  /** Milliseconds of earlier placements in `running`, and the start of the present time in `running`. */
  ran_ms: number;
  running_since: number | null;
  nodes: NodeContext[];
  /**
   * True once anything was started on the machine: from then on there may be something to stop, and a log and
   * checkpoints to collect.
   */
  occupied: boolean;
  started_at: number | null;
  ended_at: number | null;
  outcome: Outcome | null;
  exit_code: number | null;
  error: JobError | null;
}

/** Every event carries the instant at which the engine accepted it; machines never read a clock. */
interface Base {
  at: number;
}
interface NodeDone extends Base {
  node: number;
}

export type JobEvent =
  /** The limits of the home have room for the job. */
  | ({ type: "job.admitted" } & Base)
  /** A candidate with an offer was found. */
  | ({ type: "place.done"; candidate: number } & NodeDone)
  | ({ type: "provision.done" } & NodeDone)
  | ({ type: "await_ssh.done" } & NodeDone)
  | ({ type: "sync.done" } & NodeDone)
  | ({ type: "install.done" } & NodeDone)
  | ({ type: "launch.done" } & NodeDone)
  /** `exit_code`: null if the end of the run was not observed. */
  | ({ type: "stream.done"; exit_code: number | null; error: JobError | null; failure?: Failure } & NodeDone)
  | ({ type: "collect.done"; exit_code: number | null } & NodeDone)
  /**
   * `checkpoint`: the checkpoint from which a next placement would start, or null. `lack`: why the budget allows none. The last
   * report counts.
   */
  | ({ type: "terminate.done"; checkpoint?: string | null; lack?: JobError | null } & NodeDone)
  | ({ type: "step.failed"; step: StepName; node: number; error: JobError; failure?: Failure } & Base)
  | ({ type: "job.kill"; error: JobError } & Base)
  | ({ type: "control.end"; error: JobError } & Base)
  /** The spending has passed a share of the budget. */
  | ({ type: "budget.warned"; percent: number } & Base)
  /** The spending and the cost of an orderly end have reached the budget. */
  | ({ type: "budget.reached"; error: JobError } & Base)
  /** The spending and the cost of the release have reached the budget. */
  | ({ type: "budget.spent"; error: JobError } & Base)
  /** A user changed the run. Fields that are absent stay; the last two are only recorded here. */
  | ({
      type: "job.changed";
      budget_micro?: number | null;
      max_runtime_ms?: number | null;
      price_cap?: number | null;
      label?: string | null;
    } & Base)
  | ({ type: "watchdog.idle"; node: number; error: JobError } & Base)
  | ({ type: "timer.phase"; error: JobError } & Base)
  | ({ type: "timer.max_runtime"; error: JobError } & Base)
  | ({ type: "timer.collect"; error: JobError } & Base);

export type JobEventType = JobEvent["type"];

/** Timers that a job machine may request. One per name at a time; leaving the state that set it removes it. */
export type TimerName = "phase" | "max_runtime" | "collect";
