// The description of a placement and of its end, for the command line and the dashboard. Loads no zod.

import { dollars, hourly } from "../errors/dollars.ts";
import type { Timeline, TimelineStep } from "../schemas/job.ts";
import type { FAILURES } from "../schemas/names.ts";
import type { Placement } from "../schemas/placement.ts";
import { longDuration } from "./long-duration.ts";

/** Why a placement ended, by its `failure`. */
const WHY: Readonly<Record<Exclude<(typeof FAILURES)[number], "other">, string>> = {
  no_machine: "no machine",
  machine_unfit: "machine unfit",
  boot_failed: "boot failed",
  image_failed: "image cannot start",
  machine_lost: "machine lost",
  preempted: "preempted",
  install_failed: "install failed",
  oom: "out of memory",
};

/** `preempted`, `exit code 3`, `succeeded`; the status of one that is open. */
export function endWords({ failure, status, exit_code }: Pick<Placement, "failure" | "status" | "exit_code">): string {
  if (failure === null || failure === "other")
    return exit_code !== null && exit_code !== 0 ? `exit code ${exit_code}` : status.replaceAll("_", " ");
  return (WHY as Readonly<Record<string, string>>)[failure] ?? failure.replace(/^exit:/, "exit code ");
}

/** `market H100:2, EU, spot`. */
export const placeWords = ({
  provider,
  gpus,
  region,
  spot,
}: Pick<Placement, "provider" | "gpus" | "region" | "spot">): string =>
  [`${provider} ${gpus}`, ...(region === null ? [] : [region]), ...(spot === "never" ? [] : [spotWords(spot)])].join(
    ", ",
  );

const spotWords = (spot: Placement["spot"]): string => (spot === "only" ? "spot" : "spot preferred");

const seconds = (s: number): string => longDuration(Math.max(0, Math.round(s)));

/** Its starting point, the work that a later placement repeated, and the saving by spot: a part for each that is known. */
export function accountWords(placement: Placement): string[] {
  const { resumed_from: from, work_lost_seconds: lost, work_lost_usd: lostUsd, saved_usd: saved } = placement;
  return [
    ...(from === null ? [] : [`continued from ${from.checkpoint}`]),
    ...(lost === null || lost === 0
      ? []
      : [`lost ${seconds(lost)} of work${lostUsd === null ? "" : ` (${dollars(lostUsd)})`}`]),
    ...(saved === null || saved === 0 ? [] : [`saved ${dollars(saved)} by spot`]),
  ];
}

/** An order that was refused, so that no machine was paid for, whatever its price would have been. */
export const rentedNothing = ({ failure, cost_usd, machines }: Placement): boolean =>
  machines.length === 0 || (failure === "no_machine" && cost_usd === 0);

export const rateWords = ({ price_per_hour_usd: price }: Pick<Placement, "price_per_hour_usd">): string | null =>
  price === null ? null : hourly(price);

/** Consecutive steps of one placement; null are the searches for one. */
export function lanesOf(steps: Timeline["steps"]): { placement: number | null; steps: TimelineStep[] }[] {
  const lanes: { placement: number | null; steps: TimelineStep[] }[] = [];
  for (const step of steps) {
    const last = lanes.at(-1);
    if (last?.placement === step.placement) last.steps.push(step);
    else lanes.push({ placement: step.placement, steps: [step] });
  }
  return lanes;
}

/**
 * Whether an earlier step of the same machine failed with the same words. The download of the results, for example, cannot succeed once the
 * machine is gone, which ended the run before.
 */
export const isRepeated = (step: TimelineStep, steps: readonly TimelineStep[]): boolean =>
  step.error !== null &&
  steps.some(
    (other) =>
      other.step !== step.step &&
      other.placement === step.placement &&
      other.error?.message === step.error?.message &&
      (other.started_at ?? "") < (step.started_at ?? ""),
  );
