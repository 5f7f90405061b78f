// The view of one moment of a run: log lines, metrics, events and checkpoints within a minute of it, at one address.

import { useEffect, useMemo } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { newestFirst, savedWhen } from "../../../src/domain/newest-first.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { metricValue, moment, number, plural, timeOfDay } from "../format.ts";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { Link, usePlace } from "../router.tsx";
import { isActive } from "../status.ts";
import { useData } from "../store.ts";
import { eventWords } from "./event-words.ts";
import { aroundPath } from "./moment.ts";
import { ansiNodes, parseAnsi, PLAIN } from "./log/ansi.ts";
import type { Columns } from "./metrics/columns.ts";
import { titleOfMetric } from "./metrics/shown-chart.ts";
import { useMetrics } from "./metrics/use-metrics.ts";
import { runApi } from "./run-api.ts";
import { useRunEvents } from "./run-events.ts";

const AROUND_MS = 60_000;
const LINES_MAX = 200;
const METRICS_MAX = 40;

/** The point nearest to a moment; null if none is within a minute. */
function nearest(columns: Columns | null, atMs: number): { value: number; step: number; atMs: number } | null {
  let found = -1;
  let best = AROUND_MS;
  for (const [i, time] of (columns?.time ?? []).entries()) {
    const distance = Math.abs(time * 1_000 - atMs);
    if (distance > best) continue;
    best = distance;
    found = i;
  }
  if (!columns || found < 0) return null;
  return {
    value: columns.value[found] ?? Number.NaN,
    step: columns.step[found] ?? 0,
    atMs: (columns.time[found] ?? 0) * 1_000,
  };
}

export function AroundView({ job }: { job: JobRecord }) {
  const { query } = usePlace();
  const at = Number(query.get("at"));
  if (!Number.isFinite(at) || Math.abs(at) > 8_640_000_000_000_000 || query.get("at") === null)
    return <p className="quiet pad">The address names no moment. Click a point of a chart to choose one.</p>;
  const shift = (ms: number) => aroundPath(job.id, at + ms);
  return (
    <section aria-label="Around this moment">
      <div className="panel-head">
        <h2>Around {moment(new Date(at).toISOString())}</h2>
        <span className="list-tools">
          <Link className="button small" href={shift(-AROUND_MS)} keepScroll>
            A minute earlier
          </Link>
          <Link className="button small" href={shift(AROUND_MS)} keepScroll>
            A minute later
          </Link>
        </span>
      </div>
      <LinesAround key={at} job={job} at={at} />
      <div className="around-grid">
        <MetricsAround job={job} at={at} />
        <EventsAround job={job} at={at} />
        <FilesAround job={job} at={at} />
      </div>
    </section>
  );
}

function LinesAround({ job, at }: { job: JobRecord; at: number }) {
  const { data, problem } = useAnswer(() =>
    runApi.logLines(job.id, { at_ms: Math.max(0, Math.round(at - AROUND_MS)), count: LINES_MAX }),
  );
  const lines = (data?.lines ?? []).filter((line) => Math.abs(line.at_ms - at) <= AROUND_MS);
  const near = lines.reduce<number | null>((best, line, i) => {
    const known = best === null ? undefined : lines[best];
    return known === undefined || Math.abs(line.at_ms - at) < Math.abs(known.at_ms - at) ? i : best;
  }, null);
  const opened = lines[near ?? 0];
  return (
    <section className="panel" aria-labelledby="around-log">
      <div className="panel-head">
        <h3 id="around-log">Log</h3>
        {opened && (
          <Link href={`/runs/${encodeURIComponent(job.id)}?tab=logs&line=${opened.line}`}>
            Open at line {opened.line.toLocaleString("en-US")}
          </Link>
        )}
      </div>
      {problem && <p className="bad">{problem.detail}</p>}
      {data !== null && lines.length === 0 && <p className="quiet">The run wrote nothing within a minute of it.</p>}
      {lines.length > 0 && (
        <pre className="log-excerpt" tabIndex={0} role="region" aria-label="Log around this moment">
          {lines.map((line, i) => (
            <span
              key={line.line}
              className={i === near ? "around-line around-near" : "around-line"}
              ref={(element) => element?.replaceChildren(...ansiNodes(parseAnsi(line.text, PLAIN).pieces))}
            />
          ))}
        </pre>
      )}
      {lines.length >= LINES_MAX && (
        <p className="quiet small-text">The first {plural(LINES_MAX, "line")} of that time.</p>
      )}
    </section>
  );
}

