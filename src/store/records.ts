// Turns rows into the records that people and programs see.

import { isBilled } from "../providers/descriptors.ts";
import { RELEASED } from "../errors/runs.ts";
import { holdsSecret, isReference } from "../domain/secret-names.ts";
import type {
  JobError,
  JobMachine,
  JobRecord,
  LedgerMachine,
  Note,
  StoredLeftOut,
  TimelineStep,
} from "../schemas/job.ts";
import type { RunSpec } from "../schemas/spec.ts";
import type { AttemptRow, EffectRow, JobRow, MachineRow } from "./tables.ts";
import { costMicro, mayHaveRunUntil, spendingOf } from "../domain/billing.ts";
import { budgetNow, ratesOf } from "../domain/budget.ts";
import { costUsd, microOf, usdOf, usdOrNull } from "../domain/money.ts";
import { stopGraceSeconds } from "../domain/stop-grace.ts";
import { noteOfMachine } from "./stored-note.ts";
import { tagsOf } from "./stored-tags.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { naming, storedError, storedLeftOut, storedSource } from "./stored-json.ts";

export const iso = (ms: number): string => new Date(ms).toISOString();
export const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms));

const MASK = "***";

/** The spec without secrets. */
export function maskSpec(spec: RunSpec): Record<string, unknown> {
  const env = Object.fromEntries(
    Object.entries(spec.env).map(([name, value]) => [
      name,
      holdsSecret(name, value) || value.startsWith("sealed://") ? MASK : value,
    ]),
  );
  const sinks = spec.sinks.map((sink) =>
    sink.credentials ? { ...maskKeyId(sink), credentials: maskKeyId(sink.credentials) } : maskKeyId(sink),
  );
  // The sealed part that the store keeps next to it is only for the run.
  const { sealed: _, ...shown }: RunSpec & { sealed?: unknown } = spec;
  return { ...shown, env, sinks };
}

/** Every other field of a sink is a reference, or not secret. */
const maskKeyId = <T extends { access_key_id?: string | undefined }>(given: T): T =>
  given.access_key_id === undefined || isReference(given.access_key_id) ? given : { ...given, access_key_id: MASK };

export function jobMachineOf(row: MachineRow): JobMachine {
  return {
    id: row.resource_id,
    name: row.name,
    node: row.node,
    address: row.address,
    state: row.state,
    price_per_hour_usd: usdOrNull(row.price_micro),
    created_at: iso(row.created_at),
    terminated_at: isoOrNull(row.released_at),
  };
}

export function ledgerMachineOf(row: MachineRow, now: number): LedgerMachine {
  return {
    name: row.name,
    id: row.resource_id,
    provider: row.provider as LedgerMachine["provider"],
    job_id: row.job_id,
    node: row.node,
    state: row.state,
    address: row.address,
    price_per_hour_usd: usdOrNull(row.price_micro),
    cost_usd: row.price_micro === null ? null : costUsd(row, now),
    created_at: iso(row.created_at),
    age_seconds: Math.max(0, (now - row.created_at) / 1000),
    note: noteOfMachine(row),
  };
}

/** Undefined in a home that was only opened by versions without placements. */
const placementOf = ({ placement }: { placement?: number }): number => placement ?? 1;
const lastPlacement = (machines: readonly MachineRow[]): number => Math.max(1, ...machines.map(placementOf));
const isOfPlacement =
  (n: number) =>
  (machine: MachineRow): boolean =>
    placementOf(machine) === n;

function noteOf(row: JobRow, machines: MachineRow[]): Note | null {
  if (row.parked !== null)
    return {
      kind: "parked",
      message: `Parked: ${row.parked}. Its machine may still cost money; \`svc kill\` releases it.`,
    };
  const held = machines.filter((m) => m.released_at === null);
  const noted = held.find((m) => m.note !== null);
  if (noted) return noteOfMachine(noted);
  const owed = held.filter((m) => m.price_micro !== 0);
  if (row.state === "terminating" && owed.length > 0)
    return {
      kind: "terminating",
      message: "svc is releasing the machine. It may still cost money until the provider confirms that it is gone.",
    };
  // A note about a machine that was released, for example a notebook on which the script may still run.
  const released = machines.filter(isOfPlacement(lastPlacement(machines))).find((m) => m.note !== null);
  return released ? noteOfMachine(released) : null;
}

/** The feed's event for a newly stored job. */
export function createdEvent(status: string, row: Pick<JobRow, "label" | "provider" | "left_out">) {
  return { status, label: row.label, provider: row.provider, left_out: leftOutOfRow(row) };
}

export function leftOutOfRow({ left_out }: Pick<JobRow, "left_out">): JobRecord["left_out"] {
  // Undefined in a home from an older version that no newer one has opened yet.
  if (!left_out) return null;
  const { count, names, ignored } = storedLeftOut(left_out);
  return { count, names, ignored };
}

/** The note of a failed run about files that its code lacked; null if no user would miss any. */
export function leftOutNote({ names, missed }: Pick<StoredLeftOut, "names" | "missed">): Note | null {
  const [first] = names;
  if (missed === 0 || !first) return null;
  const more = missed > 1 ? ` (and ${missed - 1} more)` : "";
  return {
    kind: "code_left_out",
    message: `Left out of the code: ${JSON.stringify(first.path)}${more}: ${first.why}.`,
  };
}

/**
 * The error as the run's record has it: its commands name the run. A run on this computer or in a notebook rents no machine,
 * so its errors must not mention a release.
 */
