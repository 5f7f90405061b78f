// Stores a timer that the job machine requests, as a row, and puts off the limit of a phase or of a collection that ran out while svc was away.

import type { SetTimer } from "../machines/effects.ts";
import { COLLECT_LIMIT_MS, PHASE_LIMIT_MS } from "../machines/job-rules.ts";
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
const LONGER_MS_MAX = 24 * 3_600_000;

/**
 * A limit that ran out while svc was away ends nothing at once: nobody could collect, and the last lines and checkpoints are on the
 * machine alone; or nobody could reach the machine, send it files or install, and the time measures svc, not the machine. The collection
 * or the phase gets some time from now on. The guard on the machine and the budget still bound what it costs.
 * @param wait called with the new due time, in milliseconds since the epoch, once it is durable
 * @returns false for a timer that fires now
 */
export function putOff(tx: Transaction, row: TimerRow, wait: (due: number) => void): boolean {
  const { job_id, name, due, event } = row;
  if (tx.at - due < AWAY_MS || !(name === "collect" ? mayCollect(tx, row) : name === "phase" && mayGoOn(tx, row)))
    return false;
  const job = name === "collect" ? tx.store.spec(job_id) : undefined;
  const next = tx.at + COLLECT_LIMIT_MS.asked + (job === undefined ? 0 : extraGraceMs(specOf(job)));
  tx.store.setTimer({ job_id, name, due: next, event });
  tx.after(() => wait(next));
  return true;
}

function mayCollect(tx: Transaction, { job_id, due }: TimerRow): boolean {
  const began = beganOf(tx, job_id, (step) => step === "collect");
  return began !== null && (tx.at - began <= LONGER_MS_MAX || tx.at - due >= LONGER_MS_MAX);
}

/** Its first limit may always be put off, however long svc was away; a later one within a day of that limit. */
function mayGoOn(tx: Transaction, { job_id, due }: TimerRow): boolean {
  const state = tx.store.job(job_id)?.state;
  const limit = Object.entries(PHASE_LIMIT_MS).find(([phase]) => phase === state)?.[1];
  const began = beganOf(tx, job_id, () => true);
  return limit !== undefined && began !== null && due - began <= limit + LONGER_MS_MAX;
}

/** When the oldest of these open steps began, in milliseconds since the epoch; null if none is open. */
function beganOf({ store }: Transaction, jobId: string, isMeant: (step: string) => boolean): number | null {
  const began = store.openEffectsOf(jobId).flatMap(({ step, first_at }) => (isMeant(step) ? [first_at] : []));
  return began.length === 0 ? null : Math.min(...began);
}
