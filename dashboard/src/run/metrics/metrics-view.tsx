// The Metrics tab of a run, and the first charts for its overview. The address holds every choice.

import { useEffect, useMemo, useState } from "react";
import { ownValue } from "../../../../src/domain/own-value.ts";
import type { JobRecord } from "../../../../src/schemas/job.ts";
import { DASH, metricValue, number } from "../../format.ts";
import { MoreButton } from "../../parts/more-button.tsx";
import { Link, runPath, usePlace } from "../../router.tsx";
import { isActive, titleOf } from "../../status.ts";
import { useData } from "../../store.ts";
import { loadJob } from "../../sync.ts";
import { COMPARED_MAX } from "../../runs/compare-path.ts";
import { setParams } from "../place.ts";
import { summary } from "./columns.ts";
import { Differences } from "./differences.tsx";
import { ChartActions, FullChart, keyOfChart, pinnedCharts } from "./full-chart.tsx";
import type { ShownRun } from "./lines.ts";
import { MetricChart, type ChartSettings } from "./metric-chart.tsx";
import { MetricsTools } from "./metrics-tools.tsx";
import type { MetricsSet } from "./reader.ts";
import { chartsOf, isSystem, titleOfMetric } from "./shown-chart.ts";
import { useMetrics, type KnownMetrics } from "./use-metrics.ts";

const CHARTS_AT_ONCE = 24;
/** More charts of one group are split by the next part of their names. */
const GROUP_MAX = 12;
/** Maximum of metrics in one chart. */
const TOGETHER_MAX = 12;
const PLAIN: ChartSettings = { x: "step", smooth: 0, logX: false, logY: false, range: null, yRange: null, ranks: null };

/**
 * Groups names by their part before the first slash or dot; a single name makes no group, and the machine's own come
 * last.
 */
function groupsOf(names: readonly string[]): [string, string[]][] {
  const prefixOf = (name: string) => /^([\w -]{1,40})[/.]./.exec(name)?.[1] ?? "";
  const sizes = Map.groupBy(names, prefixOf);
  const groups = Map.groupBy(names, (name) => ((sizes.get(prefixOf(name))?.length ?? 0) > 1 ? prefixOf(name) : ""));
  return [...groups].sort(([, a], [, b]) => Number(isSystem(a[0] ?? "")) - Number(isSystem(b[0] ?? "")));
}

/** The parts of a large group by what follows its prefix; null if that does not part it. */
function partsOf(names: readonly string[], prefix: string): [string, string[]][] | null {
  if (prefix === "" || isSystem(`${prefix}/`)) return null;
  const partOf = (name: string) => /^[\w -]{1,40}/.exec(name.slice(prefix.length + 1))?.[0] ?? "";
  const parts = Map.groupBy(names, (name) => {
    const part = partOf(name);
    return part !== "" && /[/.]/.test(name.charAt(prefix.length + 1 + part.length)) ? `${prefix}/${part}` : prefix;
  });
  const own = parts.get(prefix) ?? [];
  // Names that end here stay charts of a part that is not split further.
  return parts.size < 2 || own.length > GROUP_MAX ? null : [...parts];
}

const runOf = (job: JobRecord): ShownRun => ({
  id: job.id,
  label: titleOf(job),
  startMs: Date.parse(job.started_at ?? job.created_at),
});

const NONE = (
  <code>
    svc.log({"{"}"loss": 0.1{"}"}, step=1)
  </code>
);
const noMetric = (ended: boolean) => (
  <p className="quiet pad">
    {ended ? "The run logged no metric. " : "No metric yet. "}
    {NONE} charts one here.
  </p>
);
/** Machine usage does not count as a metric of the script. */
const hasOwn = (names: readonly string[]): boolean => names.some((name) => !isSystem(name));

