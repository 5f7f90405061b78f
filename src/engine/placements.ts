// Writes the rows of placements, in the transaction of the transition that opens or closes one, and reads a job's position among them.

import { candidateSpec } from "../domain/candidates.ts";
import type { JobContext } from "../machines/job-context.ts";
import type { ClosePlacement, OpenPlacement } from "../machines/effects.ts";
import { mayGoOn, ruledOut } from "../machines/next-placement.ts";
import { specOf } from "../schemas/stored-spec.ts";
import type { EngineStore } from "../store/engine-store.ts";
import type { PlacementNow } from "./engine-options.ts";
import type { Transaction } from "./transaction.ts";

/** @param seq number of the journal entry that opens the placement. */
export function openPlacement(tx: Transaction, jobId: string, seq: number, open: OpenPlacement): void {
  const job = tx.store.spec(jobId);
  if (!job) return;
  const spec = candidateSpec(specOf(job), open.candidate, open.on_demand);
  const { provider, gpus, region = null, spot = "never" } = spec;
  const row = { job_id: jobId, n: open.placement, candidate: open.candidate, seq, provider, gpus, region, spot };
  tx.store.openPlacement({ ...row, opened_at: tx.at });
  if (open.placement > 1) tx.feed(jobId, "placement.opened", { n: open.placement, provider, gpus });
}

export function closePlacement(tx: Transaction, jobId: string, close: ClosePlacement): void {
  const { placement: n, failure, error, outcome, exit_code, checkpoint, goes_on } = close;
  tx.store.closePlacement({
    job_id: jobId,
    n,
    closed_at: tx.at,
    outcome,
    failure: failure?.kind ?? null,
    step: failure?.step ?? null,
    error: error === null ? null : JSON.stringify(error),
    exit_code,
    checkpoint,
    goes_on: goes_on ? 1 : 0,
  });
  if (!goes_on) return;
  tx.feed(jobId, "placement.closed", { n, failure: failure?.kind ?? null, error });
  const why = error === null ? "" : `${error.message} `;
  const again = failure?.kind === "preempted" ? repeatedWords(tx, jobId, checkpoint) : "";
  tx.feed(jobId, "notice", {
    level: "warning",
    message: `${why}svc now looks for another machine for this run.${again}`,
  });
}

/** Preemptions in a row without a new checkpoint: only the script can change that, so a notice says so. */
function repeatedWords(tx: Transaction, jobId: string, checkpoint: string | null): string {
  const ended = tx.store.placementFailures(jobId).filter(({ failure }) => failure !== "no_machine");
  const other = ended.findLastIndex((one) => one.failure !== "preempted" || one.checkpoint !== checkpoint);
  const count = ended.length - 1 - other;
  if (count < 2) return "";
  return ` It was taken back ${count} times without a new complete checkpoint, and each machine repeats the same work: save checkpoints more often, or set spot to never.`;
}

/** @param context the context of a live job; undefined if the job has ended or is parked. */
export function placementNow(store: EngineStore, jobId: string, context: JobContext | undefined): PlacementNow {
  if (context !== undefined) {
    const { placement: n, candidate, on_demand, searching_since, refusals, rules } = context;
    const now = { n, candidate, on_demand, searching_since, refusals, searches: rules.searches };
    return { ...now, ruledOut: ruledOut(context), mayGoOn: mayGoOn(context) };
  }
  // The snapshot of a parked job may have any shape, so its placement is read from the table.
  const last = store.lastPlacement(jobId);
  return {
    n: last?.n ?? 0,
    candidate: last?.candidate ?? null,
    on_demand: last?.spot === "never",
    searching_since: null,
    refusals: [],
    ruledOut: [],
    searches: false,
    mayGoOn: false,
  };
}
