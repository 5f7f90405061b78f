// The effects that the job machine requests by name. The engine carries them out with the commit of the transition, or after it.

import type { JobError, Outcome, StepName } from "../schemas/job.ts";
import type { JobContext, TimerName } from "./job-context.ts";

export interface StartSteps {
  step: StepName;
  nodes: number[];
}
export interface SetTimer {
  timer: TimerName;
  /** 0 requests no timer, and removes the one that is set. */
  after_ms: number;
  /** The whole limit, if `after_ms` is the rest of it; it is for the error. */
  limit_ms?: number;
  /** If the timer is already set, the earlier instant counts. */
  at_most?: true;
}

/** Opens a placement: from now on its candidate's spec applies. */
export interface OpenPlacement {
  placement: number;
  candidate: number;
  on_demand: boolean;
}
/** Closes a placement whose machines are all gone. */
export interface ClosePlacement {
  placement: number;
  outcome: Outcome | null;
  failure: JobContext["failure"];
  error: JobError | null;
  exit_code: number | null;
  checkpoint: string | null;
  /** Whether another placement follows. */
  goes_on: boolean;
}

export const closing = (context: JobContext, goes_on: boolean): ClosePlacement => ({
  placement: context.placement,
  outcome: context.outcome,
  failure: context.failure,
  error: context.error,
  exit_code: context.exit_code,
  checkpoint: context.checkpoint,
  goes_on,
});