/** The first few charts, for the overview. */
export function MetricsPeek({ job, max, metrics }: { job: JobRecord; max: number; metrics: KnownMetrics }) {
  const { set, names, loading, problem } = metrics;
  const charts = useMemo(() => chartsOf(names), [names]);
  const told = JSON.stringify([runOf(job)]);
  const runs = useMemo(() => JSON.parse(told) as ShownRun[], [told]);
  if (problem && loading) return <p className="bad pad">{problem.detail}</p>;
  if (loading) return <p className="quiet pad">Reading the metrics…</p>;
  if (!hasOwn(names))
    return (
      <>
        {noMetric(!isActive(job))}
        {names.length > 0 && (
          <p>
            <Link href={runPath(job.id, "metrics")} keepScroll>
              Machine usage
            </Link>
          </p>
        )}
      </>
    );
  return (
    <div className="charts charts-narrow">
      {charts.slice(0, max).map((chart) => (
        <MetricChart
          key={chart.name}
          chart={chart}
          set={set}
          runs={runs}
          settings={PLAIN}
          onZoom={() => undefined}
          bare
        />
      ))}
    </div>
  );
}

/** `A~B`, ascending; null for anything else. */
function rangeOf(text: string | null): [number, number] | null {
  const [from, to] = (text ?? "").split("~").map((each) => (each.trim() === "" ? Number.NaN : Number(each)));
  return from !== undefined && to !== undefined && Number.isFinite(from) && Number.isFinite(to) && to > from
    ? [from, to]
    : null;
}

function settingsOf(query: URLSearchParams): ChartSettings {
  const ranks = query.get("ranks");
  return {
    x: query.get("x") ?? "step",
    smooth: Math.min(0.999, Math.max(0, Number(query.get("smooth")) || 0)),
    logX: query.get("logx") === "1",
    logY: query.get("logy") === "1",
    range: rangeOf(query.get("zoom")),
    yRange: rangeOf(query.get("y")),
    ranks: ranks === "each" || ranks === "band" ? ranks : null,
  };
}

const zoomTo = (range: [number, number] | null) =>
  setParams({ zoom: range ? range.map((value) => Number(value.toPrecision(8))).join("~") : null });

/** Every metric of a run, together with those of other runs in the address. */
export function MetricsView({ job }: { job: JobRecord }) {
  const { query } = usePlace();
  const search = query.toString();
  const settings = useMemo(() => settingsOf(new URLSearchParams(search)), [search]);
  const withIds = query.get("with") ?? "";
  const others = useMemo(
    () => [...new Set(withIds.split(",").filter((id) => id !== "" && id !== job.id))].slice(0, COMPARED_MAX - 1),
    [withIds, job.id],
  );
  useEffect(() => {
    for (const id of others) void loadJob(id);
  }, [others]);
  const jobs = useData((data) => data.jobs);
  const ids = useMemo(() => [job.id, ...others], [job.id, others]);
  // Compared as text, so that charts are redrawn when the runs' facts change, and not with each second of their cost.
  const told = JSON.stringify(
    ids.map((id) => {
      const known = id === job.id ? job : ownValue(jobs, id);
      return known ? runOf(known) : { id, label: id, startMs: 0 };
    }),
  );
  const runs = useMemo(() => JSON.parse(told) as ShownRun[], [told]);
  const { set, names, loading, problem } = useMetrics(ids, !isActive(job));
  const text = query.get("find") ?? "";
  const found = useMemo(
    () =>
      text === ""
        ? names
        : names.filter((name) => `${name} ${titleOfMetric(name)}`.toLowerCase().includes(text.toLowerCase())),
    [names, text],
  );
  const groups = useMemo(() => groupsOf(found), [found]);
  const shownFull = query.get("full");
  const full = useMemo(() => (shownFull === null ? null : shownFull.split("\n").slice(0, TOGETHER_MAX)), [shownFull]);
  const pins = query.getAll("pin").join("\r");
  const pinned = useMemo(() => pinnedCharts(pins.split("\r").filter(Boolean), names), [pins, names]);
  if (problem && loading) return <p className="bad pad">{problem.detail}</p>;
  if (loading) return <p className="quiet pad">Reading the metrics…</p>;
  if (names.length === 0 && others.length === 0) return noMetric(!isActive(job));
  return (
    <div className="metrics">
      <MetricsTools job={job} names={names} settings={settings} runs={runs} find={text} set={set} />
      <Differences
        jobs={ids.flatMap((id) => (id === job.id ? job : (ownValue(jobs, id) ?? [])))}
        set={set}
        names={names}
      />
      {others.length === 0 && !hasOwn(names) && noMetric(!isActive(job))}
      {found.length === 0 && <p className="quiet pad">No metric name contains this text.</p>}
      {full !== null && (
        <FullChart names={full} all={names} set={set} runs={runs} settings={settings} onZoom={zoomTo} />
      )}
      {full === null && pinned.length > 0 && (
        <details className="group" open>
          <summary>
            Pinned <span className="quiet num">{pinned.length}</span>
          </summary>
          <div className="charts">
            {pinned.map((chart) => (
              <MetricChart
                key={keyOfChart(chart)}
                chart={chart}
                set={set}
                runs={runs}
                settings={settings}
                onZoom={zoomTo}
                actions={<ChartActions chart={chart} />}
              />
            ))}
          </div>
        </details>
      )}
      {full === null &&
        groups.map(([prefix, members]) => (
          <Group key={prefix} prefix={prefix} names={members} set={set} runs={runs} settings={settings} />
        ))}
      <ValuesTable set={set} names={found} runs={runs} />
    </div>
  );
}

