// Replays the journal of a run next to its steps.

import { useEffect, useMemo, useState } from "react";
import type { FeedEvent, JobRecord, Timeline } from "../../../src/schemas/job.ts";
import { duration, plural, stepName, words } from "../format.ts";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";
import { eventWords } from "./event-words.ts";
import { setParams } from "./place.ts";
import { momentOf, moments, type Moment } from "./replay.ts";
import { runApi } from "./run-api.ts";
import { useRunEvents } from "./run-events.ts";
import type { TimeScale } from "./time-scale.ts";

const PLAY_MS = 700;

/** Replays a run's journal: shows its state at each moment. */
export function Replay(props: { job: JobRecord; timeline: Timeline; scale: TimeScale; at: number | null }) {
  const { job, timeline, scale, at } = props;
  const events = useRunEvents(job.id);
  const stops = useMemo(() => moments(timeline, events), [timeline, events]);
  const [playing, setPlaying] = useState(false);
  const index =
    at === null
      ? stops.length - 1
      : Math.max(
          0,
          stops.findLastIndex((each) => each <= at),
        );
  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      const next = stops[index + 1];
      if (next === undefined) setPlaying(false);
      else setParams({ at: String(next) });
    }, PLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, index, stops]);
  if (stops.length < 2) return null;
  const go = (to: number) => {
    setPlaying(false);
    setParams({ at: String(stops[to] ?? stops[0]) });
  };
  const play = () => {
    if (!playing && index >= stops.length - 1) setParams({ at: String(stops[0]) });
    setPlaying(!playing);
  };
  return (
    <div className="replay">
      <div className="replay-bar">
        <button type="button" className="button small" onClick={play}>
          {playing ? "Pause" : "Replay"}
        </button>
        <input
          type="range"
          min={0}
          max={stops.length - 1}
          value={index}
          aria-label="Time in the run"
          aria-valuetext={at === null ? "now" : `${duration(at - scale.from)} after the start`}
          onChange={(event) => go(Number(event.target.value))}
        />
        {at === null ? (
          <span className="quiet num">{plural(stops.length, "event")}</span>
        ) : (
          <button
            type="button"
            className="button small"
            onClick={() => {
              setPlaying(false);
              setParams({ at: null });
            }}
          >
            Back to now
          </button>
        )}
      </div>
      {at !== null && <MomentView job={job} moment={momentOf(job, timeline, events, at)} from={scale.from} />}
    </div>
  );
}

function MomentView({ job, moment, from }: { job: JobRecord; moment: Moment; from: number }) {
  const doing = moment.running.map((step) => stepWords(step.step, step.attempt, step.node, job.nodes));
  const waiting = moment.retrying.map((step) => stepWords(step.step, step.attempt + 1, step.node, job.nodes));
  return (
    <div className="moment" role="status">
      <p>
        <strong>
          <At at={new Date(moment.at).toISOString()} />, {duration(moment.at - from)} after the start:{" "}
          {words(moment.state)}
        </strong>
        {moment.because && <span className="quiet"> because of {moment.because}</span>}
      </p>
      <p>
        {doing.length > 0 ? `Doing: ${doing.join("; ")}. ` : "No step was active. "}
        {waiting.length > 0 && `Waiting to retry: ${waiting.join("; ")}. `}
        {moment.machines.length > 0 ? `${plural(moment.machines.length, "machine")} held. ` : "No machine was held. "}
        {moment.spent !== null && `Spent, at present prices: ${moment.spent}. `}
        <Link href={`/runs/${encodeURIComponent(job.id)}?tab=logs`}>Log</Link> <LineThen id={job.id} at={moment.at} />
      </p>
      <ol className="plain small-text quiet">
        {moment.events.map((event: FeedEvent) => (
          <li key={event.seq}>
            <At at={event.at} /> <bdi>{eventWords(event)}</bdi>
          </li>
        ))}
      </ol>
    </div>
  );
}

const stepWords = (step: string, attempt: number, node: number, nodes: number): string =>
  `${stepName(step)}${nodes > 1 ? ` on node ${node}` : ""}${attempt > 1 ? `, attempt ${attempt}` : ""}`;

function LineThen({ id, at }: { id: string; at: number }) {
  return <LineAt key={at} id={id} at={at} />;
}

function LineAt({ id, at }: { id: string; at: number }) {
  const { data } = useAnswer(() => runApi.logLines(id, { at_ms: Math.round(at), count: 1 }));
  const line = data?.lines[0]?.line;
  if (line === undefined) return null;
  return (
    <Link href={`/runs/${encodeURIComponent(id)}?tab=logs&line=${line}`}>
      at line {line.toLocaleString("en-US")} of {data?.total_lines.toLocaleString("en-US")}
    </Link>
  );
}
