// Stores a timer that the job machine requests, as a row.

import type { SetTimer } from "../machines/effects.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { extraGraceMs } from "../domain/stop-grace.ts";
import { timerEvent } from "./journal.ts";
import type { Transaction } from "./transaction.ts";

/** @returns its due time in milliseconds since the epoch; null if no timer is requested, or an earlier one is already set. */
export function setTimer(tx: Transaction, jobId: string, wanted: SetTimer, state: string): number | null {
  const { timer, after_ms, at_most, limit_ms } = wanted;
  if (after_ms <= 0) {
    const set = tx.store.timer(jobId, timer);
    if (set !== undefined) tx.store.takeTimer(jobId, timer, set.due);
    return null;
  }
  const job = timer === "collect" ? tx.store.spec(jobId) : undefined;
  const waitMs = after_ms + (job === undefined ? 0 : extraGraceMs(specOf(job)));
  const due = tx.at + waitMs;
  const standing = at_most === true ? tx.store.timer(jobId, timer) : undefined;
  if (standing !== undefined && standing.due <= due) return null;
  const event = JSON.stringify(timerEvent(timer, limit_ms ?? waitMs, state));
  tx.store.setTimer({ job_id: jobId, name: timer, due, event });
  return due;
}
