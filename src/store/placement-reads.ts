// Reads the placements of a job, and what it waits for between two of them. Loads neither a query builder nor zod, as `open-reads.ts`.

import type { Note } from "../schemas/job.ts";
import type { Placement, Placements, TriedCandidate, Waiting } from "../schemas/placement.ts";
import type { StartTimes } from "../schemas/plan.ts";
import { costMicro } from "../domain/billing.ts";
import { costOver, costUsd, microOf, usdOf } from "../domain/money.ts";
import { readLimitWait } from "./limit-waits.ts";
import { errorOf, iso, isoOrNull, type PlacementSummary } from "./records.ts";
import type { All, EffectRow, JobRow, JournalRow, MachineRow, PlacementRow } from "./tables.ts";
import { storedError, storedSource } from "./stored-json.ts";

/** Maximum number of reasons that the note of a waiting run quotes, and the maximum length of each in characters. */
const REASONS_MAX = 3;
const REASON_MAX = 120;

/** False in a home that was only opened by versions without placements. */
const havePlacements = (all: All): boolean => all("SELECT 1 FROM sqlite_schema WHERE name = 'placement'").length > 0;

const rowsOf = (all: All, jobId: string): PlacementRow[] =>
  havePlacements(all) ? all<PlacementRow>("SELECT * FROM placement WHERE job_id = ? ORDER BY n", jobId) : [];

/** For each of these jobs the number of its placements, and what its first one resumed from; jobs without placements are missing. */
export function summarizePlacements(all: All, jobIds: readonly string[]): Map<string, PlacementSummary> {
  if (jobIds.length === 0 || !havePlacements(all)) return new Map();
  const rows = all<PlacementSummary & { job_id: string }>(
    `SELECT job_id, max(n) AS count, max(CASE n WHEN 1 THEN resumed_from END) AS first_source
     FROM placement WHERE job_id IN (SELECT value FROM json_each(?)) GROUP BY job_id`,
    JSON.stringify(jobIds),
  );
  return new Map(rows.map((row) => [row.job_id, row]));
}

/**
 * The place of each job's machine: the zone that its provider reported, else the region that the newest
 * placement asked for. A job without either is absent.
 */
export function readRegions(all: All, jobIds: readonly string[]): Map<string, string> {
  if (jobIds.length === 0 || !havePlacements(all)) return new Map();
  const rows = all<{ job_id: string; region: string | null }>(
    `SELECT p.job_id AS job_id, coalesce((SELECT handle ->> '$.extra.zone' FROM machine WHERE job_id = p.job_id AND handle IS NOT NULL
       ORDER BY ordinal DESC LIMIT 1), p.region) AS region
     FROM placement p WHERE p.job_id IN (SELECT value FROM json_each(?)) ORDER BY p.n`,
    JSON.stringify(jobIds),
  );
  return new Map(rows.flatMap(({ job_id, region }) => (region === null ? [] : [[job_id, region]])));
}

/** The number of the placement to which the journal entry `seq` belongs; null before the first one. */
export type PlacementAt = (seq: number) => number | null;

export function placementsBySeq(all: All, jobId: string): PlacementAt {
  const rows = rowsOf(all, jobId);
  return (seq) => rows.findLast((row) => row.seq <= seq)?.n ?? null;
}

/** The times at which the script of each placement started, and its work ended. */
interface Work {
  startedAt: number | null;
  endedAt: number | null;
}

/** A placement as far as costs are concerned. */
export interface PlacementUse extends Work {
  n: number;
  gpus: string;
  /** Milliseconds of work that the next placement had to repeat. */
  lostMs: number;
  /** Whether the job ended with it, without success. */
  failed: boolean;
}

