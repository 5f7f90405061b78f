// Interprets the ledger's machines in terms of money.

import { runsHere } from "../../src/providers/descriptors.ts";
import type { LedgerMachine, TimelineStep } from "../../src/schemas/job.ts";
import { usd, usdPerHour } from "./format.ts";

export const isFree = (machine: LedgerMachine): boolean =>
  runsHere(machine.provider) || machine.price_per_hour_usd === 0;

/** Machines that no run uses but whose end is not proven, or whose existence is unknown. */
export const isDoubtful = (machine: LedgerMachine): boolean =>
  !isFree(machine) && (machine.state !== "held" || machine.job_id === null);

/** No alarm for a machine that is being released within this time: every release takes its provider some seconds. */
const RETURNING_MS = 60_000;

type Placed = Pick<LedgerMachine, "node" | "created_at">;

/** The steps that release these machines. A run that has used several machines on a node has released the earlier ones before. */
export const releasesOf = (steps: readonly TimelineStep[], machines: readonly Placed[]): TimelineStep[] =>
  steps.filter(
    ({ step, node, started_at: at }) =>
      step === "terminate" &&
      machines.some((each) => each.node === node && (at === null || Date.parse(each.created_at) <= Date.parse(at))),
  );

/** Since when these machines are being released: null before that, and after a failed attempt. */
export function returningSince(steps: readonly TimelineStep[], machines: readonly Placed[]): number | null {
  const tries = releasesOf(steps, machines);
  const began = tries.flatMap((step) => (step.started_at ? [Date.parse(step.started_at)] : []));
  return began.length === 0 || tries.some((step) => step.error !== null) ? null : Math.min(...began);
}

export const isReturning = (sinceMs: number | null | undefined, now: number): boolean =>
  sinceMs !== null && sinceMs !== undefined && now - sinceMs < RETURNING_MS;

export const RETURNING = "Releasing the machine; the provider has not confirmed yet.";

export const machineKey = (machine: LedgerMachine): string => `${machine.provider}/${machine.name}`;

interface Total {
  /** The sum of the known amounts. */
  sum: number;
  unknown: number;
  /** No amount is known: the sum is then meaningless. */
  blind: boolean;
}

function total(amounts: readonly (number | null)[]): Total {
  const sum = amounts.reduce<number>((all, each) => all + (each ?? 0), 0);
  const unknown = amounts.filter((each) => each === null).length;
  return { sum, unknown, blind: sum === 0 && unknown > 0 };
}

/** The total price of several machines per hour; an unknown price is never shown as zero. */
export function perHourOf(prices: readonly (number | null)[]): string {
  const { sum, unknown, blind } = total(prices);
  if (blind) return "price unknown";
  return `${usdPerHour(sum)}${unknown > 0 ? ` + ${unknown} of unknown price` : ""}`;
}

/** An amount that may be partly unknown. */
export function amountOf(amounts: readonly (number | null)[]): string {
  const { sum, unknown, blind } = total(amounts);
  return blind ? "unknown" : `${unknown > 0 ? "> " : ""}${usd(sum)}`;
}
