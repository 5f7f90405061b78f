// Reads which runs wait for limits of the home, and why. Loads neither a query builder nor zod, as `open-reads.ts`.

import type { LimitReason } from "../domain/limits.ts";
import { limitWaitWords } from "../domain/limit-words.ts";
import type { Note } from "../schemas/job.ts";
import type { LimitWait } from "../schemas/limits.ts";
import type { All } from "./tables.ts";

/** False in a home that no newer version has opened yet. */
export const haveLimits = (all: All): boolean =>
  all("SELECT 1 FROM sqlite_schema WHERE name = 'limit_wait'").length > 0;

interface WaitRow {
  job_id: string;
  passes: number;
  reason: string;
}

/** Oldest first. */
export const readWaits = (all: All): WaitRow[] =>
  haveLimits(all) ? all<WaitRow>("SELECT job_id, passes, reason FROM limit_wait ORDER BY id") : [];

/** The stored form of `reason`. */
const storedReason = (text: string): LimitReason => JSON.parse(text) as LimitReason;

export function waitOf({ passes, reason }: WaitRow, position: number, of: number): LimitWait {
  const why = storedReason(reason);
  return { position, of, passes, limit: why.shortage?.limit ?? null, never: why.never, why: limitWaitWords(why) };
}

/** The wait of a run that was not let in yet; null for any other run. */
export function readLimitWait(all: All, jobId: string): LimitWait | null {
  if (!haveLimits(all)) return null;
  const [row] = all<WaitRow & { id: number }>("SELECT * FROM limit_wait WHERE job_id = ?", jobId);
  if (row === undefined) return null;
  const [count] = all<{ position: number; n: number }>(
    "SELECT count(*) AS n, coalesce(sum(id <= ?), 0) AS position FROM limit_wait",
    row.id,
  );
  return waitOf(row, count?.position ?? 1, count?.n ?? 1);
}

export function limitNote(all: All, jobId: string): Note | null {
  const wait = readLimitWait(all, jobId);
  if (wait === null) return null;
  const place = wait.of === 1 ? "" : ` It is number ${wait.position} of ${wait.of} that wait.`;
  return { kind: "waiting_for_limits", message: `${wait.why}.${place} No machine exists and nothing is billed.` };
}
