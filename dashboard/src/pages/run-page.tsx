import { useEffect, useState, type ReactNode } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { DASH, usd, usdPerHour } from "../format.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { KillDialog } from "../parts/kill-dialog.tsx";
import { StatusPill } from "../parts/status-pill.tsx";
import { At, Span } from "../parts/time.tsx";
import { useTitle } from "../parts/title.ts";
import { withCode } from "../parts/with-code.tsx";
import { Link, runPath } from "../router.tsx";
import { CheckpointsView } from "../run/checkpoints-view.tsx";
import { LogPeek, LogView } from "../run/log/log-view.tsx";
import { MachinesView } from "../run/machines-view.tsx";
import { MetricsPeek, MetricsView } from "../run/metrics/metrics-view.tsx";
import { SpecView } from "../run/spec-view.tsx";
import { TimelineView, TransitionsView } from "../run/timeline-view.tsx";
import { isActive, titleOf } from "../status.ts";
import { useData } from "../store.ts";
import { showRun } from "../sync.ts";

const TABS = [
  ["overview", "Overview"],
  ["logs", "Logs"],
  ["metrics", "Metrics"],
  ["checkpoints", "Checkpoints"],
  ["spec", "Spec and code"],
] as const;

export function RunPage({ id, tab }: { id: string; tab: string }) {
  useEffect(() => showRun(id), [id]);
  const job = useData((data) => data.jobs[id]);
  const problem = useData((data) => data.problems[id]);
  useTitle(job ? `${job.status === "succeeded" ? "✓ " : ""}${titleOf(job)}` : id);
  if (!job) {
    return (
      <div className="page">
        <h1 className="run-title">
          {problem ? "This run cannot be shown" : <span className="quiet">Reading the run…</span>}
        </h1>
        {problem && <ProblemBanner problem={problem} />}
        {problem && (
          <p>
            <Link href="/">See all runs</Link>
          </p>
        )}
      </div>
    );
  }
  const shown = TABS.find(([name]) => name === tab)?.[0] ?? "overview";
  return (
    <div className="page">
      <RunHead job={job} />
      <nav className="tabs" aria-label="Parts of the run">
        {TABS.map(([name, title]) => (
          <Link key={name} href={runPath(id, name)} keepScroll aria-current={name === shown ? "page" : undefined}>
            {title}
          </Link>
        ))}
      </nav>
      {shown === "overview" && <Overview job={job} />}
      {shown === "logs" && <LogView jobId={id} ended={!isActive(job)} nodes={job.nodes} />}
      {shown === "metrics" && <MetricsView job={job} />}
      {shown === "checkpoints" && <CheckpointsView job={job} />}
      {shown === "spec" && <SpecView job={job} />}
    </div>
  );
}

function RunHead({ job }: { job: JobRecord }) {
  const [killing, setKilling] = useState(false);
  const args = job.args.length > 0 ? ` ${job.args.join(" ")}` : "";
  return (
    <div className="run-head">
      <div className="run-head-row">
        <div className="run-name">
          <StatusPill status={job.status} />
          <h1 className="run-title">
            <bdi>{titleOf(job)}</bdi>
          </h1>
          <CopyButton text={job.id} what="the run's id" />
        </div>
        <div className="actions">
          <Link className="button" href={`/new?from=${encodeURIComponent(job.id)}`}>
            Rerun with changes
          </Link>
          {isActive(job) && job.status !== "terminating" && (
            <button type="button" className="button danger" onClick={() => setKilling(true)}>
              Kill
            </button>
          )}
        </div>
      </div>
      <dl className="facts">
        <Fact name="Command" wide>
          <code title={job.entrypoint + args}>
            <bdi>{job.entrypoint + args}</bdi>
          </code>
        </Fact>
        <Fact name="Machine">
          {job.provider}, {job.gpus}
          {job.nodes > 1 && ` × ${job.nodes}`}
        </Fact>
        <Fact name="Created">
          <At at={job.created_at} />
        </Fact>
        <Fact name="Duration">
          {job.started_at ? <Span from={job.started_at} to={job.ended_at} /> : isActive(job) ? "not started" : DASH}
        </Fact>
        <Fact name="Cost">
          <span className="num">{usd(job.cost_usd)}</span>
          {job.price_per_hour_usd !== null && job.price_per_hour_usd > 0 && (
            <span className="quiet"> at {usdPerHour(job.price_per_hour_usd)}</span>
          )}
        </Fact>
        {job.exit_code !== null && (
          <Fact name="Exit code">
            <span className="num">{job.exit_code}</span>
          </Fact>
        )}
      </dl>
      {job.error && (
        <Banner tone="bad" title={<bdi>{job.error.message}</bdi>}>
          <p>
            {withCode(job.error.hint)} <code className="quiet">{job.error.code}</code>
          </p>
        </Banner>
      )}
      {job.note && <Banner tone={job.status === "terminating" ? "warn" : "info"} title={<bdi>{job.note}</bdi>} />}
      {killing && <KillDialog job={job} onClose={() => setKilling(false)} />}
    </div>
  );
}

function Fact({ name, wide, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={wide ? "fact fact-wide" : "fact"}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Overview({ job }: { job: JobRecord }) {
  const ended = !isActive(job);
  return (
    <div className="overview">
      <div className="overview-main">
        <section className="panel" aria-labelledby="steps-title">
          <h2 id="steps-title">Steps</h2>
          <TimelineView job={job} />
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
          <MetricsPeek job={job} max={2} />
        </section>
        <section className="panel" aria-labelledby="machines-title">
          <h2 id="machines-title">Machines</h2>
          <MachinesView job={job} />
        </section>
        <section className="panel" aria-labelledby="transitions-title">
          <h2 id="transitions-title">Transitions</h2>
          <TransitionsView id={job.id} />
        </section>
      </div>
    </div>
  );
}
