// Lists the money events of a run below its steps: changed limits, budget warnings, raised prices.

import type { FeedEvent, JobRecord } from "../../../src/schemas/job.ts";
import { At } from "../parts/time.tsx";
import { eventWords } from "./event-words.ts";
import { useRunEvents } from "./run-events.ts";

/** The newest ones; the Events tab has all of them. */
const SHOWN = 6;

export const isAboutMoney = ({ type }: FeedEvent): boolean =>
  type.startsWith("budget.") || type === "job.changed" || type === "price.raised";

export function MoneyEvents({ job }: { job: JobRecord }) {
  const events = useRunEvents(job.id).filter(isAboutMoney).slice(-SHOWN);
  if (events.length === 0) return null;
  return (
    <ul className="plain money-events small-text" aria-label="Limits and budget">
      {events.map((event) => (
        <li key={event.seq} className={event.type === "budget.reached" ? "bad" : undefined}>
          <span className="quiet num">
            <At at={event.at} />
          </span>{" "}
          <bdi>{eventWords(event)}</bdi>
        </li>
      ))}
    </ul>
  );
}
