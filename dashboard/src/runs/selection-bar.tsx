// The bar below the list of runs while runs are selected.

import { runsHere } from "../../../src/providers/descriptors.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { plural } from "../format.ts";
import { perHourOf } from "../machines.ts";
import { Link } from "../router.tsx";
import { isActive } from "../status.ts";
import { COMPARED_MAX, comparePath } from "./compare-path.ts";

/** The selected runs, their cost, and the actions on them. */
export function SelectionBar(props: {
  jobs: readonly JobRecord[];
  onKill: () => void;
  onTags: () => void;
  onDelete: () => void;
  /** Archives the ended ones, or lists them again. */
  onArchive: (isArchived: boolean) => void;
  onClear: () => void;
}) {
  const active = props.jobs.filter(isActive);
  const isArchived = props.jobs.some((job) => job.archived_at !== null);
  const compared = comparePath(props.jobs.map((job) => job.id));
  const prices = active.map((job) => (runsHere(job.provider) ? 0 : job.price_per_hour_usd));
  const size = props.jobs.reduce((sum, job) => sum + (job.disk_bytes ?? 0), 0);
  return (
    <div className="selection" role="region" aria-label="Selected runs">
      <span>
        <strong>{plural(props.jobs.length, "run")}</strong> selected
        {active.length > 0 && <span className="quiet"> · {perHourOf(prices)}</span>}
        {size > 0 && <span className="quiet"> · {bytes(size)} on this disk</span>}
        {props.jobs.length > COMPARED_MAX && <span className="quiet"> · up to {COMPARED_MAX} can be compared</span>}
      </span>
      <button type="button" className="button" onClick={props.onClear}>
        Clear
      </button>
      {compared !== null && (
        <Link className="button" href={compared}>
          Compare
        </Link>
      )}
      <button type="button" className="button" onClick={props.onTags}>
        Tags…
      </button>
      {active.length < props.jobs.length && (
        <button type="button" className="button" onClick={() => props.onArchive(!isArchived)}>
          {isArchived ? "Unarchive" : "Archive"}
        </button>
      )}
      {active.length < props.jobs.length && (
        <button type="button" className="button danger" onClick={props.onDelete}>
          Delete…
        </button>
      )}
      {active.length > 0 && (
        <button type="button" className="button danger" onClick={props.onKill}>
          Kill…
        </button>
      )}
    </div>
  );
}
