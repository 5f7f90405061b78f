// The Steps tab of a run. The steps arrive with the run's timeline; `step-detail.tsx` describes the selected
// attempt.

import { Fragment, useMemo, useState, type CSSProperties } from "react";
import type { JobRecord, Timeline, TimelineStep } from "../../../src/schemas/job.ts";
import { refusalOf } from "../../../src/domain/refusal.ts";
import { endWords, isRepeated, lanesOf, placeWords } from "../../../src/domain/placement-words.ts";
import { duration, stepName } from "../format.ts";
import { useNow } from "../parts/now.ts";
import { withCode } from "../parts/with-code.tsx";
import { usePlace } from "../router.tsx";
import { attemptWords, badExit, keyOf } from "./step-words.ts";
import { STEP_NAMES } from "../../../src/schemas/names.ts";
import { isActive } from "../status.ts";
import { useData } from "../store.ts";
import { doingWords } from "./doing-words.ts";
import { setParams } from "./place.ts";
import { Replay } from "./replay-view.tsx";
import { StepDetail } from "./step-detail.tsx";
import { stepTicks } from "./step-ticks.ts";
import { timeScale, type Gap, type TimeScale } from "./time-scale.ts";

/**
 * Steps on a time axis: a row per node and step, a bar per attempt; the selected attempt of the address is described
 * below.
 */
export function TimelineView({ job }: { job: JobRecord }) {
  const timeline = useData((data) => data.timelines[job.id]);
  const live = isActive(job);
  const now = useNow(live);
  const { query } = usePlace();
  const [full, setFull] = useState(false);
  const [unfolded, setUnfolded] = useState(false);
  const at = Number(query.get("at")) || null;
  const scale = useMemo(
    () => (timeline ? scaleOf(job, timeline, live ? now : null, !full) : null),
    [job, timeline, live, now, full],
  );
  if (!timeline || !scale) return <p className="quiet pad">Reading the steps…</p>;
  const all = rowsOf(timeline, live);
  const nodes = new Set(all.map((row) => row.node)).size;
  const lanes = new Set(all.map((row) => row.lane)).size;
  const chosen = timeline.steps.find((step) => keyOf(step) === query.get("step")) ?? null;
  // Once the script runs, the steps before it are one line, unless one of them is looked at.
  const ready = job.status === "running" && nodes === 1 && lanes === 1 ? setUpOf(all) : null;
  const isFolded = ready !== null && !unfolded && !(chosen !== null && ready.steps.has(chosen.step));
  const rows = isFolded ? all.filter((row) => !ready.steps.has(row.step)) : all;
  const couldCollapse = full || scale.gaps.length > 0;
  return (
    <>
      <div className="steps">
        <Axis scale={scale} />
        <ol className="plain">
          {ready && <SetUp ready={ready} scale={scale} isFolded={isFolded} toggle={() => setUnfolded(isFolded)} />}
          {rows.map((row, i) => (
            <Fragment key={`${row.lane}/${row.node}/${row.step}`}>
              {lanes > 1 && row.lane !== rows[i - 1]?.lane && <LaneHead row={row} job={job} />}
              {nodes > 1 && (row.node !== rows[i - 1]?.node || row.lane !== rows[i - 1]?.lane) && (
                <li className="step-node">Node {row.node}</li>
              )}
              <StepRow job={job} row={row} scale={scale} now={Math.max(now, scale.from)} chosen={chosen} at={at} />
            </Fragment>
          ))}
        </ol>
      </div>
      {couldCollapse && (
        <p className="steps-quiet">
          <button type="button" className="button small" onClick={() => setFull(!full)}>
            {full ? "Shorten long pauses" : "Show true lengths"}
          </button>
          {!full && (
            <span className="quiet">
              {scale.gaps.map((gap) => duration(gap.to - gap.from)).join(" and ")} in which no step began or ended,
              drawn shorter
            </span>
          )}
        </p>
      )}
      {chosen && <StepDetail job={job} step={chosen} attempts={attemptsOf(timeline.steps, chosen)} now={now} />}
      <Replay job={job} timeline={timeline} scale={scale} at={at} />
    </>
  );
}

