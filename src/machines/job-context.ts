// The context of a job machine. Plain JSON: it must equal its own JSON round trip, because the stored text is the
// truth.

import type { JobError, Outcome, StepName } from "../schemas/job.ts";

export type NodePhase =
  "waiting" | "provisioned" | "reachable" | "synced" | "installed" | "launched" | "ended" | "collected" | "released";

export interface NodeContext {
  node: number;
  phase: NodePhase;
  exit_code: number | null;
}

export interface JobInput {
  job_id: string;
  nodes: number;
  /** Milliseconds from launch after which the run is ended; null for no limit. */
  max_runtime_ms: number | null;
  /** Instant of the event that created the job, milliseconds since the epoch. */
  at: number;
}

export interface JobContext {
  job_id: string;
  max_runtime_ms: number | null;
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
  | ({ type: "provision.done" } & NodeDone)
  | ({ type: "await_ssh.done" } & NodeDone)
  | ({ type: "sync.done" } & NodeDone)
  | ({ type: "install.done" } & NodeDone)
  | ({ type: "launch.done" } & NodeDone)
  /** `exit_code`: null if the end of the run was not observed. */
  | ({ type: "stream.done"; exit_code: number | null; error: JobError | null } & NodeDone)
  | ({ type: "collect.done"; exit_code: number | null } & NodeDone)
  | ({ type: "terminate.done" } & NodeDone)
  | ({ type: "step.failed"; step: StepName; node: number; error: JobError } & Base)
  | ({ type: "job.kill"; error: JobError } & Base)
  | ({ type: "control.end"; error: JobError } & Base)
  | ({ type: "watchdog.idle"; node: number; error: JobError } & Base)
  | ({ type: "timer.phase"; error: JobError } & Base)
  | ({ type: "timer.max_runtime"; error: JobError } & Base)
  | ({ type: "timer.collect"; error: JobError } & Base);

export type JobEventType = JobEvent["type"];

/** Timers that a job machine may request. One per name at a time; leaving the state that set it removes it. */
export type TimerName = "phase" | "max_runtime" | "collect";
