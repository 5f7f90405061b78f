// One chart of the Metrics tab: reads the points of its runs and hands them to `chart.ts`, which draws.

import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { DASH, metricValue, number, plural } from "../../format.ts";
import { save } from "../../parts/save.ts";
import { onTheme } from "../../prefs.ts";
import { Chart, type Hover, type Line } from "./chart.ts";
import { summary, type Summary } from "./columns.ts";
import { csvOf, curvesOf, type Curve, type XAxis } from "./curves.ts";
import type { MetricsSet } from "./reader.ts";
import { isSystem, type Member, type ShownChart } from "./shown-chart.ts";

const LINES_MAX = 24;

export interface ShownRun {
  id: string;
  label: string;
  startMs: number;
}

export interface ChartSettings {
  /** `step`, `time`, or the name of a metric. */
  x: string;
  smooth: number;
  logX: boolean;
  logY: boolean;
  range: readonly [number, number] | null;
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
    const made = new Chart(box.current, { syncKey: x, hover: setHover, zoom: (range) => zoom.current(range) });
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
    () => linesOf(set, runs, members, x, versions),
    // The columns grow in place: their versions show changes.
    [set, runs, members, x, versions],
  );
  const shown = useMemo(() => lines.slice(0, LINES_MAX), [lines]);
  const { smooth, logX, logY, range } = settings;
  useEffect(() => {
    const timeAxis = x === "time";
    chart?.show({
      name,
      lines: shown,
      smooth,
      logX,
      logY,
      range: x === settings.x ? range : null,
      xWords: timeAxis ? "" : x,
      timeAxis,
    });
  }, [chart, name, shown, smooth, logX, logY, range, x, settings.x]);

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
  // When runs are compared, the numbers are those of the first run that logged this metric.
  const told = useMemo(
    () =>
      columns.flatMap((each) => (each.columns?.value.length ? [{ ...each.columns, sum: summary(each.columns) }] : [])),
    [columns],
  );
  const sum = told[0]?.sum ?? null;
  const value = (n: number) => metricValue(name, n);
  const spoken =
    sum === null
      ? title
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
              : members.length > 1
                ? between(
                    told.map((each) => each.sum?.last ?? Number.NaN),
                    value,
                  )
                : value(sum.last)}
        </span>
      </figcaption>
      <div ref={box} className={sum === null ? "chart-box chart-unread" : "chart-box"} role="img" aria-label={spoken} />
      {shown.length > (runs.length > 1 ? 0 : 1) && <Legend lines={shown} hover={hover} />}
      <Notes {...factsOf(told)} more={lines.length - shown.length} logY={logY} />
    </figure>
  );
}

/** The least and the greatest of several lines' last values. */
function between(values: readonly number[], text: (value: number) => string): string {
  const known = values.filter((each) => Number.isFinite(each));
  if (known.length === 0) return DASH;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return least === most ? text(least) : `${text(least)} to ${text(most)}`;
}

function Legend({ lines, hover }: { lines: readonly Line[]; hover: Hover | null }) {
  return (
    <ul className="plain legend">
      {lines.map((line, i) => (
        <li key={i} className={line.earlier ? "legend-earlier" : ""}>
          <span className={`swatch swatch-${line.colour % 8}`} aria-hidden="true" />
          <bdi>{line.label}</bdi>
          {hover && (
            <span className="num legend-value">{hover.values.find((value) => value.line === i)?.text ?? DASH}</span>
          )}
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

/** `versions` makes React notice that the columns have grown. */
function linesOf(
  set: MetricsSet,
  runs: readonly ShownRun[],
  members: readonly Member[],
  x: string,
  versions: string,
): readonly Line[] {
  if (versions === "") return [];
  const found: { run: number; member: Member; curve: Curve }[] = [];
  for (const member of members) {
    for (const [run, reader] of set.readers.entries()) {
      const columns = reader.columns(member.name);
      const other = x === "step" || x === "time" ? null : reader.columns(x);
      if (!columns) continue;
      const axis: XAxis = x === "step" || x === "time" ? x : { metric: other ?? columns };
      for (const curve of curvesOf(columns, axis, runs[run]?.startMs ?? 0)) found.push({ run, member, curve });
    }
  }
  const ranks = new Set(found.map(({ curve }) => curve.rank));
  const groups = [...new Set(found.map(groupOf))];
  // If each run is one line, its colour is the same in every chart.
  const areMany = ranks.size > 1 || members.length > 1;
  return found.map((each) => {
    const { run, member, curve } = each;
    const words = [
      runs.length > 1 ? nameAmong(runs, run) : null,
      ranks.size > 1 ? `${isSystem(member.name) ? "node" : "rank"} ${curve.rank}` : null,
      member.label,
      curve.attempt < curve.attempts ? `attempt ${curve.attempt}, repeated later` : null,
    ].filter((word) => word !== null);
    return {
      label: words.join(" · ") || member.name,
      colour: areMany ? groups.indexOf(groupOf(each)) : run,
      earlier: curve.attempt < curve.attempts,
      curve,
    };
  });
}

/** Lines of one colour: those of one run, rank and metric. */
const groupOf = ({ run, member, curve }: { run: number; member: Member; curve: Curve }): string =>
  `${run}/${curve.rank}/${member.name}`;

/** Reruns keep their label: then the id distinguishes them. */
function nameAmong(runs: readonly ShownRun[], run: number): string {
  const { id, label } = runs[run] ?? { id: "", label: "" };
  return runs.filter((each) => each.label === label).length > 1 && label !== id ? `${label} (${id.slice(-4)})` : label;
}

const fileName = (name: string): string => name.replace(/[^\w.-]+/g, "_").slice(0, 80) || "metric";