function scaleOf(job: JobRecord, timeline: Timeline, now: number | null, collapse: boolean): TimeScale {
  const instants = timeline.steps.flatMap((step) =>
    [step.started_at, step.ended_at].flatMap((at) => (at ? [Date.parse(at)] : [])),
  );
  const from = Math.min(Date.parse(job.created_at), ...instants);
  const to = Math.max(now ?? Date.parse(job.ended_at ?? job.created_at), ...instants, from + 1);
  return timeScale(instants, from, to, { collapse });
}

interface Row {
  /** Index of the lane: a placement, or a search for one. */
  lane: number;
  placement: number | null;
  step: TimelineStep["step"];
  node: number;
  attempts: TimelineStep[];
  /** Whether an earlier step of its lane failed with the words of its last attempt. */
  isRepeated: boolean;
}

const attemptsOf = (
  steps: readonly TimelineStep[],
  { step, node, placement }: Pick<TimelineStep, "step" | "node" | "placement">,
): TimelineStep[] =>
  steps
    .filter((each) => each.node === node && each.step === step && each.placement === placement)
    .sort((a, b) => a.attempt - b.attempt);

/** Lane after lane, in the order of the steps; for an active run on one node, future steps are shown as such. */
function rowsOf(timeline: Timeline, live: boolean): Row[] {
  const lanes = lanesOf(timeline.steps);
  const nodes = [...new Set(timeline.steps.map((step) => step.node))].sort((a, b) => a - b);
  const rows: Row[] = [];
  for (const [lane, { placement, steps }] of (lanes.length > 0 ? lanes : [{ placement: 1, steps: [] }]).entries()) {
    const last = lane >= lanes.length - 1;
    for (const node of nodes.length > 0 ? nodes : [0]) {
      for (const step of STEP_NAMES) {
        const attempts = attemptsOf(steps, { step, node, placement });
        // Only a run with several candidates looks for a place; a search has no other step.
        const future = live && last && nodes.length < 2 && step !== "place" && placement !== null;
        if (attempts.length > 0 || future) {
          const last = attempts.at(-1);
          const repeated = last !== undefined && isRepeated(last, steps);
          rows.push({ lane, placement, step, node, attempts, isRepeated: repeated });
        }
      }
    }
  }
  return rows;
}

interface Ready {
  steps: ReadonlySet<string>;
  from: number;
  to: number;
}

const BEFORE_THE_SCRIPT = STEP_NAMES.slice(0, STEP_NAMES.indexOf("stream"));

/** The steps before the script, if all of them have succeeded; null otherwise. */
function setUpOf(rows: readonly Row[]): Ready | null {
  const before = rows.filter((row) => BEFORE_THE_SCRIPT.includes(row.step));
  const attempts = before.flatMap((row) => row.attempts);
  if (before.length < 2 || before.some((row) => row.attempts.at(-1)?.status !== "succeeded")) return null;
  const from = Math.min(...attempts.flatMap(({ started_at }) => (started_at ? [Date.parse(started_at)] : [])));
  const to = Math.max(...attempts.flatMap(({ ended_at }) => (ended_at ? [Date.parse(ended_at)] : [])));
  return Number.isFinite(to - from) ? { steps: new Set(before.map((row) => row.step)), from, to } : null;
}

function SetUp(props: { ready: Ready; scale: TimeScale; isFolded: boolean; toggle: () => void }) {
  const { ready, scale, isFolded, toggle } = props;
  const left = Math.min(0.995, scale.at(ready.from));
  const width = Math.max(0, Math.min(1 - left, scale.at(ready.to) - left));
  return (
    <li className="step step-succeeded">
      <button type="button" className="step-name step-link" aria-expanded={!isFolded} onClick={toggle}>
        Set-up
      </button>
      <span className="step-track">
        {isFolded && (
          <span className="bar bar-succeeded" style={{ left: `${left * 100}%`, width: `max(4px, ${width * 100}%)` }} />
        )}
      </span>
      <span className="step-time num">{duration(ready.to - ready.from)}</span>
      <span className="step-state">ready</span>
    </li>
  );
}

