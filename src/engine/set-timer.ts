// Stores a timer that the job machine requests, as a row, and puts one off that fell due while svc was away.

import type { SetTimer } from "../machines/effects.ts";
import { COLLECT_LIMIT_MS } from "../machines/job-rules.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { extraGraceMs } from "../domain/stop-grace.ts";
import { timerEvent } from "./journal.ts";
import type { TimerRow } from "../store/tables.ts";
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

/** A timer that fires this long after it was due fell due while no control plane ran, or while this computer slept. */
const AWAY_MS = 60_000;
/** A control plane that ends again and again must not keep a machine for ever. */
const COLLECTS_MS_MAX = 24 * 3_600_000;

/**
 * The limit of a collection that ran out while svc was away does not end it: nobody could collect, and the last lines and checkpoints
 * are on the machine alone. It gets some time from now on.
 * @param wait called with the new due time, in milliseconds since the epoch, once it is durable
 * @returns false for a timer that fires now
 */
export function putOff(tx: Transaction, { job_id, name, due, event }: TimerRow, wait: (due: number) => void): boolean {
  const awayMs = tx.at - due;
  const began = tx.store.openEffectsOf(job_id).flatMap(({ step, first_at }) => (step === "collect" ? [first_at] : []));
  if (name !== "collect" || awayMs < AWAY_MS || began.length === 0) return false;
  if (tx.at - Math.min(...began) > COLLECTS_MS_MAX && awayMs < COLLECTS_MS_MAX) return false;
  const job = tx.store.spec(job_id);
  const next = tx.at + COLLECT_LIMIT_MS.asked + (job === undefined ? 0 : extraGraceMs(specOf(job)));
  tx.store.setTimer({ job_id, name, due: next, event });
  tx.after(() => wait(next));
  return true;
}