function Group(props: {
  prefix: string;
  names: readonly string[];
  set: MetricsSet;
  runs: readonly ShownRun[];
  settings: ChartSettings;
}) {
  const { prefix, names, set, runs, settings } = props;
  const [limit, setLimit] = useState(CHARTS_AT_ONCE);
  const charts = useMemo(() => chartsOf(names), [names]);
  const parts = useMemo(() => (charts.length > GROUP_MAX ? partsOf(names, prefix) : null), [charts, names, prefix]);
  const title = prefix || "metrics";
  if (parts !== null)
    return (
      <details className="group" open>
        <summary>
          <bdi>{title}</bdi> <span className="quiet num">{charts.length}</span>
        </summary>
        <div className="group-parts">
          {parts.map(([part, members]) => (
            <Group key={part} prefix={part} names={members} set={set} runs={runs} settings={settings} />
          ))}
        </div>
      </details>
    );
  return (
    <details className="group" open>
      <summary>
        <bdi>{title}</bdi> <span className="quiet num">{charts.length}</span>
      </summary>
      <div className="charts">
        {charts.slice(0, limit).map((chart) => (
          <MetricChart
            key={chart.name}
            chart={chart}
            set={set}
            runs={runs}
            settings={settings}
            onZoom={zoomTo}
            actions={<ChartActions chart={chart} />}
          />
        ))}
      </div>
      <MoreButton
        all={charts.length}
        shown={limit}
        atOnce={CHARTS_AT_ONCE}
        word={`more of ${number(charts.length)}`}
        onMore={setLimit}
      />
    </details>
  );
}

const ROWS_MAX = 200;

/** For people who do not see charts, or who want numbers. */
function ValuesTable(props: { set: MetricsSet; names: readonly string[]; runs: readonly ShownRun[] }) {
  const { set, names, runs } = props;
  const rows = names.slice(0, ROWS_MAX).flatMap((name) =>
    set.readers.flatMap((reader, i) => {
      const columns = reader.columns(name);
      const sum = columns ? summary(columns) : null;
      return sum ? [{ name, run: runs[i]?.label ?? reader.jobId, id: reader.jobId, sum }] : [];
    }),
  );
  return (
    <details className="panel values">
      <summary>Values as a table</summary>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Last values of the metrics">
        <table className="small-table">
          <thead>
            <tr>
              <th scope="col">Metric</th>
              {runs.length > 1 && <th scope="col">Run</th>}
              {["Last", "At step", "Least", "Most", "Points"].map((title) => (
                <th key={title} scope="col" className="right">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ name, run, id, sum }) => (
              <tr key={`${name} ${id}`}>
                <th scope="row">
                  <bdi>{name}</bdi>
                </th>
                {runs.length > 1 && (
                  <td>
                    <bdi>{run}</bdi>
                  </td>
                )}
                <td className="right num">{metricValue(name, sum.last)}</td>
                <td className="right num">{number(sum.lastStep)}</td>
                <td className="right num">{sum.min === null ? DASH : metricValue(name, sum.min)}</td>
                <td className="right num">{sum.max === null ? DASH : metricValue(name, sum.max)}</td>
                <td className="right num">{number(sum.points)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
