import type { JobRecord } from "../../../src/schemas/job.ts";
import { plural, usd } from "../format.ts";

/** What is selected, what it costs, and what can be done with it. */
export function SelectionBar(props: { jobs: readonly JobRecord[]; onKill: () => void; onClear: () => void }) {
  const perHour = props.jobs.reduce((sum, job) => sum + (job.price_per_hour_usd ?? 0), 0);
  return (
    <div className="selection" role="region" aria-label="Selected runs">
      <span>
        <strong>{plural(props.jobs.length, "run")}</strong> selected
        <span className="quiet"> · {usd(perHour)}/h</span>
      </span>
      <button type="button" className="button" onClick={props.onClear}>
        Clear
      </button>
      <button type="button" className="button danger" onClick={props.onKill}>
        Kill…
      </button>
    </div>
  );
}
