import type { JobStatus } from "../../../src/schemas/job.ts";
import { hasEnded } from "../../../src/schemas/names.ts";
import { words } from "../format.ts";

/** The status as text, colour and mark; the mark moves while the run is active. */
export function StatusPill({ status }: { status: JobStatus }) {
  const active = !hasEnded(status);
  return (
    <span className={`pill pill-${active ? (status === "terminating" ? "ending" : "active") : status}`}>
      <span className="pill-mark" aria-hidden="true" />
      {words(status)}
    </span>
  );
}
