// Writes one transition: the journal entry, and the new state of the job's row by compare-and-set.

import type { JobContext, JobEvent } from "../machines/job-context.ts";
import { JOB_MACHINE_VERSION } from "../machines/job-machine.ts";
import type { JobRow } from "../store/tables.ts";
import type { Rebased } from "./engine-options.ts";
import type { Snapshot } from "./fold.ts";
import { fingerprint } from "./journal.ts";
import type { Transaction } from "./transaction.ts";

/** Throws `stale_writer` if another process has changed the job meanwhile. */
export function writeTransition(
  tx: Transaction,
  before: Pick<JobRow, "id" | "seq" | "state">,
  event: JobEvent | Rebased,
  snapshot: Snapshot,
): { seq: number; to: string; status: string } {
  const { id, state: from } = before;
  const seq = before.seq + 1;
  const { text, hash } = fingerprint(snapshot);
  const to = snapshot.value;
  const context: JobContext = snapshot.context;
  const status = to === "terminal" ? (context.outcome ?? "failed") : to;
  tx.store.insertJournal({
    job_id: id,
    seq,
    at: tx.at,
    epoch: tx.store.epoch,
    type: event.type,
    event: JSON.stringify(event),
    from_state: from,
    to_state: to,
    hash,
  });
  tx.store.updateJob({
    id,
    seq,
    version: JOB_MACHINE_VERSION,
    state: to,
    status,
    snapshot: text,
    hash,
    exit_code: context.exit_code,
    error: context.error === null ? null : JSON.stringify(context.error),
    started_at: context.started_at,
    ended_at: context.ended_at,
  });
  return { seq, to, status };
}
