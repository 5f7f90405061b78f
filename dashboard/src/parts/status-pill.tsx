import { refusalOf } from "../../../src/domain/refusal.ts";
import type { JobRecord, JobStatus } from "../../../src/schemas/job.ts";
import { hasEnded } from "../../../src/schemas/names.ts";
import { words } from "../format.ts";

/** Statuses of active runs with a colour of their own. Nothing is billed while a run waits. */
const ACTIVE: Partial<Record<JobStatus, string>> = { terminating: "ending", waiting: "waiting" };

/** The status of a run; one that ended before anything was rented is neither red nor called failed. */
export function RunStatus({ job }: { job: JobRecord }) {
  const refusal = refusalOf(job);
  if (refusal === null) return <StatusPill status={job.status} />;
  return (
    <span className="pill pill-cancelled" title="Nothing was rented, and nothing was paid.">
      <span className="pill-mark" aria-hidden="true" />
      {refusal}
    </span>
  );
}

/** The status as text, colour and mark; the mark moves while the run is active. */
export function StatusPill({ status }: { status: JobStatus }) {
  return (
    <span className={`pill pill-${hasEnded(status) ? status : (ACTIVE[status] ?? "active")}`}>
      <span className="pill-mark" aria-hidden="true" />
      {words(status)}
    </span>
  );
}
