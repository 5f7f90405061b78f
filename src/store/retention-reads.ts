// Reads the retention rule of a home, what it has removed, and the runs that it would remove. The server, the API and `svc prune` decide by
// these reads. Loads neither a query builder nor zod, as `open-reads.ts`.

import { ageMs, chooseOld, type AgedRun, type ChosenOld } from "../domain/retention.ts";
import { doubtWords, type Gap, type SeenTime } from "../domain/retention-time.ts";
import { parseBest, type Best } from "../schemas/best.ts";
import { hasEnded } from "../schemas/names.ts";
import type { JobStatus } from "../schemas/job.ts";
import type { OldRuns, HomeRetention, RetentionRule } from "../schemas/retention.ts";
import type { SinkStatus } from "../schemas/sink-status.ts";
import { knowsColumn } from "./known-columns.ts";
import { iso, isoOrNull } from "./records.ts";
import type { All, RetentionRow } from "./tables.ts";

const SHOWN_MAX = 200;
const REMOVED_MAX = 50;

export interface StoredRule {
  rule: RetentionRule;
  set_at: number;
  seen_at: number;
  looked_at: number | null;
  gaps: Gap[];
}

/** The runs that are asked for. */
export interface OldAsk {
  older_than: string;
  keep_best?: string | null;
  keep_newest?: number | null;
  provider?: string | undefined;
  label?: string | undefined;
  now: number;
  gaps?: readonly Gap[];
}

interface RunRow {
  id: string;
  label: string | null;
  provider: string;
  status: JobStatus;
  created_at: number;
  ended_at: number | null;
  archived_at: number | null;
  disk_bytes: number | null;
  source: string | null;
  made: number | null;
}
export interface OldRunRow extends RunRow, AgedRun {}

/** False in a home that an older version wrote. */
const knowsRule = (all: All): boolean => all("SELECT 1 FROM sqlite_schema WHERE name = 'retention'").length > 0;

export function readRule(all: All): StoredRule | null {
  const [row] = knowsRule(all) ? all<RetentionRow>("SELECT * FROM retention") : [];
  if (row === undefined) return null;
  // svc wrote both texts.
  return { ...row, rule: JSON.parse(row.rule) as RetentionRule, gaps: JSON.parse(row.gaps) as Gap[] };
}

/** @param sinksOf the progress of the copies of a run */
export function readOldRuns(all: All, sinksOf: (id: string) => SinkStatus[], ask: OldAsk): ChosenOld<OldRunRow> {
  const known = (name: string): string => (knowsColumn(all, name) ? name : `NULL AS ${name}`);
  const rows = all<RunRow>(
    `SELECT id, label, provider, status, created_at, ended_at, ${known("disk_bytes")}, ${known("archived_at")}, spec ->> 'resume_from' AS source,
       (SELECT min(seq) FROM feed WHERE feed.job_id = job.id) AS made FROM job`,
  );
  const runs = rows.map((row): OldRunRow => ({
    ...row,
    order: row.made ?? 0,
    ended_at: hasEnded(row.status) ? (row.ended_at ?? row.created_at) : null,
    isArchived: row.archived_at !== null,
  }));
  const isUsed = usedBy(all, rows);
  return chooseOld(runs, {
    now: ask.now,
    gaps: ask.gaps ?? [],
    olderMs: ageMs(ask.older_than) ?? Infinity,
    best: ask.keep_best ? parseBest(ask.keep_best) : null,
    newest: ask.keep_newest ?? 0,
    isAsked: ({ provider, label }) =>
      (ask.provider === undefined || ask.provider === provider) && (ask.label === undefined || ask.label === label),
    isInUse: ({ id }) => isUsed(id) || sinksOf(id).some(isCopying),
    valueIn: ({ id }, best) => bestValue(all, id, best),
  });
}

export const isCopying = ({ state, waiting }: SinkStatus): boolean =>
  state !== "done" && state !== "gave_up" && waiting.files > 0;

/** Runs with a machine that is not proven gone, and those from which a live run resumes, perhaps through others. */
function usedBy(all: All, rows: readonly RunRow[]): (id: string) => boolean {
  const used = new Set(
    all<{ job_id: string | null }>("SELECT job_id FROM machine WHERE state <> 'released'").map(({ job_id }) => job_id),
  );
  const sources = new Map(rows.map(({ id, source }) => [id, source]));
  for (const { id, status } of rows) {
    if (hasEnded(status)) continue;
    for (let next = sources.get(id); next && !used.has(next); next = sources.get(next)) used.add(next);
  }
  return (id) => used.has(id);
}

/** The best value that the run ever logged; null if it logged none that is finite. */
function bestValue(all: All, id: string, { metric, order }: Best): number | null {
  const [found] = all<{ least: number | null; most: number | null }>(
    `SELECT min(p.value) AS least, max(p.value) AS most FROM series s JOIN point p ON p.series_id = s.id
     WHERE s.job_id = ? AND s.name = ? AND abs(p.value) <= 1.7976931348623157e308`,
    id,
    metric,
  );
  return (order === "min" ? found?.least : found?.most) ?? null;
}

export function shownOld({ goes, kept }: ChosenOld<OldRunRow>, most = SHOWN_MAX): OldRuns {
  const sizes = goes.flatMap(({ disk_bytes }) => (disk_bytes === null ? [] : [disk_bytes]));
  return {
    count: goes.length,
    bytes: sizes.reduce((sum, n) => sum + n, 0),
    unmeasured: goes.length - sizes.length,
    runs: goes.slice(0, most).map(({ id, label, ended_at, created_at, disk_bytes }) => ({
      id,
      label,
      ended_at: iso(ended_at ?? created_at),
      disk_bytes,
    })),
    kept,
  };
}

/** @param seen what is known about the time now; what the store knew at the last look by default */
export function readRetention(
  all: All,
  sinksOf: (id: string) => SinkStatus[],
  now: number,
  seen?: SeenTime,
): HomeRetention {
  const stored = readRule(all);
  const time = seen ?? stored;
  type Removed = { job_id: string; label: string | null; begun_at: number; bytes: number | null };
  const removed = knowsRule(all)
    ? all<Removed>(
        `SELECT job_id, label, begun_at, bytes FROM removal WHERE rule IS NOT NULL ORDER BY begun_at DESC, job_id LIMIT ${REMOVED_MAX}`,
      )
    : [];
  return {
    rule: stored?.rule ?? null,
    set_at: isoOrNull(stored?.set_at ?? null),
    looked_at: isoOrNull(stored?.looked_at ?? null),
    doubt: time === null ? null : doubtWords(time, now),
    due: stored === null ? null : shownOld(readOldRuns(all, sinksOf, { ...stored.rule, now, gaps: time?.gaps ?? [] })),
    removed: removed.map(({ job_id, label, begun_at, bytes }) => ({
      id: job_id,
      label,
      at: iso(begun_at),
      freed_bytes: bytes ?? 0,
    })),
  };
}
