import type { JobRecord } from "../../../src/schemas/job.ts";
import { plural } from "../format.ts";
import { perHourOf } from "../machines.ts";

/** What is selected, what it costs, and what can be done with it. */
export function SelectionBar(props: { jobs: readonly JobRecord[]; onKill: () => void; onClear: () => void }) {
  const prices = props.jobs.map((job) => (job.provider === "local" ? 0 : job.price_per_hour_usd));
  return (
    <div className="selection" role="region" aria-label="Selected runs">
      <span>
        <strong>{plural(props.jobs.length, "run")}</strong> selected
        <span className="quiet"> · {perHourOf(prices)}</span>
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
