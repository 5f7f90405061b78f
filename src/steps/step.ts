// The interface of a step. It loads, acts and returns; the engine records. A step may run twice, or be interrupted and
// run again: every step is idempotent.

import type { ErrorCode } from "../errors/index.ts";
import type { StepName } from "../schemas/job.ts";

export interface RetryPolicy {
  /** Maximum of failures; Infinity for a step that must never be given up. */
  attemptsMax: number;
  delayMsMin: number;
  delayMsMax: number;
}

export interface StepContext {
  readonly jobId: string;
  readonly node: number;
  readonly attempt: number;
  /** Stable over attempts and restarts: identifies this effect. */
  readonly effectId: number;
  readonly signal: AbortSignal;
  /**
   * When an attempt of this effect first failed with this error, in epoch milliseconds, even before a restart; null if
   * none did.
   */
  firstFailedAt(code: ErrorCode): number | null;
  /** Details for the timeline; the last call wins. Not a transition, written within half a second. */
  progress(detail: Record<string, unknown>): void;
}

/** The step's result for the state machine, in addition to its node and the instant. */
export interface StepDone {
  done: Record<string, unknown>;
  detail?: Record<string, unknown>;
}

/**
 * Not ready: run again after the delay. The wait is a durable row, not a sleeping promise, and does not count as a
 * failure.
 */
export interface StepLater {
  later: {
    afterMs: number;
    why: string;
    /** Shown in the timeline together with `why`. */
    detail?: Record<string, unknown>;
  };
}

export interface StepDefinition {
  readonly name: StepName;
  readonly retry: RetryPolicy;
  /**
   * The longest time of one attempt, in milliseconds; after it the attempt has failed, whatever its later outcome.
   * Absent: no limit.
   */
  readonly attemptMs?: number;
  run(context: StepContext): Promise<StepDone | StepLater>;
}

export type StepRegistry = Readonly<Record<StepName, StepDefinition>>;
