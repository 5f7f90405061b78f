// Decides what follows when a placement has ended: another one, or the end of the job. Pure; see the table in ADR 0027.

import { candidatesLeft, isSameImage } from "../domain/candidates.ts";
import type { Failure } from "../domain/failure.ts";
import type { StepName } from "../schemas/job.ts";
import type { JobContext, JobEvent, PlacementFailure, Refusal } from "./job-context.ts";

/** `search`: look for a machine among the candidates. `again`: the same candidate, at once. */
export type Next = { go: "search" | "again"; because: "refused" | "bad image" | "retry" | "preempted" };
export type Decision = Next | "no_progress" | null;

/**
 * Failures that say nothing about the run or its next machine, so they may repeat without a new checkpoint: a bad machine, and a provider
 * that takes its machine back. `retry_max` and `max_preemptions` bound them.
 */
const MAY_REPEAT: ReadonlySet<Failure> = new Set<Failure>(["machine_unfit", "boot_failed", "preempted"]);
const RECOVERED: ReadonlySet<Failure> = new Set<Failure>(["machine_lost", "preempted"]);

/** The steps before the script: a machine that is lost in one of them has lost no work. */
const BEFORE_SCRIPT: ReadonlySet<StepName> = new Set<StepName>(["provision", "await_ssh", "sync", "install"]);

export const seenKey = ({ kind, step }: PlacementFailure): string => `${kind} ${step}`;

/** @param checkpoint unique name of the newest complete checkpoint on this computer; null if there is none. */
export function nextPlacement(context: JobContext, checkpoint: string | null): Decision {
  const { outcome, failure, rules, seen } = context;
  if (outcome !== "failed" || failure === null) return null;
  if (failure.kind === "no_machine") return rules.searches ? { go: "search", because: "refused" } : null;
  if (failure.kind === "image_failed")
    return usableCandidates(withBadImage(context)).length > 0 ? { go: "search", because: "bad image" } : null;
  const isLost = RECOVERED.has(failure.kind);
  const nothingRan = isLost && BEFORE_SCRIPT.has(failure.step);
  const recovers = rules.recovers && isLost && (nothingRan || checkpoint !== null);
  if (!recovers && !rules.retry_on.includes(failure.kind)) return null;
  const preempted = failure.kind === "preempted";
  const left = preempted
    ? // A provider that takes back machines on demand too must not be rented from without end.
      context.preemptions < rules.max_preemptions || (rules.falls_back && !context.on_demand)
    : context.retries < rules.retry_max;
  if (!left) return null;
  const key = seenKey(failure);
  if (!nothingRan && !MAY_REPEAT.has(failure.kind) && key in seen && seen[key] === checkpoint) return "no_progress";
  return { go: rules.searches ? "search" : "again", because: preempted ? "preempted" : "retry" };
}

/** The candidates whose image may still start; of a job that does not search, none. */
export const usableCandidates = ({ rules, retries, bad_images }: JobContext): number[] =>
  candidatesLeft(
    rules.images ?? [],
    bad_images.map(({ candidate }) => candidate),
    rules.retry_on.includes("boot_failed") && retries < rules.retry_max,
  );

/** The candidates that are left out, each with the words of the image that could not start. */
export function ruledOut(context: JobContext): { candidate: number; message: string }[] {
  const { rules, bad_images: bad } = context;
  if (bad.length === 0) return [];
  const { images = [] } = rules;
  const usable = usableCandidates(context);
  return images.flatMap((image, index) => {
    const why =
      bad.findLast(({ candidate }) => candidate === index) ??
      bad.find(({ candidate }) => isSameImage(images[candidate], image));
    return why === undefined || usable.includes(index) ? [] : [{ candidate: index, message: why.message }];
  });
}

/** Whether another placement may follow, before the downloaded checkpoints are known. If so, a kill can still prevent it. */
export const mayGoOn = (context: JobContext): boolean => nextPlacement(context, "any") !== null;

/** Exit codes of a script that a signal ended. */
const SIGNALLED = 128;

/** Whether the lost machine of this event explains the exit code that ended the placement. */
export function isLossBehind(
  { nodes, outcome, failure }: JobContext,
  event: Extract<JobEvent, { type: "step.failed" }>,
) {
  if (outcome !== "failed" || (event.failure !== "machine_lost" && event.failure !== "preempted")) return false;
  const code = failure === null ? null : /^exit:(\d+)$/.exec(failure.kind)?.[1];
  if (code === null || code === undefined) return false;
  return nodes[event.node]?.exit_code === null || Number(code) > SIGNALLED;
}

const WORDS_MAX = 400;

/** The context of the next placement, before it has a machine. */
export function forNext(context: JobContext, next: Next, checkpoint: string | null, at: number): JobContext {
  const { failure, rules } = context;
  const preemptions = context.preemptions + (next.because === "preempted" ? 1 : 0);
  return {
    ...context,
    nodes: context.nodes.map(({ node }) => ({ node, phase: "waiting", exit_code: null })),
    occupied: false,
    outcome: null,
    exit_code: null,
    error: null,
    failure: null,
    checkpoint: null,
    candidate: next.go === "search" ? null : context.candidate,
    on_demand: context.on_demand || (rules.falls_back && preemptions >= rules.max_preemptions && preemptions > 0),
    searching_since: context.searching_since ?? at,
    refusals: next.because === "refused" ? withRefusal(context, at) : context.refusals,
    bad_images: next.because === "bad image" ? withBadImage(context).bad_images : context.bad_images,
    retries: context.retries + (next.because === "retry" ? 1 : 0),
    preemptions,
    seen:
      failure === null || next.because === "refused" || next.because === "bad image"
        ? context.seen
        : { ...context.seen, [seenKey(failure)]: checkpoint },
  };
}

function withRefusal({ refusals, candidate, error }: JobContext, at: number): Refusal[] {
  if (candidate === null || error === null) return refusals;
  const last = { candidate, at, code: error.code, message: error.message.slice(0, WORDS_MAX) };
  return [...refusals.filter((earlier) => earlier.candidate !== candidate), last];
}

function withBadImage(context: JobContext): JobContext {
  const { bad_images, candidate, error } = context;
  if (candidate === null) return context;
  return {
    ...context,
    bad_images: [...bad_images, { candidate, message: (error?.message ?? "").slice(0, WORDS_MAX) }],
  };
}
