// The conditions and limits of the job machine. Pure; only job-machine.ts calls them.

import type { JobError, StepName } from "../schemas/job.ts";
import { failureOfStep } from "../domain/failure.ts";
import type { JobContext, JobEvent, NodePhase, PlacementFailure } from "./job-context.ts";
import type { SetTimer } from "./effects.ts";
import { nextPlacement, type Next } from "./next-placement.ts";

const MINUTE_MS = 60_000;

/** How long each state may take before the machine is released. */
export const PHASE_LIMIT_MS = {
  provisioning: 45 * MINUTE_MS,
  awaiting_ssh: 20 * MINUTE_MS,
  syncing: 6 * 60 * MINUTE_MS,
  installing: 2 * 60 * MINUTE_MS,
} as const;

/** Limits for downloading log and checkpoints after the end: short if a user waits for a kill. */
export const COLLECT_LIMIT_MS = { asked: 10 * MINUTE_MS, ended: 2 * 60 * MINUTE_MS } as const;

export const SOON: SetTimer = { timer: "collect", after_ms: COLLECT_LIMIT_MS.asked, at_most: true };

export const allNodes = (context: JobContext): number[] => context.nodes.map((n) => n.node);

/** Whether every node except `node` has already reached `phase`: then the current event completes the set. */
export const othersAt = (context: JobContext, node: number, phase: NodePhase): boolean =>
  context.nodes.every((n) => n.node === node || n.phase === phase);

/** Whether candidates are asked for a machine now. */
export const searches = ({ held, candidate }: JobContext): boolean => !held && candidate === null;

/** The context after a user changed the run's limits. */
export function changed(context: JobContext, event: JobEvent): JobContext {
  if (event.type !== "job.changed") return context;
  const { budget_micro = context.budget_micro, max_runtime_ms = context.max_runtime_ms } = event;
  const warned = budget_micro === context.budget_micro ? context.warned : 0;
  return { ...context, budget_micro, max_runtime_ms, warned };
}

export const isCollecting = (context: JobContext): boolean => uncollected(context).length > 0;

/** Whether a user or a shutdown waits for the end. */
export const isAsked = ({ outcome }: JobContext): boolean => outcome === "cancelled" || outcome === "interrupted";

/** The nodes that are still to be released, or to be collected first. */
export const uncollected = ({ nodes }: JobContext): number[] =>
  nodes.filter((n) => n.phase !== "collected" && n.phase !== "released").map((n) => n.node);

export const collectTimer = (context: JobContext): SetTimer => ({
  timer: "collect",
  after_ms: !context.occupied ? 0 : isAsked(context) ? COLLECT_LIMIT_MS.asked : COLLECT_LIMIT_MS.ended,
});

/** The timer for the rest of the job's run time; with a limit of 0 ms it is removed. */
export function runtimeTimer({ max_runtime_ms, ran_ms, running_since }: JobContext, at: number): SetTimer {
  if (max_runtime_ms === null || max_runtime_ms <= 0) return { timer: "max_runtime", after_ms: 0 };
  const ran = ran_ms + (running_since === null ? 0 : Math.max(0, at - running_since));
  return { timer: "max_runtime", after_ms: Math.max(1, max_runtime_ms - ran), limit_ms: max_runtime_ms };
}

export const checkpointOf = (event: JobEvent): string | null =>
  event.type === "terminate.done" ? (event.checkpoint ?? null) : null;

/** The decision at the last `terminate.done`, with the newest reported checkpoint: a later node may have completed it. */
export const decided = (context: JobContext, event: JobEvent) =>
  nextPlacement(context, checkpointOf(event) ?? context.checkpoint);

/** Why the budget allows no further placement; null if it does. */
export const lackOf = (event: JobEvent): JobError | null =>
  event.type === "terminate.done" ? (event.lack ?? null) : null;

export const goesOn = (context: JobContext, event: JobEvent): Next | null => {
  const decision = decided(context, event);
  return decision === "no_progress" || lackOf(event) !== null ? null : decision;
};

export function failureOf(event: JobEvent, step: StepName | undefined): PlacementFailure | null {
  if (event.type === "step.failed") return { kind: event.failure ?? "other", step: event.step };
  if (event.type === "stream.done") return { kind: event.failure ?? "other", step: "stream" };
  return step === undefined ? null : { kind: failureOfStep(step, { code: "step_timed_out" }), step };
}

export const isNode = (event: JobEvent): event is Extract<JobEvent, { node: number }> => "node" in event;
