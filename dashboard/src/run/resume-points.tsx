// The part of the Checkpoints tab from which a new run can resume.

import { useEffect, useMemo, useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { JobRecord, ResumePoint } from "../../../src/schemas/job.ts";
import { metricValue, number, plural } from "../format.ts";
import { At } from "../parts/time.tsx";
import { Link } from "../router.tsx";
import { isActive } from "../status.ts";
import { bestAt, betterOf, judges, valueUpTo } from "./metrics/judge.ts";
import { useMetrics } from "./metrics/use-metrics.ts";
import { stepInName } from "../../../src/domain/step-in-name.ts";

const POINTS_SHOWN = 5;

/**
 * Complete checkpoints, each with a link to a run that continues from it and the value of a metric at its step. The
 * best one comes first, then the newest.
 */
export function ResumePoints(props: {
  job: JobRecord;
  points: readonly ResumePoint[];
  judged: Judged;
  /** Null where nothing can be selected: the run has not ended. */
  picks: Picks | null;
}) {
  const { job, points, judged, picks } = props;
  const [all, setAll] = useState(false);
  const { metric, best, valueOf } = judged;
  const ordered = best === null ? points : [best, ...points.filter((each) => each !== best)];
  const shown = all ? ordered : ordered.slice(0, POINTS_SHOWN);
  const others = points.filter((each) => each !== best).map(({ name }) => name);
  return (
    <section className="panel" aria-labelledby="points-title">
      <div className="panel-head">
        <h2 id="points-title">Complete checkpoints</h2>
        <div className="points-tools">
          {picks !== null && best !== null && others.length > 0 && (
            <button type="button" className="button small" onClick={() => (setAll(true), picks.set(others))}>
              Select all but the best
            </button>
          )}
          {metric !== null && points.length > 0 && (
            <label className="quiet">
              Best by{" "}
              <select className="select" value={metric} onChange={(event) => judged.choose(event.target.value)}>
                {judged.metrics.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
          )}
        </div>
      </div>
      {points.length === 0 && (
        <p className="quiet">None yet. A run can resume only from a checkpoint that is complete on this computer.</p>
      )}
      <ul className="plain points">
        {shown.map((point) => (
          <li key={point.name}>
            {picks !== null && <Pick picks={picks} name={point.name} />}
            <span className="point-about">
              <strong>{stepWords(point)}</strong>{" "}
              {metric !== null && valueOf(point) !== null && (
                <span className="num">
                  <bdi>{metric}</bdi> {metricValue(metric, valueOf(point) ?? 0)}{" "}
                </span>
              )}
              {point === best && <strong className="good">best </strong>}
              <code>
                <bdi>{inOrder(point.name)}</bdi>
              </code>{" "}
              <span className="quiet">
                {bytes(point.bytes)}
                {point.files > 1 && ` in ${plural(point.files, "file")}`}, saved <At at={point.saved_at} />
              </span>
            </span>
            <Link
              className="button small"
              href={`/new?from=${encodeURIComponent(job.id)}&checkpoint=${encodeURIComponent(point.name)}`}
              aria-label={`Resume from this: ${point.name}`}
            >
              Resume from this
            </Link>
          </li>
        ))}
      </ul>
      {shown.length < points.length && (
        <button type="button" className="button small" onClick={() => setAll(true)}>
          Show all {number(points.length)}
        </button>
      )}
    </section>
  );
}

/** The names that are selected to be deleted. */
export interface Picks {
  has: (name: string) => boolean;
  toggle: (name: string) => void;
  set: (names: readonly string[]) => void;
}

export const Pick = ({ picks, name }: { picks: Picks; name: string }) => (
  <input
    type="checkbox"
    className="pick"
    aria-label={`Select ${name}`}
    checked={picks.has(name)}
    onChange={() => picks.toggle(name)}
  />
);

export type Judged = ReturnType<typeof useJudged>;

/** The metric that judges the checkpoints, its value at each, and the best of them. */
export function useJudged(job: JobRecord, points: readonly ResumePoint[]) {
  const { set, names } = useMetrics([job.id], !isActive(job));
  const metrics = useMemo(() => judges(names), [names]);
  const [chosen, choose] = useState<string | null>(null);
  const metric = chosen ?? metrics[0] ?? null;
  const [reader] = set.readers;
  useEffect(() => (metric === null ? undefined : reader?.want(metric)), [metric, reader]);
  const version = metric === null ? 0 : reader?.version(metric);
  const values = useMemo(() => {
    const columns = metric === null ? null : reader?.columns(metric);
    const valueAt = (step: number | null) => (columns && step !== null ? valueUpTo(columns, step) : null);
    return new Map(version === 0 ? [] : points.map((point) => [point, valueAt(knownStep(point))]));
  }, [points, metric, reader, version]);
  const valueOf = (point: ResumePoint) => values.get(point) ?? null;
  const better = metric === null ? null : betterOf(metric);
  const best = better === null ? null : (points[bestAt(points.map(valueOf), better)] ?? null);
  return { metrics, metric, choose, valueOf, best };
}

const knownStep = ({ name, step }: ResumePoint): number | null => step ?? stepInName(name);

function stepWords(point: ResumePoint): string {
  const known = knownStep(point);
  return known === null ? "" : `Step ${number(known)}`;
}
