// The page of one run: its head, its tabs, and the data that they share.

import { useEffect, useRef } from "react";
import { ownValue } from "../../../src/domain/own-value.ts";
import { refusalOf } from "../../../src/domain/refusal.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { number } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useTitle } from "../parts/title.ts";
import { Link, runPath } from "../router.tsx";
import { AroundView } from "../run/around-view.tsx";
import { StartBar } from "../run/start-bar.tsx";
import { CheckpointsView } from "../run/checkpoints-view.tsx";
import { CodeView } from "../run/code-view.tsx";
import { EventsView } from "../run/events-view.tsx";
import { LogPeek, LogView } from "../run/log/log-view.tsx";
import { MachinesView } from "../run/machines-view.tsx";
import { MetricsPeek, MetricsView } from "../run/metrics/metrics-view.tsx";
import { useMetrics } from "../run/metrics/use-metrics.ts";
import { MachineUse } from "../run/machine-use.tsx";
import { ProgressPanel } from "../run/progress-panel.tsx";
import { MoneyEvents } from "../run/money-events.tsx";
import { PlacementsPanel } from "../run/placements-view.tsx";
import { useRunEvents } from "../run/run-events.ts";
import { RunHead } from "../run/run-head.tsx";
import { SpecView } from "../run/spec-view.tsx";
import { TimelineView } from "../run/timeline-view.tsx";
import type { JobStatus } from "../../../src/schemas/job.ts";
import { isActive, isAsked, titleOf } from "../status.ts";
import { useData } from "../store.ts";
import { showRun } from "../sync.ts";

const TABS = [
  ["overview", "Overview"],
  ["logs", "Logs"],
  ["metrics", "Metrics"],
  ["checkpoints", "Checkpoints"],
  ["events", "Events"],
  ["code", "Code"],
  ["spec", "Spec"],
] as const;

/** Marks the outcome in the title of a background tab. */
const MARKS: Partial<Record<JobStatus, string>> = { succeeded: "✓ ", failed: "✗ ", timed_out: "✗ ", interrupted: "✗ " };

export function RunPage({ id, tab }: { id: string; tab: string }) {
  useEffect(() => showRun(id), [id]);
  const job = useData((data) => ownValue(data.jobs, id));
  const problem = useData((data) => ownValue(data.problems, id));
  useTitle(job ? `${refusalOf(job) === null ? (MARKS[job.status] ?? "") : ""}${titleOf(job)}` : id);
  if (!job) {
    return (
      <div className="page">
        <h1 className="run-title">
          {problem ? "This run cannot be shown" : <span className="quiet">Reading the run…</span>}
        </h1>
        {problem && <ProblemBanner problem={problem} />}
        {problem && (
          <p className="gap-above">
            <Link href="/">See all runs</Link>
          </p>
        )}
      </div>
    );
  }
  const shown = tab === "around" ? "around" : (TABS.find(([name]) => name === tab)?.[0] ?? "overview");
  return (
    <div className="page">
      <RunHead job={job} brief={shown !== "overview"} />
      <Tabs job={job} shown={shown} />
      {shown === "overview" && <Overview job={job} />}
      {shown === "logs" && <LogView jobId={id} ended={!isActive(job)} nodes={job.nodes} />}
      {shown === "metrics" && <MetricsView job={job} />}
      {shown === "checkpoints" && <CheckpointsView job={job} />}
      {shown === "around" && <AroundView job={job} />}
      {shown === "events" && <EventsView job={job} />}
      {shown === "code" && <CodeView job={job} />}
      {shown === "spec" && <SpecView job={job} />}
    </div>
  );
}

function Tabs({ job, shown }: { job: JobRecord; shown: string }) {
  const { id } = job;
  const files = useData((data) => ownValue(data.checkpoints, id)?.length ?? 0);
  const nav = useRef<HTMLElement>(null);
  const failure = failureOf(job);
  const events = useRunEvents(id).length;
  // The numbers, which come later, push the tabs behind them.
  const place = `${shown} ${files > 0} ${events > 0}`;
  const shownFor = useRef("");
  useEffect(() => {
    if (shownFor.current === place) return;
    shownFor.current = place;
    // On a phone the current tab may be outside of the visible row; the page itself stays in place.
    const current = nav.current?.querySelector<HTMLElement>(`[data-tab="${shown}"]`);
    if (!nav.current || !current) return;
    const { offsetLeft, offsetWidth } = current;
    const { scrollLeft, clientWidth, offsetLeft: start } = nav.current;
    const left = offsetLeft - start;
    if (left < scrollLeft || left + offsetWidth > scrollLeft + clientWidth) nav.current.scrollLeft = left - 40;
  }, [place, shown]);
  return (
    <nav ref={nav} className="tabs" aria-label="Parts of the run">
      {TABS.map(([name, title]) => (
        <Link
          key={name}
          href={runPath(id, name)}
          keepScroll
          data-tab={name}
          aria-current={name === shown ? "page" : undefined}
        >
          {title}
          {name === "checkpoints" && <Count of={files} />}
          {name === "events" && <Count of={events} />}
          {failure?.tab === name && <span className="tab-mark" title={failure.words} aria-hidden="true" />}
        </Link>
      ))}
    </nav>
  );
}

const Count = ({ of }: { of: number }) =>
  of > 0 ? (
    <span className="tab-count num" aria-hidden="true">
      {number(of)}
    </span>
  ) : null;

/** The tab that tells most about a failed run: its log if the script failed, and else its events. */
function failureOf(job: JobRecord): { tab: string; words: string } | null {
  if (job.error === null || isAsked(job) || refusalOf(job) !== null) return null;
  return job.error.code === "script_failed"
    ? { tab: "logs", words: "The script failed: its last lines are here." }
    : { tab: "events", words: "The events say when it failed, and why." };
}

function Overview({ job }: { job: JobRecord }) {
  const ended = !isActive(job);
  const metrics = useMetrics([job.id], ended);
  return (
    <div className="overview">
      <div className="overview-main">
        {job.status === "running" && <ProgressPanel key={job.started_at} job={job} />}
        <PlacementsPanel job={job} />
        <section className="panel" aria-labelledby="steps-title">
          <h2 id="steps-title">Steps</h2>
          <TimelineView job={job} />
          <StartBar job={job} />
          <MoneyEvents job={job} />
        </section>
        <section className="panel" aria-labelledby="log-title">
          <div className="panel-head">
            <h2 id="log-title">Log</h2>
            <Link href={runPath(job.id, "logs")} keepScroll>
              Open the whole log
            </Link>
          </div>
          <LogPeek jobId={job.id} ended={ended} />
        </section>
      </div>
      <div className="overview-side">
        <section className="panel" aria-labelledby="metrics-title">
          <div className="panel-head">
            <h2 id="metrics-title">Metrics</h2>
            <Link href={runPath(job.id, "metrics")} keepScroll>
              All metrics
            </Link>
          </div>
          <MetricsPeek job={job} max={2} metrics={metrics} />
        </section>
        {!ended && <MachineUse job={job} metrics={metrics} />}
        <section className="panel" aria-labelledby="machines-title">
          <h2 id="machines-title">Machines</h2>
          <MachinesView job={job} />
        </section>
      </div>
    </div>
  );
}
