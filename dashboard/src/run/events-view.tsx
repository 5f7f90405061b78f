// The Events tab of a run.

import { useState } from "react";
import type { FeedEvent, JobRecord } from "../../../src/schemas/job.ts";
import { plural } from "../format.ts";
import { MoreButton } from "../parts/more-button.tsx";
import { At } from "../parts/time.tsx";
import { usePlace } from "../router.tsx";
import { eventWords } from "./event-words.ts";
import { isAboutMoney } from "./money-events.tsx";
import { setParams } from "./place.ts";
import { useRunEvents } from "./run-events.ts";

const ROWS = 300;
const KINDS = [
  ["", "All"],
  ["job", "State"],
  ["step", "Steps"],
  ["machine", "Machines"],
  ["checkpoint", "Checkpoints"],
  ["money", "Money"],
  ["notice", "Notices"],
] as const;

const isOfKind = (event: FeedEvent, kind: string): boolean =>
  kind === "money" ? isAboutMoney(event) : event.type.split(".")[0] === kind;

/** Every event in a run's journal, newest first. */
export function EventsView({ job }: { job: JobRecord }) {
  const { query } = usePlace();
  const kind = query.get("kind") ?? "";
  const events = useRunEvents(job.id);
  const [rows, setRows] = useState(ROWS);
  const chosen = kind === "" ? events : events.filter((event) => isOfKind(event, kind));
  const shown = chosen.slice(-rows).reverse();
  return (
    <section className="panel" aria-label="Events">
      <div className="panel-head">
        <div className="filters" role="group" aria-label="Kind of event">
          {KINDS.map(([name, title]) => (
            <button
              key={name}
              type="button"
              className="button small toggle"
              aria-pressed={kind === name}
              onClick={() => setParams({ kind: name || null })}
            >
              {title}
            </button>
          ))}
        </div>
        <span className="quiet num">{plural(chosen.length, "event")}</span>
      </div>
      {shown.length === 0 ? (
        <p className="quiet pad">{events.length === 0 ? "Reading the events…" : "None of this kind."}</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of events">
          <table className="small-table events">
            <thead>
              <tr>
                <th scope="col">At</th>
                <th scope="col">What</th>
                <th scope="col" className="right">
                  No.
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((event) => (
                <tr key={event.seq} className={`event-${event.type.replaceAll(".", "-")}`}>
                  <td className="num">
                    <At at={event.at} />
                  </td>
                  <td>
                    <bdi>{eventWords(event)}</bdi>
                  </td>
                  <td className="right num quiet">{event.seq}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <MoreButton all={chosen.length} shown={rows} atOnce={ROWS} word="older" onMore={setRows} />
    </section>
  );
}
