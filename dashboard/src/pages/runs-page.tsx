import { useEffect, useState } from "react";
import type { JobRecord, JobStatus } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";
import { DASH, usd, usdPerHour, words } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { KillDialog } from "../parts/kill-dialog.tsx";
import { StatusPill } from "../parts/status-pill.tsx";
import { Ago, Span } from "../parts/time.tsx";
import { useTitle } from "../parts/title.ts";
import { Link, runPath } from "../router.tsx";
import { isActive, STATUSES, titleOf } from "../status.ts";
import { useData } from "../store.ts";
import { loadMore, showList } from "../sync.ts";

const FILTERS: readonly (JobStatus | null)[] = [null, "running", "succeeded", "failed", "cancelled", "terminating"];
const MORE_FILTERS = STATUSES.filter((status) => !FILTERS.includes(status));

export function RunsPage({ query }: { query: URLSearchParams }) {
  const asked = query.get("status");
  const filter = STATUSES.find((status) => status === asked) ?? null;
  useTitle("Runs");
  useEffect(() => showList(filter), [filter]);
  const list = useData((data) => data.list);
  const jobs = useData((data) => data.jobs);
  const [killing, setKilling] = useState<string | null>(null);
  const shown = list.filter === filter ? list.ids.flatMap((id) => jobs[id] ?? []) : [];
  const loading = list.phase === "loading" || list.filter !== filter;
  const target = killing === null ? undefined : jobs[killing];
  if (!loading && list.phase === "ready" && filter === null && shown.length === 0) return <FirstRun />;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Runs</h1>
        <Filters filter={filter} />
      </div>
      {list.problem && <ProblemBanner problem={list.problem} />}
      {shown.length > 0 && <RunTable jobs={shown} onKill={setKilling} />}
      {loading && <p className="quiet pad">Reading the runs…</p>}
      {!loading && shown.length === 0 && list.phase === "ready" && (
        <p className="quiet pad">
          No run is {words(filter ?? "here")}. <Link href="/">Show all runs</Link>.
        </p>
      )}
      {!loading && list.nextCursor !== null && <More />}
      {target && <KillDialog job={target} onClose={() => setKilling(null)} />}
    </div>
  );
}

function Filters({ filter }: { filter: JobStatus | null }) {
  const shown = filter !== null && MORE_FILTERS.includes(filter) ? [...FILTERS, filter] : FILTERS;
  return (
    <nav className="filters" aria-label="Filter by status">
      {shown.map((status) => (
        <Link
          key={status ?? "all"}
          href={status === null ? "/" : `/?status=${status}`}
          className="filter"
          aria-current={status === filter ? "page" : undefined}
        >
          {status === null ? "All" : words(status)}
        </Link>
      ))}
      <details className="filter-more">
        <summary className="filter">More</summary>
        <div className="menu">
          {MORE_FILTERS.map((status) => (
            <Link key={status} href={`/?status=${status}`} aria-current={status === filter ? "page" : undefined}>
              {words(status)}
            </Link>
          ))}
        </div>
      </details>
    </nav>
  );
}

function RunTable({ jobs, onKill }: { jobs: JobRecord[]; onKill: (id: string) => void }) {
  return (
    <table className="runs">
      <thead>
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Run</th>
          <th scope="col">Machine</th>
          <th scope="col" className="right">
            Age
          </th>
          <th scope="col" className="right">
            Duration
          </th>
          <th scope="col" className="right">
            Price
          </th>
          <th scope="col" className="right">
            Cost
          </th>
          <th scope="col">
            <span className="hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <RunRow key={job.id} job={job} onKill={onKill} />
        ))}
      </tbody>
    </table>
  );
}

function RunRow({ job, onKill }: { job: JobRecord; onKill: (id: string) => void }) {
  const reason =
    job.note ??
    job.error?.message ??
    (job.status === "failed" && job.exit_code !== null ? `exit code ${job.exit_code}` : null);
  return (
    <tr>
      <td className="cell-status">
        <StatusPill status={job.status} />
      </td>
      <td className="cell-run">
        <Link href={runPath(job.id)} className="run-link">
          <bdi>{titleOf(job)}</bdi>
        </Link>
        <span className="run-sub">
          <code>{job.id}</code>
          {reason && (
            <span className={job.error ? "reason bad" : "reason"} title={reason}>
              <bdi>{reason}</bdi>
            </span>
          )}
        </span>
      </td>
      <td className="cell-machine">
        {job.provider} <span className="quiet">{job.gpus}</span>
        {job.nodes > 1 && <span className="quiet"> × {job.nodes}</span>}
      </td>
      <td className="right num cell-age">
        <Ago at={job.created_at} />
      </td>
      <td className="right num cell-duration">
        {job.started_at ? <Span from={job.started_at} to={job.ended_at} /> : DASH}
      </td>
      <td className="right num cell-price">{usdPerHour(job.price_per_hour_usd)}</td>
      <td className="right num cell-cost">{usd(job.cost_usd)}</td>
      <td className="right cell-actions">
        {isActive(job) && job.status !== "terminating" && (
          <button
            type="button"
            className="button small"
            onClick={() => onKill(job.id)}
            aria-label={`Kill ${titleOf(job)} ${job.id}`}
          >
            Kill
          </button>
        )}
      </td>
    </tr>
  );
}

function More() {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const load = async () => {
    setBusy(true);
    setFailure(
      await loadMore().then(
        () => "",
        (error: unknown) => asProblem(error).detail,
      ),
    );
    setBusy(false);
  };
  return (
    <p className="more">
      <button type="button" className="button" disabled={busy} onClick={() => void load()}>
        {busy ? "Loading…" : "Load more"}
      </button>
      {failure && <span className="bad"> {failure}</span>}
    </p>
  );
}

const EXAMPLE = "/new?entrypoint=examples%2Fdigits%2Ftrain.py&label=digits";

function FirstRun() {
  return (
    <div className="empty">
      <h1>No runs yet</h1>
      <p>
        A run sends your project to a machine, starts your script there, brings back logs, metrics and checkpoints, and
        releases the machine. The provider <code>local</code> does the same on this computer and costs nothing.
      </p>
      <p className="actions">
        <Link href={EXAMPLE} className="button primary">
          Try the digits example
        </Link>
        <Link href="/new" className="button">
          Start your own script
        </Link>
      </p>
      <p className="quiet">
        From Python:{" "}
        <code>
          svc.run(task={"{"}"entrypoint": "train.py"{"}"})
        </code>
        . Over HTTP: <code>POST /jobs</code>.
      </p>
    </div>
  );
}