/** How each placement of a job used its machines. */
export function placementUses(all: All, job: Pick<JobRow, "id" | "status">): PlacementUse[] {
  const rows = rowsOf(all, job.id);
  const work = workOfJob(all, job.id, rows);
  return rows.map((row, index) => {
    const done = work.get(row.n) ?? { startedAt: null, endedAt: null };
    const lostMs = workLost(all, row, done, rows[index + 1], work.get(row.n + 1)) ?? 0;
    const failed = row.goes_on === 0 && row.closed_at !== null && row.outcome === "failed";
    return { n: row.n, gpus: row.gpus, ...done, lostMs, failed };
  });
}

function workOf(journal: readonly Pick<JournalRow, "seq" | "at" | "type" | "from_state">[], placementAt: PlacementAt) {
  const work = new Map<number, Work>();
  for (const { seq, at, type, from_state } of journal) {
    const n = placementAt(seq);
    if (n === null) continue;
    const known = work.get(n) ?? { startedAt: null, endedAt: null };
    if (type === "launch.done") known.startedAt ??= at;
    else if (from_state === "running") known.endedAt = at;
    work.set(n, known);
  }
  return work;
}

function workOfJob(all: All, jobId: string, rows: readonly PlacementRow[]): Map<number, Work> {
  const journal = all<Pick<JournalRow, "seq" | "at" | "type" | "from_state">>(
    "SELECT seq, at, type, from_state FROM journal WHERE job_id = ? AND (type = 'launch.done' OR from_state = 'running' AND to_state <> 'running') ORDER BY seq",
    jobId,
  );
  return workOf(journal, (seq) => rows.findLast((row) => row.seq <= seq)?.n ?? null);
}

export function readPlacements(all: All, job: JobRow, machines: readonly MachineRow[], now: number): Placements {
  const rows = rowsOf(all, job.id);
  const work = workOfJob(all, job.id, rows);
  const placements = rows.map((row, index): Placement => {
    const own = machines.filter((machine) => (machine.placement ?? 1) === row.n);
    const done = work.get(row.n) ?? { startedAt: null, endedAt: null };
    const price = priceOf(own, row.closed_at === null);
    const lost = workLost(all, row, done, rows[index + 1], work.get(row.n + 1));
    const error = row.error === null ? null : errorOf(job.id, row.provider, storedError(job.id, row.error));
    return {
      n: row.n,
      candidate: row.candidate,
      provider: row.provider as Placement["provider"],
      gpus: row.gpus,
      region: row.region,
      spot: row.spot,
      status: (row.closed_at === null ? job.status : (row.outcome ?? "failed")) as Placement["status"],
      opened_at: iso(row.opened_at),
      started_at: isoOrNull(done.startedAt),
      closed_at: isoOrNull(row.closed_at),
      price_per_hour_usd: price === null ? null : usdOf(price),
      cost_usd: usdOf(own.reduce((sum, machine) => sum + costMicro(machine, now), 0)),
      failure: row.failure,
      step: row.step,
      error,
      exit_code: row.exit_code,
      checkpoint: row.checkpoint,
      resumed_from: row.resumed_from === null ? null : storedSource(row.resumed_from),
      goes_on: row.goes_on === 1,
      work_lost_seconds: lost === null ? null : lost / 1_000,
      work_lost_usd: lost === null || price === null ? null : usdOf(microOf(costOver(price, lost))),
      saved_usd: savedUsd(own, now),
      machines: own.map(({ name }) => name),
    };
  });
  return { placements, waiting: job.state === "waiting" ? readWaiting(all, job) : null };
}

/** The sum of the prices of each node's newest machine; a refused order has no price. */
function priceOf(own: readonly MachineRow[], isOpen: boolean): number | null {
  const newest = new Map<number, number>();
  for (const { node, price_micro, released_at } of own)
    if (price_micro !== null && (!isOpen || released_at === null)) newest.set(node, price_micro);
  return newest.size === 0 ? null : [...newest.values()].reduce((sum, price) => sum + price, 0);
}

