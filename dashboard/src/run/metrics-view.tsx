import { useEffect, useRef, useState } from "react";
import type { MetricPoint, Problem } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";
import { DASH, number, plural } from "../format.ts";
import { coalesced, onHint } from "../sync.ts";
import { drawChart, type Chart } from "./chart.ts";
import { SeriesReader, summary, type Series } from "./series.ts";

const CHARTS_AT_ONCE = 24;

/** Charts of a run's metrics. With `max`, the first few only. */
export function MetricsView({ jobId, ended, max }: { jobId: string; ended: boolean; max?: number }) {
  const { series, problem } = useSeries(jobId, ended);
  const [limit, setLimit] = useState(CHARTS_AT_ONCE);
  if (problem && !series) return <p className="bad pad">{problem.detail}</p>;
  if (!series) return <p className="quiet pad">Reading the metrics…</p>;
  const names = Object.keys(series).sort(byName);
  if (names.length === 0) {
    return (
      <p className="quiet pad">
        {ended ? "The run logged no metric. " : "No metric yet. "}
        <code>
          svc.log({"{"}"loss": 0.1{"}"}, step=1)
        </code>{" "}
        charts one here.
      </p>
    );
  }
  const shown = names.slice(0, max ?? limit);
  return (
    <>
      <div className={max ? "charts charts-narrow" : "charts"}>
        {shown.map((name) => (
          <MetricChart key={name} name={name} points={series[name] ?? []} syncKey={jobId} />
        ))}
      </div>
      {!max && names.length > limit && (
        <p className="more">
          <button type="button" className="button" onClick={() => setLimit(limit + CHARTS_AT_ONCE)}>
            Show {Math.min(CHARTS_AT_ONCE, names.length - limit)} more of {names.length}
          </button>
        </p>
      )}
      {!max && <ValuesTable series={series} names={names} />}
    </>
  );
}

/** What most people look at comes first, measurements of the machine last. */
function byName(a: string, b: string): number {
  const rank = (name: string) =>
    /^(system|sys|machine|gpu|cpu)[./]/.test(name)
      ? 3
      : /loss/i.test(name)
        ? 0
        : /acc|score|reward|perplexity/i.test(name)
          ? 1
          : 2;
  return rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true });
}

function useSeries(jobId: string, ended: boolean): { series: Series | null; problem: Problem | null } {
  const [state, setState] = useState<{ series: Series | null; problem: Problem | null }>({
    series: null,
    problem: null,
  });
  const live = useRef<{ whole: () => void } | null>(null);
  useEffect(() => {
    const reader = new SeriesReader(jobId);
    let gone = false;
    let whole = true;
    const reading = coalesced(1_000, async () => {
      if (gone) return;
      const all = whole;
      whole = false;
      try {
        await reader.read(all);
        if (!gone) setState({ series: reader.series, problem: null });
      } catch (error) {
        whole = whole || all;
        if (!gone) setState((before) => ({ ...before, problem: asProblem(error) }));
      }
    });
    const readAll = () => {
      whole = true;
      reading.mark();
    };
    live.current = { whole: readAll };
    reading.mark();
    const stop = onHint((hint) => {
      if (hint.type === "opened") readAll();
      else if (hint.type === "metrics.advanced" && hint.job_id === jobId) reading.mark();
    });
    return () => {
      gone = true;
      stop();
    };
  }, [jobId]);
  useEffect(() => {
    if (ended) live.current?.whole();
  }, [ended]);
  return state;
}

function MetricChart({ name, points, syncKey }: { name: string; points: MetricPoint[]; syncKey: string }) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | null>(null);
  const latest = useRef(points);
  const [hover, setHover] = useState<string | null>(null);
  useEffect(() => {
    latest.current = points;
    chart.current?.update(points);
  }, [points]);
  useEffect(() => {
    if (!box.current) return;
    const made = drawChart(box.current, syncKey, latest.current, setHover);
    chart.current = made;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", made.recolour);
    return () => {
      dark.removeEventListener("change", made.recolour);
      made.close();
      chart.current = null;
    };
  }, [syncKey]);
  const sum = summary(points);
  const last = sum === null ? DASH : valueText(sum.last.value);
  const spoken =
    sum === null
      ? name
      : `${name}: last ${last} at step ${sum.last.step}, least ${numberOr(sum.min)}, most ${numberOr(sum.max)}`;
  return (
    <figure className="chart">
      <figcaption>
        <bdi className="chart-name" title={name}>
          {name}
        </bdi>
        <span className="chart-value num">{hover ?? last}</span>
      </figcaption>
      <div ref={box} className="chart-box" role="img" aria-label={spoken} />
      {sum !== null && sum.odd > 0 && (
        <p className="chart-note">{plural(sum.odd, "value")} not finite: gaps in the line</p>
      )}
    </figure>
  );
}

const valueText = (value: MetricPoint["value"]) => (typeof value === "number" ? number(value) : value);
const numberOr = (value: number | null) => (value === null ? DASH : number(value));

function ValuesTable({ series, names }: { series: Series; names: string[] }) {
  return (
    <details className="panel values">
      <summary>Values as a table</summary>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Last values of the metrics">
        <table className="small-table">
          <thead>
            <tr>
              <th scope="col">Metric</th>
              {["Last", "At step", "Least", "Most", "Points"].map((title) => (
                <th key={title} scope="col" className="right">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((name) => {
              const sum = summary(series[name] ?? []);
              if (!sum) return null;
              return (
                <tr key={name}>
                  <th scope="row">
                    <bdi>{name}</bdi>
                  </th>
                  <td className="right num">{valueText(sum.last.value)}</td>
                  <td className="right num">{number(sum.last.step)}</td>
                  <td className="right num">{numberOr(sum.min)}</td>
                  <td className="right num">{numberOr(sum.max)}</td>
                  <td className="right num">{number(sum.points)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </details>
  );
}
