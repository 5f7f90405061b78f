import { Fragment, type CSSProperties } from "react";
import type { JobRecord, Timeline, TimelineStep } from "../../../src/schemas/job.ts";
import { duration, words } from "../format.ts";
import { useNow } from "../parts/now.ts";
import { At } from "../parts/time.tsx";
import { isActive, STEPS } from "../status.ts";
import { useData } from "../store.ts";

/** Steps on a time axis: a row per node and step, a bar per attempt. */
export function TimelineView({ job }: { job: JobRecord }) {
  const timeline = useData((data) => data.timelines[job.id]);
  const live = isActive(job);
  const now = useNow(live);
  if (!timeline) return <p className="quiet pad">Reading the steps…</p>;
  const begun = timeline.steps.flatMap((step) => (step.started_at ? [Date.parse(step.started_at)] : []));
  const from = Math.min(Date.parse(job.created_at), ...begun);
  const ended = timeline.steps.flatMap((step) => (step.ended_at ? [Date.parse(step.ended_at)] : []));
  const to = Math.max(live ? now : Date.parse(job.ended_at ?? job.created_at), ...ended, from + 1);
  const rows = rowsOf(timeline, live);
  const nodes = new Set(rows.map((row) => row.node)).size;
  return (
    <div className="steps">
      <Axis length={to - from} />
      <ol className="plain">
        {rows.map((row, i) => (
          <Fragment key={`${row.node}/${row.step}`}>
            {nodes > 1 && row.node !== rows[i - 1]?.node && <li className="step-node">Node {row.node}</li>}
            <StepRow row={row} from={from} to={to} now={Math.max(now, from)} />
          </Fragment>
        ))}
      </ol>
    </div>
  );
}

interface Row {
  step: TimelineStep["step"];
  node: number;
  attempts: TimelineStep[];
}

/** In the order of the steps; of a live run on one node, steps yet to come are shown as such. */
function rowsOf(timeline: Timeline, live: boolean): Row[] {
  const nodes = [...new Set(timeline.steps.map((step) => step.node))].sort((a, b) => a - b);
  const rows: Row[] = [];
  for (const node of nodes.length > 0 ? nodes : [0]) {
    for (const step of STEPS) {
      const attempts = timeline.steps
        .filter((each) => each.node === node && each.step === step)
        .sort((a, b) => a.attempt - b.attempt);
      if (attempts.length > 0 || (live && nodes.length < 2)) rows.push({ step, node, attempts });
    }
  }
  return rows;
}

function StepRow({ row, from, to, now }: { row: Row; from: number; to: number; now: number }) {
  const last = row.attempts.at(-1);
  const length = to - from;
  const began = row.attempts.find((attempt) => attempt.started_at)?.started_at ?? null;
  const ms =
    last === undefined || began === null ? null : (last.ended_at ? Date.parse(last.ended_at) : now) - Date.parse(began);
  const running = last?.status === "running";
  return (
    <li className={last ? `step step-${last.status}` : "step step-todo"}>
      <span className="step-name">{words(row.step)}</span>
      <span className="step-track" aria-hidden="true">
        {row.attempts.map((attempt) => {
          if (!attempt.started_at) return null;
          const start = Date.parse(attempt.started_at);
          const end = attempt.ended_at ? Date.parse(attempt.ended_at) : attempt.status === "running" ? now : start;
          const left = Math.min(99.5, ((start - from) / length) * 100);
          const width = Math.min(100 - left, (Math.max(0, end - start) / length) * 100);
          const style: CSSProperties = { left: `${left}%`, width: `max(4px, ${width}%)` };
          return <span key={attempt.attempt} className={`bar bar-${attempt.status}`} style={style} />;
        })}
      </span>
      <span className="step-time num">
        {ms === null ? "" : running && ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms)}
      </span>
      <span className="step-state">{last ? stateWords(last) : "to come"}</span>
      {last && <StepWords last={last} now={now} />}
    </li>
  );
}

function stateWords(last: TimelineStep): string {
  const tries = last.attempt > 1 ? `, attempt ${last.attempt}` : "";
  return last.status === "retrying" ? "retrying" : words(last.status) + tries;
}

function StepWords({ last, now }: { last: TimelineStep; now: number }) {
  if (!last.error && last.status !== "retrying") return null;
  const due = last.next_attempt_at === null ? null : Date.parse(last.next_attempt_at) - now;
  return (
    <span className="step-words">
      {last.status === "retrying" && (
        <strong>
          Attempt {last.attempt + 1}
          {due === null
            ? " follows"
            : due > 0
              ? `, next try in ${due < 60_000 ? `${Math.ceil(due / 1000)} s` : duration(due)}`
              : ", trying now"}
          {last.error ? ". " : ""}
        </strong>
      )}
      {last.error && (
        <>
          {last.status === "retrying" && "Last error: "}
          <bdi>{last.error.message}</bdi> <span className="quiet">{last.error.hint}</span>
        </>
      )}
    </span>
  );
}

const NICE_S = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600,
  7_200, 14_400, 28_800, 86_400,
];

function Axis({ length }: { length: number }) {
  const s = length / 1000;
  const stride = NICE_S.find((nice) => s / nice <= 5) ?? Math.ceil(s / 5 / 86_400) * 86_400;
  const ticks: number[] = [];
  for (let at = 0; at <= s * 0.94; at += stride) ticks.push(at);
  return (
    <div className="step axis" aria-hidden="true">
      <span className="step-name" />
      <span className="step-track">
        {ticks.map((at) => (
          <span key={at} className="tick num" style={{ left: `${(at / s) * 100}%` }}>
            {tickWords(at)}
          </span>
        ))}
      </span>
      <span className="step-time" />
      <span className="step-state" />
    </div>
  );
}

function tickWords(s: number): string {
  if (s === 0) return "0";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${Number(s.toFixed(1))} s`;
  if (s < 7_200) return `${Math.round(s / 60)} m`;
  return s < 172_800 ? `${Number((s / 3_600).toFixed(1))} h` : `${Math.round(s / 86_400)} d`;
}

/** Every state that the run went through, and what moved it. */
export function TransitionsView({ id }: { id: string }) {
  const timeline = useData((data) => data.timelines[id]);
  if (!timeline) return <p className="quiet pad">Reading the transitions…</p>;
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of transitions">
      <table className="small-table">
        <thead>
          <tr>
            <th scope="col">At</th>
            <th scope="col">State</th>
            <th scope="col">Because of</th>
          </tr>
        </thead>
        <tbody>
          {timeline.transitions.map((transition) => (
            <tr key={transition.seq}>
              <td className="num">
                <At at={transition.at} />
              </td>
              <td title={transition.from ? `from ${transition.from}` : ""}>{words(transition.to)}</td>
              <td className="quiet">{transition.event}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
