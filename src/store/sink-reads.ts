// Reads the status of a job's sinks. The files to copy are not a separate list that could be lost: they are the
// difference between the local files and the recorded copies.

import { bytes } from "../domain/bytes.ts";
import type { Note } from "../schemas/job.ts";
import type { Sink } from "../schemas/sink.ts";
import type { SinkStatus } from "../schemas/sink-status.ts";
import { isoOrNull } from "./records.ts";
import type { All, SinkRow } from "./tables.ts";
import { storedError } from "./stored-json.ts";

/** Below the job's own folder in the store. */
export const CHECKPOINTS = "checkpoints/";
export const LOG = "run.log";
export const MANIFEST = "manifest.json";
const LEFT_OUT_SHOWN = 100;

/** A checkpoint file whose newest version was neither copied nor excluded, in a store from an older program. */
const UNCOPIED_OF_OLD = `SELECT c.path, c.size, c.modified_at FROM checkpoint c
  LEFT JOIN sink_copy s ON s.job_id = c.job_id AND s.sink = ? AND s.path = '${CHECKPOINTS}' || c.path
  WHERE c.job_id = ? AND (s.path IS NULL OR s.size <> c.size OR s.modified_at <> c.modified_at)`;

/** As above, but a file that is still being written waits until it is unchanged for a while, or the run has ended. */
export const UNCOPIED_CHECKPOINTS = `${UNCOPIED_OF_OLD}
  AND (c.in_progress = 0 OR EXISTS (SELECT 1 FROM job j WHERE j.id = c.job_id AND j.state = 'terminal'))`;

interface Sum {
  files: number;
  bytes: number | null;
}

const amount = (sum: Sum) => ({ files: sum.files, bytes: sum.bytes ?? 0 });

/** False in a home from an older program. */
const haveSinks = (all: All): boolean => all("SELECT 1 FROM sqlite_schema WHERE name = 'sink'").length > 0;

export function readSinks(all: All, jobId: string, sinks: readonly Sink[]): SinkStatus[] {
  if (sinks.length === 0 || !haveSinks(all)) return [];
  const rows = all<SinkRow>("SELECT * FROM sink WHERE job_id = ? ORDER BY sink", jobId);
  return rows.flatMap((row) => {
    const sink = sinks[row.sink];
    return sink ? [statusOf(all, row, sink)] : [];
  });
}

function statusOf(all: All, row: SinkRow, { kind, url, what }: Sink): SinkStatus {
  const at = [row.job_id, row.sink];
  const waiting = waitingOf(all, row, what);
  const sent = all<Sum>(
    `SELECT count(*) AS files, sum(size) AS bytes FROM sink_copy WHERE job_id = ? AND sink = ? AND why IS NULL`,
    ...at,
  )[0] ?? { files: 0, bytes: 0 };
  return {
    sink: row.sink,
    kind,
    url,
    what,
    state: stateOf(row, waiting.files),
    sent: amount(sent),
    waiting,
    left_out: all(
      `SELECT path, why FROM sink_copy WHERE job_id = ? AND sink = ? AND why IS NOT NULL ORDER BY path LIMIT ${LEFT_OUT_SHOWN}`,
      ...at,
    ),
    uploads: all(
      "SELECT path, size, sent FROM sink_upload WHERE job_id = ? AND sink = ? AND sent > 0 ORDER BY path",
      ...at,
    ),
    last_copied_at: isoOrNull(row.copied_at),
    error: row.error === null || row.state === "done" ? null : storedError(row.job_id, row.error),
    next_attempt_at: row.state === "open" && row.failures > 0 ? isoOrNull(row.next_at) : null,
  };
}

function stateOf(row: SinkRow, waitingFiles: number): SinkStatus["state"] {
  if (row.state !== "open") return row.state;
  if (row.failures > 0) return "retrying";
  return waitingFiles > 0 ? "copying" : "waiting";
}

function waitingOf(all: All, row: SinkRow, what: Sink["what"]): { files: number; bytes: number } {
  const sum = { files: 0, bytes: 0 };
  const add = (found: Sum | undefined): void => {
    sum.files += found?.files ?? 0;
    sum.bytes += found?.bytes ?? 0;
  };
  if (what.includes("checkpoints")) {
    const isOld = all("SELECT 1 FROM pragma_table_info('checkpoint') WHERE name = 'in_progress'").length === 0;
    const uncopied = isOld ? UNCOPIED_OF_OLD : UNCOPIED_CHECKPOINTS;
    add(all<Sum>(`SELECT count(*) AS files, sum(size) AS bytes FROM (${uncopied})`, row.sink, row.job_id)[0]);
  }
  if (what.includes("logs"))
    add(
      all<Sum>(
        `SELECT count(*) AS files, sum(l.stored_bytes - coalesce(s.size, 0)) AS bytes FROM log l
         LEFT JOIN sink_copy s ON s.job_id = l.job_id AND s.sink = ? AND s.path = '${LOG}'
         WHERE l.job_id = ? AND l.stored_bytes <> coalesce(s.size, 0)`,
        row.sink,
        row.job_id,
      )[0],
    );
  return sum;
}

/**
 * For people: the files of an ended run that are not in its sinks yet, or never will be; null if there is nothing to
 * report.
 */
export function sinkNote(statuses: readonly SinkStatus[]): Note | null {
  for (const { state, url, waiting, error, left_out } of statuses) {
    const what = `${waiting.files} ${waiting.files === 1 ? "file" : "files"} (${bytes(waiting.bytes)})`;
    if (state === "gave_up")
      return {
        kind: "sink_gave_up",
        message:
          `Not copied to ${url}: ${what}; svc has stopped retrying. The local copies are intact. ${error?.message ?? ""}`.trim(),
      };
    if (state === "retrying")
      return {
        kind: "sink_retrying",
        message: `Not copied to ${url} yet: ${what}. ${error?.message ?? ""} svc retries.`,
      };
    if (state === "copying")
      return { kind: "sink_copying", message: `Uploading to ${url}: ${what} to go. No machine is held for it.` };
    const [first] = left_out;
    if (first) return { kind: "sink_left_out", message: `Left out of ${url}: ${first.path}: ${first.why}.` };
  }
  return null;
}
