// One bar: the owners of the time until the script began, and what each part cost.

import { OWNER_WORDS, startParts } from "../../../src/domain/start-times.ts";
import { runsHere } from "../../../src/providers/descriptors.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { duration, usd } from "../format.ts";
import { useData } from "../store.ts";

export function StartBar({ job }: { job: JobRecord }) {
  const timeline = useData((data) => data.timelines[job.id]);
  const parts = timeline && !runsHere(job.provider) ? startParts(timeline, job) : null;
  if (parts === null || parts.length === 0) return null;
  const total = parts.reduce((sum, { ms }) => sum + ms, 0);
  const cost = parts.reduce<number | null>(
    (sum, part) => (sum === null || part.usd === null ? null : sum + part.usd),
    0,
  );
  return (
    <section className="start-bar" aria-label="Time until the script began">
      <p className="small-text">
        <strong>{duration(total)}</strong> until the script began
        {cost === null ? ", at an unknown cost" : cost > 0 ? `, ${usd(cost)}` : ""}
      </p>
      <div className="start-parts" aria-hidden="true">
        {parts.map(({ owner, ms }) => (
          <span key={owner} className={`start-part start-${owner}`} style={{ flexGrow: Math.max(ms, total / 200) }} />
        ))}
      </div>
      <ul className="plain start-legend small-text">
        {parts.map(({ owner, ms, usd: price }) => (
          <li key={owner}>
            <span className={`start-mark start-${owner}`} aria-hidden="true" />
            {OWNER_WORDS[owner]} <span className="num quiet">{duration(ms)}</span>
            {price !== null && price > 0 && <span className="num quiet"> {usd(price)}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