function LaneHead({ row, job }: { row: Row; job: JobRecord }) {
  const told = useData((data) => data.placements[job.id])?.placements.find((each) => each.n === row.placement);
  if (row.placement === null) return <li className="step-node">Search for a machine</li>;
  return (
    <li className="step-node">
      Placement {row.placement}
      {told && (
        <span className="quiet">
          {" "}
          · <bdi>{placeWords(told)}</bdi> · {endWords(told)}
        </span>
      )}
    </li>
  );
}

interface StepRowProps {
  job: JobRecord;
  row: Row;
  scale: TimeScale;
  now: number;
  chosen: TimelineStep | null;
  at: number | null;
}

function StepRow({ job, row, scale, now, chosen, at }: StepRowProps) {
  const last = row.attempts.at(-1);
  const began = row.attempts.find((attempt) => attempt.started_at)?.started_at ?? null;
  const ms =
    last === undefined || began === null ? null : (last.ended_at ? Date.parse(last.ended_at) : now) - Date.parse(began);
  const running = last?.status === "running";
  const name = stepName(row.step);
  // A request that rented nothing is not drawn like a crash.
  const refusal = last?.status === "failed" ? refusalOf(job) : null;
  const look = (attempt: TimelineStep): string =>
    badExit(attempt) !== null ? "failed" : refusal !== null && attempt === last ? "cancelled" : attempt.status;
  return (
    <li className={last ? `step step-${look(last)}` : "step step-todo"}>
      {last ? (
        <button
          type="button"
          className="step-name step-link"
          aria-expanded={chosen !== null && row.attempts.includes(chosen)}
          onClick={() => choose(last, chosen)}
        >
          {name}
        </button>
      ) : (
        <span className="step-name">{name}</span>
      )}
      <span className="step-track">
        {scale.gaps.map((gap) => (
          <span
            key={gap.from}
            className="step-gap"
            style={{ left: `${gap.left * 100}%`, width: `${(gap.right - gap.left) * 100}%` }}
          />
        ))}
        {row.attempts.map((attempt, i) => (
          <Wait key={attempt.attempt} attempt={attempt} next={row.attempts[i + 1]} scale={scale} now={now} />
        ))}
        {row.attempts.map((attempt) => (
          <Bar
            key={attempt.attempt}
            attempt={attempt}
            scale={scale}
            now={now}
            on={attempt === chosen}
            look={look(attempt)}
            choose={() => choose(attempt, chosen)}
          />
        ))}
        {scale.gaps
          .filter((gap) => row.attempts.some((attempt) => covers(attempt, gap, now)))
          .map((gap) => (
            <span key={gap.from} className="step-break" style={{ left: `${((gap.left + gap.right) / 2) * 100}%` }} />
          ))}
        {at !== null && <span className="step-cursor" style={{ left: `${scale.at(at) * 100}%` }} />}
      </span>
      <span className="step-time num">
        {ms === null ? "" : running && ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms)}
      </span>
      <span className="step-state">{refusal ?? (last ? stateWords(last) : "pending")}</span>
      {last && <StepWords job={job} last={last} now={now} isRepeated={row.isRepeated} />}
    </li>
  );
}

/** Whether a bar spans a shortened stretch. */
function covers({ started_at, ended_at, status }: TimelineStep, gap: Gap, now: number): boolean {
  if (!started_at) return false;
  const end = ended_at ? Date.parse(ended_at) : status === "running" ? now : Date.parse(started_at);
  return Date.parse(started_at) <= gap.from && end >= gap.to;
}

const choose = (step: TimelineStep, chosen: TimelineStep | null) =>
  setParams({ step: chosen && keyOf(chosen) === keyOf(step) ? null : keyOf(step) });

