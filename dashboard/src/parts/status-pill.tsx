import type { JobStatus } from "../../../src/schemas/job.ts";
import { hasEnded } from "../../../src/schemas/names.ts";
import { words } from "../format.ts";

/** Statuses of active runs with a colour of their own. Nothing is billed while a run waits. */
const ACTIVE: Partial<Record<JobStatus, string>> = { terminating: "ending", waiting: "waiting" };

/** The status as text, colour and mark; the mark moves while the run is active. */
export function StatusPill({ status }: { status: JobStatus }) {
  return (
    <span className={`pill pill-${hasEnded(status) ? status : (ACTIVE[status] ?? "active")}`}>
      <span className="pill-mark" aria-hidden="true" />
      {words(status)}
    </span>
  );
}
