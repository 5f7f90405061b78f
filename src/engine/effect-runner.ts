// Carries out effects: one attempt of one step at a time, with its signal, its retries and its details for the
// timeline.

import type { Clock } from "../domain/clock.ts";
import { asSvcError, SvcError, type ErrorCode } from "../errors/index.ts";
import type { StepName } from "../schemas/job.ts";
import type { EffectRow } from "../store/tables.ts";
import type { RetryPolicy, StepDefinition, StepRegistry } from "../steps/step.ts";

const PROGRESS_MS = 500;
/** How long steps get to finish when the process ends. */
const STOP_PATIENCE_MS = 5_000;

/** The result of one attempt. */
export type EffectVerdict =
  | { kind: "done"; output: Record<string, unknown>; detail: Record<string, unknown> | undefined }
  | { kind: "later"; afterMs: number; why: string; detail?: Record<string, unknown> }
  | { kind: "error"; error: SvcError; detail: Record<string, unknown> | undefined };

interface Running {
  /** Set by the transition that cancelled the effect, which has also settled it. */
  cancelled: boolean;
  controller: AbortController;
  settled: Promise<void>;
}

export interface EffectRunnerOptions {
  steps: StepRegistry;
  clock: Clock;
  probe: (point: string) => void;
  firstFailedAt: (effectId: number, code: ErrorCode) => number | null;
  settle: (effect: EffectRow, verdict: EffectVerdict) => Promise<void>;
  detail: (effectId: number, attempt: number, text: string) => void;
}

/** A number in [0, 1) that is the same for the same effect and attempt, in every run of a simulation. */
export function jitter(effectId: number, attempt: number): number {
  let h = Math.imul(effectId ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(attempt + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return ((h ^ (h >>> 15)) >>> 0) / 0x1_0000_0000;
}

/** Exponential with full jitter above the minimum delay. */
export function retryDelayMs(policy: RetryPolicy, effectId: number, attempt: number): number {
  const ceiling = Math.min(policy.delayMsMax, policy.delayMsMin * 2 ** Math.min(attempt, 30));
  return Math.round(policy.delayMsMin + jitter(effectId, attempt) * (ceiling - policy.delayMsMin));
}

/** The end of an attempt that a crash has cut short. */
export const interrupted = ({ id, attempt }: EffectRow, at: number) =>
  ({
    effect_id: id,
    attempt,
    status: "cancelled",
    ended_at: at,
    error: null,
    detail: JSON.stringify({ interrupted: "the control plane ended during this attempt" }),
  }) as const;

export class EffectRunner {
  readonly #o: EffectRunnerOptions;
  readonly #running = new Map<number, Running>();

  constructor(options: EffectRunnerOptions) {
    this.#o = options;
  }

  start(effect: EffectRow): void {
    this.#o.probe("effect.before");
    const running: Running = { cancelled: false, controller: new AbortController(), settled: Promise.resolve() };
    this.#running.set(effect.id, running);
    // Not before the whole group's consequences are known: the same commit may contain the transition that cancels this
    // effect.
    running.settled = Promise.resolve()
      .then(() => this.#run(effect, running))
      .finally(() => {
        if (this.#running.get(effect.id) === running) this.#running.delete(effect.id);
      });
  }

  abort(effectId: number): void {
    const running = this.#running.get(effectId);
    if (!running) return;
    running.cancelled = true;
    running.controller.abort(new Error("the step was cancelled"));
  }

  async abortAll(): Promise<void> {
    const all = [...this.#running.values()];
    for (const running of all) {
      running.cancelled = true;
      running.controller.abort(new Error("the control plane is shutting down"));
    }
    // The shutdown does not wait for a step that ignores its signal (a create call in flight): the next start records
    // its result.
    const patience = Promise.withResolvers<void>();
    const timer = this.#o.clock.setTimer(STOP_PATIENCE_MS, patience.resolve);
    await Promise.race([Promise.allSettled(all.map((r) => r.settled)), patience.promise]);
    timer.cancel();
  }

  async #run(effect: EffectRow, running: Running): Promise<void> {
    if (running.cancelled) return;
    const definition = this.#o.steps[effect.step as StepName];
    const progress = this.#progress(effect);
    const limit = this.#limit(definition, running.controller);
    let verdict: EffectVerdict;
    try {
      const { signal } = running.controller;
      const context = {
        jobId: effect.job_id,
        node: effect.node,
        attempt: effect.attempt,
        effectId: effect.id,
        signal,
        firstFailedAt: (code: ErrorCode) => this.#o.firstFailedAt(effect.id, code),
        progress: progress.say,
      };
      const attempt = definition.run(context);
      const result = await (limit === null ? attempt : Promise.race([attempt, limit.passed]));
      verdict =
        "later" in result
          ? { kind: "later", ...result.later }
          : { kind: "done", output: result.done, detail: result.detail ?? progress.last() };
    } catch (e) {
      verdict = { kind: "error", error: asSvcError(e), detail: progress.last() };
    }
    progress.close();
    limit?.clear();
    if (running.cancelled) return;
    this.#o.probe("effect.after");
    await this.#o.settle(effect, verdict);
  }

  /**
   * Rejects when an attempt exceeds the limit of its step: a call that never answers must not delay a machine's end.
   */
  #limit(definition: StepDefinition, controller: AbortController): { passed: Promise<never>; clear(): void } | null {
    const ms = definition.attemptMs;
    if (ms === undefined) return null;
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = this.#o.clock.setTimer(ms, () => {
      const error = new SvcError("step_timed_out", { step: definition.name, seconds: ms / 1000 });
      reject(error);
      controller.abort(error);
    });
    return { passed: promise, clear: () => timer.cancel() };
  }

  #progress(effect: EffectRow) {
    let last: Record<string, unknown> | undefined;
    let timer: { cancel(): void } | null = null;
    return {
      say: (detail: Record<string, unknown>): void => {
        last = detail;
        timer ??= this.#o.clock.setTimer(PROGRESS_MS, () => {
          timer = null;
          this.#o.detail(effect.id, effect.attempt, JSON.stringify(last));
        });
      },
      last: () => last,
      close: () => timer?.cancel(),
    };
  }
}
