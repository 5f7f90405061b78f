// One chart over the whole width, alone or with several metrics, with a range of values; and the charts that are pinned on top.
// All of it is in the address.

import { useState, type FormEvent } from "react";
import { navigate } from "../../router.tsx";
import { setParams } from "../place.ts";
import type { ShownRun } from "./lines.ts";
import { MetricChart, type ChartSettings } from "./metric-chart.tsx";
import type { MetricsSet } from "./reader.ts";
import { chartsOf, titleOfMetric, type ShownChart } from "./shown-chart.ts";

const FULL_PX = { min: 260, share: 0.58 };

/** The metrics of a chart, as the address names them. */
export const keyOfChart = ({ members }: ShownChart): string => members.map(({ name }) => name).join("\n");

function togetherOf(names: readonly string[]): ShownChart {
  const [only, ...others] = chartsOf(names);
  if (only && others.length === 0) return only;
  return {
    name: names[0] ?? "",
    title: names.map(titleOfMetric).join(", "),
    members: names.map((name) => ({ name, label: titleOfMetric(name) })),
  };
}

/** The pinned charts; a metric that the run does not have is left out. */
export function pinnedCharts(pins: readonly string[], all: readonly string[]): ShownChart[] {
  const known = new Set(all);
  return pins.flatMap((pin) => {
    const names = pin.split("\n").filter((name) => known.has(name));
    return names.length > 0 ? [togetherOf(names)] : [];
  });
}

const isPinned = (key: string): boolean => new URLSearchParams(location.search).getAll("pin").includes(key);

function pin(key: string, on: boolean): void {
  const query = new URLSearchParams(location.search);
  const others = query.getAll("pin").filter((each) => each !== key);
  query.delete("pin");
  for (const each of on ? [...others, key] : others) query.append("pin", each);
  navigate(`${location.pathname}?${query.toString()}`, { replace: true, keepScroll: true });
}

export function ChartActions({ chart }: { chart: ShownChart }) {
  const key = keyOfChart(chart);
  const pinned = isPinned(key);
  return (
    <>
      <button
        type="button"
        className="chart-save"
        aria-label={`Open ${chart.title} over the whole width`}
        onClick={() => setParams({ full: key }, { push: true })}
      >
        Open
      </button>
      <button
        type="button"
        className="chart-save"
        aria-pressed={pinned}
        aria-label={`${pinned ? "Unpin" : "Pin"} ${chart.title}`}
        onClick={() => pin(key, !pinned)}
      >
        {pinned ? "Unpin" : "Pin"}
      </button>
    </>
  );
}

export function FullChart(props: {
  names: readonly string[];
  all: readonly string[];
  set: MetricsSet;
  runs: readonly ShownRun[];
  settings: ChartSettings;
  onZoom: (range: [number, number] | null) => void;
}) {
  const { names, all, set, runs, settings, onZoom } = props;
  const chart = togetherOf(names);
  const show = (next: readonly string[]) => setParams({ full: next.length > 0 ? next.join("\n") : null });
  return (
    <section className="full-chart" aria-label={chart.title}>
      <div className="metrics-tools full-tools">
        <button type="button" className="button small" onClick={() => setParams({ full: null, y: null })}>
          All charts
        </button>
        <select
          aria-label="Add a metric to this chart"
          value=""
          onChange={(event) => event.target.value && show([...names, event.target.value])}
        >
          <option value="">Add a metric…</option>
          {all
            .filter((name) => !names.includes(name))
            .map((name) => (
              <option key={name} value={name}>
                {titleOfMetric(name)}
              </option>
            ))}
        </select>
        {names.length > 1 &&
          names.map((name) => (
            <button
              key={name}
              type="button"
              className="button small"
              aria-label={`Remove ${titleOfMetric(name)} from this chart`}
              onClick={() => show(names.filter((each) => each !== name))}
            >
              <bdi>{titleOfMetric(name)}</bdi> ×
            </button>
          ))}
        <YRange key={String(settings.yRange)} range={settings.yRange} />
      </div>
      <MetricChart
        key={keyOfChart(chart)}
        chart={chart}
        set={set}
        runs={runs}
        settings={settings}
        onZoom={onZoom}
        actions={<ChartActions chart={chart} />}
        heightPx={Math.max(FULL_PX.min, Math.round(innerHeight * FULL_PX.share))}
      />
    </section>
  );
}

/** Two bounds of the values; both empty means those of the points. */
function YRange({ range }: { range: ChartSettings["yRange"] }) {
  const [low, setLow] = useState(range === null ? "" : String(range[0]));
  const [high, setHigh] = useState(range === null ? "" : String(range[1]));
  const isGood = low.trim() !== "" && high.trim() !== "" && Number(high) > Number(low);
  const apply = (event: FormEvent) => {
    event.preventDefault();
    setParams({ y: isGood ? `${Number(low)}~${Number(high)}` : null });
  };
  return (
    <form className="metrics-choice y-range" onSubmit={apply}>
      <span className="quiet">Values from</span>
      <input
        aria-label="Least value"
        inputMode="decimal"
        value={low}
        onChange={(event) => setLow(event.target.value)}
      />
      <span className="quiet">to</span>
      <input
        aria-label="Greatest value"
        inputMode="decimal"
        value={high}
        onChange={(event) => setHigh(event.target.value)}
      />
      <button type="submit" className="button small">
        {isGood || range === null ? "Set" : "Reset"}
      </button>
    </form>
  );
}
