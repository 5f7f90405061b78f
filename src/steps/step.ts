// What a step is. It loads, acts and returns; the engine records. A step may run twice, or once and a half: every one is
// written so that the second time does no harm.

import type { ErrorCode } from "../errors/index.ts";
import type { StepName } from "../schemas/job.ts";

export interface RetryPolicy {
  /** Failures after which the step has failed; Infinity for what must never be given up. */
  attemptsMax: number;
  delayMsMin: number;
  delayMsMax: number;
}

export interface StepContext {
  readonly jobId: string;
  readonly node: number;
  readonly attempt: number;
  /** Stable over attempts and restarts: names this one effect. */
  readonly effectId: number;
  readonly signal: AbortSignal;
  /** When an attempt of this effect first failed with this error, in epoch milliseconds, also before a restart; null where none did. */
  firstFailedAt(code: ErrorCode): number | null;
  /** Words and numbers for the timeline; the last call wins. Not a transition, written within half a second. */
  progress(detail: Record<string, unknown>): void;
}

/** What the step tells the machine, beside its node and the instant. */
export interface StepDone {
  done: Record<string, unknown>;
  detail?: Record<string, unknown>;
}

/** Not yet: look again then. The wait is a durable row, not a sleeping promise, and no failure. */
export interface StepLater {
  later: { afterMs: number; why: string };
}

export interface StepDefinition {
  readonly name: StepName;
  readonly retry: RetryPolicy;
  /** Longest that one attempt may take, in milliseconds; then it has failed, whatever still becomes of it. None where absent. */
  readonly attemptMs?: number;
  run(context: StepContext): Promise<StepDone | StepLater>;
}

export type StepRegistry = Readonly<Record<StepName, StepDefinition>>;