function MetricsAround({ job, at }: { job: JobRecord; at: number }) {
  const { set, names, loading } = useMetrics([job.id], !isActive(job));
  const shown = useMemo(() => names.slice(0, METRICS_MAX), [names]);
  useEffect(() => {
    const stops = shown.flatMap((name) => set.readers.map((reader) => reader.want(name)));
    return () => stops.forEach((stop) => stop());
  }, [set, shown]);
  const rows = shown.flatMap((name) => {
    const point = nearest(set.readers[0]?.columns(name) ?? null, at);
    return point ? [{ name, point }] : [];
  });
  return (
    <section className="panel" aria-labelledby="around-metrics">
      <h3 id="around-metrics">Metrics and machine</h3>
      {rows.length === 0 && (
        <p className="quiet">{loading ? "Reading the metrics…" : "No value within a minute of it."}</p>
      )}
      {rows.length > 0 && (
        <table className="small-table">
          <tbody>
            {rows.map(({ name, point }) => (
              <tr key={name}>
                <th scope="row" className="wrap">
                  <bdi>{titleOfMetric(name)}</bdi>
                </th>
                <td className="right num">{metricValue(name, point.value)}</td>
                <td className="right num quiet">{name.startsWith("system/") ? "" : `step ${number(point.step)}`}</td>
                <td className="right num quiet">{timeOfDay(point.atMs)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {names.length > METRICS_MAX && (
        <p className="quiet small-text">
          The first {METRICS_MAX} of {plural(names.length, "metric")}.
        </p>
      )}
    </section>
  );
}

function EventsAround({ job, at }: { job: JobRecord; at: number }) {
  const events = useRunEvents(job.id).filter((event) => Math.abs(Date.parse(event.at) - at) <= AROUND_MS);
  return (
    <section className="panel" aria-labelledby="around-events">
      <h3 id="around-events">Events</h3>
      {events.length === 0 && <p className="quiet">None within a minute of it.</p>}
      <ul className="plain">
        {events.slice(0, LINES_MAX).map((event) => (
          <li key={event.seq}>
            <span className="num quiet">
              <At at={event.at} />
            </span>{" "}
            <bdi>{eventWords(event)}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}

function FilesAround({ job, at }: { job: JobRecord; at: number }) {
  const files = useData((data) => data.checkpoints[job.id]) ?? [];
  const times = files.map((file) => ({ ...file, atMs: Date.parse(file.modified_at) }));
  const near = times.filter(({ atMs }) => Math.abs(atMs - at) <= AROUND_MS);
  const before = times.filter(({ atMs }) => atMs <= at).toSorted((a, b) => newestFirst(savedWhen(a), savedWhen(b)))[0];
  const shown = near.length > 0 ? near : before ? [before] : [];
  return (
    <section className="panel" aria-labelledby="around-files">
      <h3 id="around-files">{near.length === 0 && before ? "Newest checkpoint before" : "Checkpoints"}</h3>
      {shown.length === 0 && <p className="quiet">None so far.</p>}
      <ul className="plain">
        {shown.slice(0, LINES_MAX).map((file) => (
          <li key={file.path}>
            <bdi>{file.path}</bdi> <span className="num quiet">{bytes(file.size)}</span>{" "}
            <span className="num quiet">
              <At at={file.modified_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
