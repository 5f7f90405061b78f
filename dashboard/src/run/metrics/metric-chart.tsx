// One chart of the Metrics tab: reads the points of its runs and hands them to `chart.ts`, which draws.

import { useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode } from "react";
import { DASH, metricValue, number, plural } from "../../format.ts";
import { save } from "../../parts/save.ts";
import { onTheme } from "../../prefs.ts";
import { Chart, type Hover, type Line } from "./chart.ts";
import { navigate } from "../../router.tsx";
import { aroundPath } from "../moment.ts";
import { summary, type Columns, type Summary } from "./columns.ts";
import { csvOf } from "./curves.ts";
import { linesOf, type RankLook, type ShownRun } from "./lines.ts";
import type { MetricsSet } from "./reader.ts";
import { isSystem, type ShownChart } from "./shown-chart.ts";

const LINES_MAX = 24;

export interface ChartSettings {
  /** `step`, `time`, or the name of a metric. */
  x: string;
  smooth: number;
  logX: boolean;
  logY: boolean;
  range: readonly [number, number] | null;
  /** The range of values; null for that of the points. */
  yRange: readonly [number, number] | null;
  ranks: RankLook;
}

/** True once the element has been near the view. */
function useSeen(box: React.RefObject<HTMLElement | null>): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (!element || seen) return;
    const observer = new IntersectionObserver(
      (entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true),
      { rootMargin: "300px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [box, seen]);
  return seen;
}

export function MetricChart(props: {
  chart: ShownChart;
  set: MetricsSet;
  runs: readonly ShownRun[];
  settings: ChartSettings;
  onZoom: (range: [number, number] | null) => void;
  bare?: boolean;
  /** Absent where a chart can be neither opened nor pinned. */
  actions?: ReactNode;
  heightPx?: number;
}) {
  const { set, runs, settings, onZoom } = props;
  const { name, title, members } = props.chart;
  const box = useRef<HTMLDivElement>(null);
  const figure = useRef<HTMLElement>(null);
  const seen = useSeen(figure);
  const [chart, setChart] = useState<Chart | null>(null);
  const [hover, setHover] = useState<Hover | null>(null);
  // Machine usage has no training step.
  const x = settings.x === "step" && isSystem(name) ? "time" : settings.x;
  const zoom = useRef(onZoom);
  useEffect(() => void (zoom.current = onZoom), [onZoom]);
  const picked = useRef<(place: number) => void>(() => undefined);
  useEffect(() => {
    picked.current = (place) => {
      const [reader] = set.readers;
      const at = reader ? momentOf(reader.columns(name), x, place, runs[0]?.startMs ?? 0) : null;
      if (reader && at !== null) navigate(aroundPath(reader.jobId, at));
    };
  });

  useEffect(() => {
    if (!seen) return;
    const own = members.map((member) => member.name);
    const names = x === "step" || x === "time" || own.includes(x) ? own : [...own, x];
    const stops = set.readers.flatMap((reader) => names.map((each) => reader.want(each)));
    return () => {
      for (const stop of stops) stop();
    };
  }, [seen, set, members, x]);
  useEffect(() => {
    if (!box.current || !seen) return;
    const made = new Chart(box.current, {
      syncKey: x,
      hover: setHover,
      zoom: (range) => zoom.current(range),
      pick: (place) => picked.current(place),
    });
    setChart(made);
    const stop = onTheme(() => made.recolour());
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => made.recolour();
    dark.addEventListener("change", changed);
    return () => {
      stop();
      dark.removeEventListener("change", changed);
      made.close();
    };
  }, [seen, x]);

  // Subscribed here instead of reading what the parent drew: React may call this function again for an unchanged state,
  // keep a result from newer columns, and never run the effect that draws them.
  const versions = useSyncExternalStore(set.subscribe, () =>
    set.readers
      .flatMap((reader) => [...members.map((member) => reader.version(member.name)), reader.version(x)])
      .join("/"),
  );
  const lines = useMemo(
    () => linesOf(set, runs, { members, x, ranks: settings.ranks, versions }),
    // The columns grow in place: their versions show changes.
    [set, runs, members, x, settings.ranks, versions],
  );
  const shown = useMemo(() => lines.slice(0, LINES_MAX), [lines]);
  const { smooth, logX, logY, range, yRange } = settings;
  const { heightPx = 190 } = props;
  useEffect(() => {
    const timeAxis = x === "time";
    chart?.show({
      name,
      lines: shown,
      smooth,
      logX,
      logY,
      yRange,
      heightPx,
      range: x === settings.x ? range : null,
      xWords: timeAxis ? "" : x,
      timeAxis,
    });
  }, [chart, name, shown, smooth, logX, logY, range, yRange, heightPx, x, settings.x]);

  const columns = useMemo(
    () =>
      members.flatMap((member) =>
        set.readers.map((reader, run) => ({
          member,
          run,
          columns: versions === "" ? null : reader.columns(member.name),
        })),
      ),
    [set, members, versions],
  );
  const told = useMemo(
    () =>
      columns.flatMap((each) => (each.columns?.value.length ? [{ ...each.columns, sum: summary(each.columns) }] : [])),
    [columns],
  );
  const sum = told[0]?.sum ?? null;
  const value = (n: number) => metricValue(name, n);
  // Several runs have no common value: each line has its own in the legend.
  const isCompared = runs.length > 1;
  const lasts = useMemo(() => shown.map((line) => lastOf(line, name)), [shown, name]);
  const spoken =
    sum === null
      ? title
      : isCompared
        ? `${title}: last ${shown.map((line, i) => `${line.label} ${lasts[i]}`).join(", ")}`
        : `${title}: last ${value(sum.last)} at step ${number(sum.lastStep)}, minimum ${sum.min === null ? DASH : value(sum.min)}, maximum ${sum.max === null ? DASH : value(sum.max)}`;
  const table = () =>
    csvOf(
      name,
      columns.flatMap(({ member, run, columns: known }) => {
        const label = [runs[run]?.id ?? "", member.label].filter((word) => word !== null).join(" ");
        return known ? [{ label, columns: known }] : [];
      }),
    );
  return (
    <figure ref={figure} className={props.bare ? "chart chart-bare" : "chart"}>
      <figcaption>
        <bdi className="chart-name" title={members.map((member) => member.name).join(", ")}>
          {title}
        </bdi>
        {!props.bare && (
          <span className="chart-actions">
            {props.actions}
            <button
              type="button"
              className="chart-save"
              onClick={() => save(new Blob([table()], { type: "text/csv" }), `${fileName(name)}.csv`)}
              aria-label={`Save ${title} as CSV`}
            >
              CSV
            </button>
            <button
              type="button"
              className="chart-save"
              onClick={() => void chart?.picture().then((blob) => blob && save(blob, `${fileName(name)}.png`))}
              aria-label={`Save ${title} as PNG`}
            >
              PNG
            </button>
          </span>
        )}
        <span className="chart-value num">
          {hover
            ? hover.values.length === 1
              ? `${hover.x} · ${hover.values[0]?.text}`
              : hover.x
            : sum === null
              ? DASH
              : members.length > 1 && !isCompared
                ? between(
                    told.map((each) => each.sum?.last ?? Number.NaN),
                    value,
                  )
                : isCompared
                  ? ""
                  : value(sum.last)}
        </span>
      </figcaption>
      <div
        ref={box}
        className={sum === null ? "chart-box chart-unread" : "chart-box"}
        style={{ minHeight: heightPx }}
        role="img"
        aria-label={spoken}
      />
      {(shown.length > (runs.length > 1 ? 0 : 1) || shown[0]?.curve.range !== undefined) && (
        <Legend lines={shown} lasts={lasts} hover={hover} />
      )}
      <Notes {...factsOf(told)} more={lines.length - shown.length} logY={logY} />
    </figure>
  );
}

/** When the point at a place of the x axis was logged; null if its time is unknown. */
function momentOf(columns: Columns | null, x: string, place: number, startMs: number): number | null {
  if (x === "time") return startMs + place * 1_000;
  // Another metric as the axis has no time of its own.
  const i = x === "step" ? (columns?.step.findLastIndex((step) => step === place) ?? -1) : -1;
  return i < 0 ? null : (columns?.time[i] ?? 0) * 1_000;
}

/** The least and the greatest of several lines' last values. */
function between(values: readonly number[], text: (value: number) => string): string {
  const known = values.filter((each) => Number.isFinite(each));
  if (known.length === 0) return DASH;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return least === most ? text(least) : `${text(least)} to ${text(most)}`;
}

/** The last value of a line that is a number. */
function lastOf({ curve }: Line, name: string): string {
  const last = curve.y.findLast((each) => Number.isFinite(each));
  return last === undefined ? DASH : metricValue(name, last);
}

/** Each line with its last value, or with its value at the place of the pointer. */
function Legend(props: { lines: readonly Line[]; lasts: readonly string[]; hover: Hover | null }) {
  const { lines, lasts, hover } = props;
  return (
    <ul className="plain legend">
      {lines.map((line, i) => (
        <li key={i} className={line.earlier ? "legend-earlier" : ""}>
          <span className={`swatch swatch-${line.colour % 8}`} aria-hidden="true" />
          <bdi title={line.label}>{line.label}</bdi>
          <span className="num legend-value">
            {hover === null ? lasts[i] : (hover.values.find((value) => value.line === i)?.text ?? DASH)}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The facts that apply to all drawn lines. */
function factsOf(told: readonly { thinned: boolean; sum: Summary | null }[]) {
  const least = told.flatMap(({ sum }) => sum?.min ?? []);
  return {
    odd: told.reduce((count, { sum }) => count + (sum?.odd ?? 0), 0),
    min: least.length === 0 ? null : Math.min(...least),
    thinned: told.some(({ thinned }) => thinned),
  };
}

function Notes(props: { thinned: boolean; odd: number; more: number; logY: boolean; min: number | null }) {
  const notes = [
    props.odd > 0 ? `${plural(props.odd, "value")} not finite, marked at the lower edge` : null,
    props.more > 0 ? `${plural(props.more, "more line")} not drawn` : null,
    props.logY && props.min !== null && props.min <= 0 ? "values of 0 and below cannot be shown on a log scale" : null,
    props.thinned ? "downsampled: extremes are kept, smoothing uses the points shown" : null,
  ].filter((note) => note !== null);
  return notes.length === 0 ? null : <p className="chart-note">{notes.join("; ")}</p>;
}

const fileName = (name: string): string => name.replace(/[^\w.-]+/g, "_").slice(0, 80) || "metric";