export function errorOf(jobId: string, provider: string, error: JobError): JobError {
  const told = naming(jobId, error);
  if (isBilled(provider)) return told;
  const hint = told.hint
    .replaceAll(RELEASED, "")
    // Older versions wrote this text.
    .replace(/,? and a rented machine (is )?given back(?=[.,;])/g, "")
    .replace(/\s*A rented machine is given back\./g, "")
    .replace(/ {2,}/g, " ")
    .trim();
  return { ...told, hint };
}

type Money = Pick<
  JobRecord,
  | "cost_estimate_usd"
  | "rate_usd_per_hour"
  | "budget_usd"
  | "spent_usd"
  | "budget_left_usd"
  | "budget_kept_usd"
  | "budget_stops_at"
>;

/** Unknown is null, and never 0. */
function moneyOf(row: JobRow, spec: RunSpec, machines: readonly MachineRow[], now: number): Money {
  const rates = ratesOf(spec, machines);
  const { spentMicro, rateMicro, isKnown } = spendingOf(machines, now, rates);
  const isGiven = machines.some(
    (m) => isBilled(m.provider) && (m.held_at === null ? mayHaveRunUntil(m, now) !== null : m.price_micro === null),
  );
  const known = {
    cost_estimate_usd: isGiven && isKnown ? usdOf(spentMicro) : null,
    rate_usd_per_hour: isKnown ? usdOf(rateMicro) : null,
    spent_usd: isKnown ? usdOf(spentMicro) : null,
  };
  const budget_usd = spec.budget_usd ?? null;
  if (budget_usd === null || row.state === "terminal" || !isKnown) {
    const left = budget_usd === null || !isKnown ? null : Math.max(0, usdOf(microOf(budget_usd) - spentMicro));
    return { ...known, budget_usd, budget_left_usd: left, budget_kept_usd: null, budget_stops_at: null };
  }
  const graceSeconds = stopGraceSeconds(spec);
  const budget = budgetNow({ budgetMicro: microOf(budget_usd), machines, rates, now, graceSeconds });
  return {
    ...known,
    budget_usd,
    budget_left_usd: usdOf(Math.max(0, budget.leftMicro)),
    budget_kept_usd: usdOf(Math.min(budget.keptMicro, Math.max(0, budget.budgetMicro - spentMicro))),
    budget_stops_at: Number.isFinite(budget.stopInMs) ? iso(now + budget.stopInMs) : null,
  };
}

export interface PlacementSummary {
  count: number;
  /** JSON of the checkpoint that the script of the first placement received; null if it received none. */
  first_source: string | null;
}

/** The checkpoint that a run started from; before it is chosen, as far as the spec names it. */
function resumedFrom(spec: RunSpec, first: string | null | undefined): JobRecord["resumed_from"] {
  if (first) return storedSource(first);
  return spec.resume_from === undefined ? null : { job: spec.resume_from, checkpoint: spec.resume_checkpoint ?? null };
}

/** @param placements undefined if the store does not count them. */
export function jobRecordOf(
  row: JobRow,
  machines: MachineRow[],
  now: number,
  placements?: PlacementSummary,
): JobRecord {
  const spec = specOf(row);
  const last = machines.filter(isOfPlacement(lastPlacement(machines)));
  const priced = row.state === "terminal" ? last : machines.filter((m) => m.released_at === null);
  const prices = priced.map((m) => m.price_micro);
  const known = prices.filter((price) => price !== null);
  return {
    id: row.id,
    status: row.status as JobRecord["status"],
    exit_code: row.exit_code,
    cost_usd: usdOf(machines.reduce((sum, m) => sum + costMicro(m, now), 0)),
    ...moneyOf(row, spec, machines, now),
    label: row.label,
    tags: tagsOf(row.tags),
    // The machines of the open placement, else of the last one.
    provider: row.provider as JobRecord["provider"],
    gpus: row.gpus,
    nodes: row.nodes,
    entrypoint: spec.entrypoint,
    args: spec.args,
    created_at: iso(row.created_at),
    started_at: isoOrNull(row.started_at),
    ended_at: isoOrNull(row.ended_at),
    price_per_hour_usd: known.length === 0 ? null : usdOf(known.reduce((a, b) => a + b, 0)),
    machines: machines.map(jobMachineOf),
    placements: placements?.count ?? (row.state === "waiting" ? 0 : 1),
    error: row.error === null ? null : errorOf(row.id, row.provider, storedError(row.id, row.error)),
    resumed_from: resumedFrom(spec, placements?.first_source),
    code_snapshot: row.code_snapshot,
    left_out: leftOutOfRow(row),
    // Undefined in a home from an older version that no newer one has opened yet.
    disk_bytes: row.disk_bytes ?? null,
    archived_at: isoOrNull(row.archived_at ?? null),
    spec: maskSpec(spec),
    note: noteOf(row, machines),
  };
}

export function timelineStepOf(effect: EffectRow, attempt: AttemptRow, placement: number | null): TimelineStep {
  const last = attempt.attempt === effect.attempt;
  const status =
    attempt.status === "failed" && last && effect.state === "retrying"
      ? "retrying"
      : attempt.status === "waiting"
        ? "running"
        : attempt.status;
  return {
    step: effect.step as TimelineStep["step"],
    node: effect.node,
    attempt: attempt.attempt,
    status,
    started_at: iso(attempt.started_at),
    ended_at: isoOrNull(attempt.ended_at),
    error: attempt.error === null ? null : storedError(effect.job_id, attempt.error),
    detail: attempt.detail === null ? null : (JSON.parse(attempt.detail) as Record<string, unknown>),
    next_attempt_at: last && effect.state === "retrying" ? isoOrNull(effect.next_at) : null,
    placement,
  };
}