/**
 * Milliseconds of the script's work that the next placement had to repeat; null if no later script has started, or if
 * the time is unknown.
 */
function workLost(
  all: All,
  row: PlacementRow,
  { startedAt, endedAt }: Work,
  next: PlacementRow | undefined,
  nextWork: Work | undefined,
): number | null {
  if (row.goes_on !== 1) return null;
  if (startedAt === null || endedAt === null) return 0;
  if (next === undefined || (nextWork?.startedAt ?? null) === null) return null;
  const from = next.resumed_from === null ? null : storedSource(next.resumed_from);
  // This placement saved no checkpoint, so the next one repeats all of its time.
  if (from === null || from.job !== row.job_id) return endedAt - startedAt;
  const saved = all<{ at: number | null }>(
    "SELECT max(modified_at) AS at FROM checkpoint WHERE job_id = ? AND (path = ? OR substr(path, 1, length(?)) = ?)",
    row.job_id,
    from.checkpoint,
    `${from.checkpoint}/`,
    `${from.checkpoint}/`,
  )[0]?.at;
  // A later placement has saved under this name again, or retention has removed the checkpoint: its time is lost.
  if (saved === null || saved === undefined || saved > endedAt) return null;
  return endedAt - Math.max(startedAt, saved);
}

/**
 * The saving against the price on demand at the time of the order; the handle of a spot machine has that price if it
 * was offered.
 */
function savedUsd(own: readonly MachineRow[], now: number): number | null {
  const spot = own.filter((machine) => machine.spot === 1 && machine.held_at !== null && machine.price_micro !== null);
  if (spot.length === 0) return null;
  let saved = 0;
  for (const machine of spot) {
    const { extra } = JSON.parse(machine.handle ?? "{}") as { extra?: Record<string, string> };
    const onDemand = Number(extra?.["on_demand_micro"] ?? "");
    if (!Number.isFinite(onDemand) || onDemand <= 0) return null;
    saved += costOver(onDemand, (machine.released_at ?? now) - machine.created_at) - costUsd(machine, now);
  }
  return usdOf(microOf(Math.max(0, saved)));
}

interface Look {
  next_at: number | null;
  first_at: number;
  tried: string | null;
  until: string | null;
}

/** The last completed look at the candidates. */
function lastLook(all: All, jobId: string): Look | undefined {
  return all<Look>(
    "SELECT e.next_at, e.first_at, a.detail ->> 'tried' AS tried, a.detail ->> 'until' AS until FROM effect e LEFT JOIN attempt a ON a.effect_id = e.id " +
      "WHERE e.job_id = ? AND e.step = 'place' AND e.state IN ('running', 'retrying') ORDER BY e.id DESC, a.detail IS NULL, a.attempt DESC LIMIT 1",
    jobId,
  )[0];
}

function readWaiting(all: All, job: JobRow): Waiting | null {
  const limit = readLimitWait(all, job.id);
  if (limit !== null) return { since: iso(job.created_at), until: null, next_at: null, tried: [], limit };
  const look = lastLook(all, job.id);
  if (look === undefined) return null;
  const since = sinceOf(job) ?? look.first_at;
  return {
    since: iso(since),
    until: look.until,
    next_at: isoOrNull(look.next_at),
    tried: look.tried === null ? [] : (JSON.parse(look.tried) as TriedCandidate[]),
    limit: null,
  };
}

function sinceOf({ snapshot, parked }: JobRow): number | null {
  if (parked !== null) return null;
  // The engine wrote this text. In an older home the field is missing.
  const { context } = JSON.parse(snapshot) as { context?: { searching_since?: number | null } };
  return context?.searching_since ?? null;
}

/** The time of day on this computer, which is the user's own. */
const hourOf = (at: number): string =>
  new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", hour12: false });

