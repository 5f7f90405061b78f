// Reads the reason of an active run's present state, for its one-line note. Loads neither a query builder nor zod, as `open-reads.ts`.

import type { Note } from "../schemas/job.ts";
import { limitNote } from "./limit-waits.ts";
import { placementNote, waitingNote } from "./placement-reads.ts";
import type { All, AttemptRow, EffectRow, JobRow } from "./tables.ts";
import { storedError } from "./stored-json.ts";

/** Shorter waits are not reported: machines take that long to boot. */
const WAITS_LONG_MS = 60_000;

/** The most important reason; null if the run makes normal progress. */
export function activeNote(all: All, row: Pick<JobRow, "id" | "state">, placements: number, now: number): Note | null {
  const search = row.state === "waiting" ? (limitNote(all, row.id) ?? waitingNote(all, row.id)) : null;
  return search ?? triedAgain(all, row.id) ?? waitsFor(all, row.id, now) ?? placementNote(all, row, placements);
}

/**
 * Why a run makes no progress: the error of the last attempt of a step that is waiting for a retry or is being retried.
 */
function triedAgain(all: All, id: string): Note | null {
  const [last] = all<Pick<EffectRow, "step"> & Pick<AttemptRow, "attempt" | "error">>(
    "SELECT e.step, a.attempt, a.error FROM effect e JOIN attempt a ON a.effect_id = e.id " +
      "WHERE e.job_id = ? AND a.status = 'failed' AND (e.state = 'retrying' OR e.state = 'running' AND e.step <> 'stream') " +
      "ORDER BY a.started_at DESC LIMIT 1",
    id,
  );
  if (!last?.error) return null;
  const { message } = storedError(id, last.error);
  return {
    kind: "step_retrying",
    message: `${last.step} is tried again; attempt ${last.attempt} ended with: ${message}`,
  };
}

/** The reason of a wait that is long enough to worry a user. */
function waitsFor(all: All, id: string, now: number): Note | null {
  const [open] = all<{ step: string; why: string }>(
    "SELECT e.step, a.detail ->> 'waiting_for' AS why FROM effect e JOIN attempt a ON a.effect_id = e.id AND a.attempt = e.attempt " +
      "WHERE e.job_id = ? AND e.state IN ('retrying', 'running') AND a.started_at <= ? AND a.detail ->> 'waiting_for' IS NOT NULL " +
      "ORDER BY a.started_at LIMIT 1",
    id,
    now - WAITS_LONG_MS,
  );
  return open ? { kind: "step_waiting", message: `${open.step} still waits: ${open.why}` } : null;
}