interface WaitProps {
  attempt: TimelineStep;
  next: TimelineStep | undefined;
  scale: TimeScale;
  now: number;
}

/** The time between an attempt and the next one. */
function Wait({ attempt, next, scale, now }: WaitProps) {
  if (!attempt.ended_at || (!next && attempt.status !== "retrying")) return null;
  const from = scale.at(Date.parse(attempt.ended_at));
  const to = scale.at(next?.started_at ? Date.parse(next.started_at) : now);
  if (to <= from) return null;
  return <span className="step-wait" style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }} />;
}

/** The row's name opens the same details without a pointer: the bar is not in the tab order. */
function Bar(props: {
  attempt: TimelineStep;
  scale: TimeScale;
  now: number;
  on: boolean;
  /** Its status, unless the step did its work with a bad result, or was refused. */
  look: string;
  choose: () => void;
}) {
  const { attempt, scale, now } = props;
  if (!attempt.started_at) return null;
  const start = Date.parse(attempt.started_at);
  const end = attempt.ended_at ? Date.parse(attempt.ended_at) : attempt.status === "running" ? now : start;
  const left = Math.min(0.995, scale.at(start));
  const width = Math.max(0, Math.min(1 - left, scale.at(Math.max(start, end)) - left));
  const style: CSSProperties = { left: `${left * 100}%`, width: `max(4px, ${width * 100}%)` };
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-hidden="true"
      className={`bar bar-${props.look}${props.on ? " bar-on" : ""}`}
      style={style}
      title={`attempt ${attempt.attempt}, ${attemptWords(attempt)}, ${duration(end - start)}`}
      onClick={props.choose}
    />
  );
}

function stateWords(last: TimelineStep): string {
  const tries = last.attempt > 1 ? `, attempt ${last.attempt}` : "";
  return last.status === "retrying" ? "retrying" : attemptWords(last) + tries;
}

/** When the next attempt of a step is due, as text. */
export function dueWords(step: TimelineStep, now: number): string {
  if (step.next_attempt_at === null) return "follows";
  const due = Date.parse(step.next_attempt_at) - now;
  if (due <= 0) return "is starting now";
  return `in ${due < 60_000 ? `${Math.ceil(due / 1000)} s` : duration(due)}`;
}

interface StepWordsProps {
  job: JobRecord;
  last: TimelineStep;
  now: number;
  isRepeated: boolean;
}

function StepWords({ job, last, now, isRepeated }: StepWordsProps) {
  if (last.status === "running" && last.detail) {
    const meanwhile = doingWords(last.detail);
    return meanwhile && <bdi className="step-words quiet">{meanwhile}</bdi>;
  }
  if (!last.error && last.status !== "retrying") return null;
  // The error that ended the run is shown in full above everything.
  if (last.status === "failed" && (isRepeated || last.error?.message === job.error?.message))
    return <span className="step-words quiet">For the reason above.</span>;
  const due = dueWords(last, now);
  return (
    <span className="step-words">
      {last.status === "retrying" && (
        <strong>
          Attempt {last.attempt + 1}
          {due === "follows" ? " follows" : due.startsWith("in ") ? `, next try ${due}` : ", trying now"}
        </strong>
      )}
      {/* The banner above already shows the reason of a retry. */}
      {last.error && last.status !== "retrying" && (
        <>
          <bdi>{last.error.message}</bdi> <span className="quiet">{withCode(last.error.hint)}</span>
        </>
      )}
    </span>
  );
}

function Axis({ scale }: { scale: TimeScale }) {
  return (
    <div className="step axis" aria-hidden="true">
      <span className="step-name" />
      <span className="step-track">
        {stepTicks(scale).map((tick) => (
          <span
            key={tick.place}
            className={tick.place > 0.7 ? "tick tick-late num" : "tick num"}
            style={{ left: `${tick.place * 100}%` }}
          >
            {tick.words}
          </span>
        ))}
      </span>
      <span className="step-time" />
      <span className="step-state" />
    </div>
  );
}