/** The last answers of the candidates of a waiting run; null before the first. */
export function waitingNote(all: All, jobId: string): Note | null {
  const look = lastLook(all, jobId);
  if (look === undefined || look.tried === null) return null;
  const tried = JSON.parse(look.tried) as TriedCandidate[];
  const reasons = tried
    .slice(0, REASONS_MAX)
    .map(({ provider, gpus, why }) => `${provider} ${gpus}: ${shortened(why.replace(/[.\s]+$/, ""))}`);
  const count = tried.length === 1 ? "1 candidate tried" : `${tried.length} candidates tried`;
  const next = look.next_at === null ? "asking again now" : `next search at ${hourOf(look.next_at)}`;
  const more = tried.length > REASONS_MAX ? `; and ${tried.length - REASONS_MAX} more` : "";
  return { kind: "waiting_for_capacity", message: `${count}, ${next}. ${reasons.join("; ")}${more}.` };
}

const shortened = (text: string): string => (text.length > REASON_MAX ? `${text.slice(0, REASON_MAX)}…` : text);

/** For a run that no longer uses its first machine: why the previous one ended. */
function continuingNote(all: All, jobId: string, n: number): Note | null {
  const [before] = all<Pick<PlacementRow, "provider" | "gpus" | "error">>(
    "SELECT provider, gpus, error FROM placement WHERE job_id = ? AND n = ?",
    jobId,
    n - 1,
  );
  if (before === undefined) return null;
  const error = before.error === null ? null : errorOf(jobId, before.provider, storedError(jobId, before.error));
  const why = error === null ? "" : `: ${shortened(error.message)}`;
  return {
    kind: "continuing",
    message: `Placement ${n}; placement ${n - 1} on ${before.provider} ${before.gpus} ended${why}`,
  };
}

/** The least important note: why the previous machine ended. */
export function placementNote(all: All, { id, state }: Pick<JobRow, "id" | "state">, placements: number): Note | null {
  const n = state === "waiting" ? placements + 1 : placements;
  return n > 1 ? continuingNote(all, id, n) : null;
}

/** The columns of effects that decide to which placement they belong. */
export const belongsTo = (effect: Pick<EffectRow, "step" | "seq">, placementAt: PlacementAt): number | null =>
  // A search precedes its placement.
  effect.step === "place" ? null : placementAt(effect.seq);

/** The newest placements that a median rests on. */
const STARTS_MAX = 25;

/** Medians of the newest placements that reached their script. */
export function readStartTimes(all: All, provider: string, gpus: string): StartTimes | null {
  if (!havePlacements(all)) return null;
  const rows = all<{ ssh: number | null; script: number | null }>(
    `SELECT min(CASE WHEN j.type = 'await_ssh.done' THEN j.at END) - p.opened_at AS ssh, min(CASE WHEN j.type = 'launch.done' THEN j.at END) - p.opened_at AS script
     FROM (SELECT * FROM placement WHERE provider = ? AND gpus = ? ORDER BY job_id DESC, n DESC LIMIT 100) p JOIN journal j ON j.job_id = p.job_id AND j.seq > p.seq AND j.type IN ('await_ssh.done', 'launch.done')
     WHERE NOT EXISTS (SELECT 1 FROM placement q WHERE q.job_id = p.job_id AND q.n > p.n AND q.seq <= j.seq)
     GROUP BY p.job_id, p.n HAVING script IS NOT NULL AND ssh IS NOT NULL ORDER BY p.job_id DESC, p.n DESC LIMIT ?`,
    provider,
    gpus,
    STARTS_MAX,
  );
  if (rows.length === 0) return null;
  const middle = (of: (row: (typeof rows)[number]) => number | null): number => {
    const sorted = rows.map((row) => of(row) ?? 0).toSorted((a, b) => a - b);
    return (sorted[Math.floor((sorted.length - 1) / 2)] ?? 0) / 1_000;
  };
  return { seconds: middle(({ script }) => script), ssh_seconds: middle(({ ssh }) => ssh), runs: rows.length };
}
