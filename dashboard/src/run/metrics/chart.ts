// A chart with some lines. Drawn outside of React, a little per frame: data that changes many times a second must not
// block the page.

import uPlot from "uplot";
import { duration, metricValue, number } from "../../format.ts";
import { stepMarks, timeMarks, valueMarks } from "./axis-words.ts";
import { isShare } from "./shown-chart.ts";
import { drawnPoints, oddPlaces, smoothed, type Curve } from "./curves.ts";

export interface Line {
  label: string;
  /** The index of the series colour. */
  colour: number;
  /** Belongs to an earlier attempt: drawn faint and dashed. */
  earlier: boolean;
  /** Index of the dashes; 0 for none. */
  dash: number;
  curve: Curve;
}

export interface ChartLook {
  /** The metric's name, which shows whether it counts bytes. */
  name: string;
  lines: readonly Line[];
  smooth: number;
  logX: boolean;
  logY: boolean;
  /** The zoomed range; null for everything. */
  range: readonly [number, number] | null;
  yRange: readonly [number, number] | null;
  heightPx: number;
  xWords: string;
  timeAxis: boolean;
}

export interface Hover {
  x: string;
  /** `line`: the index of the chart's line. */
  values: { line: number; colour: number; text: string }[];
}

/** The dashes of lines that would hide each other where they are equal. */
const DASHES = [[], [7, 4], [2, 4], [11, 4, 2, 4]];
/** Seconds between two marks of a time axis. */
const TIME_STEPS = [0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30].concat(
  [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 7_200, 14_400, 43_200, 144_000, 1_440_000].map(
    (min) => min * 60,
  ),
);
const COLOURS = 8;
const CLICK_PX = 4;
const FRAME_BUDGET_MS = 5;

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const waiting = new Set<() => void>();
let frame = 0;
function turn(): void {
  const start = performance.now();
  try {
    for (const task of waiting) {
      waiting.delete(task);
      task();
      if (performance.now() - start > FRAME_BUDGET_MS) break;
    }
  } finally {
    // A failed task must not keep the others from being drawn.
    frame = waiting.size > 0 ? requestAnimationFrame(turn) : 0;
  }
}
/** Runs a task in one of the next frames; a task that is already waiting runs once. */
function soon(task: () => void): void {
  waiting.add(task);
  if (frame === 0) frame = requestAnimationFrame(turn);
}

export class Chart {
  readonly #box: HTMLElement;
  readonly #syncKey: string;
  readonly #hover: (hover: Hover | null) => void;
  readonly #zoom: (range: [number, number] | null) => void;
  readonly #pick: (x: number) => void;
  readonly #resized: ResizeObserver;
  #look: ChartLook | null = null;
  #plot: uPlot | null = null;
  #shape = "";
  /** Its element belongs to another chart by then. */
  #closed = false;

  constructor(
    box: HTMLElement,
    options: {
      syncKey: string;
      hover: (hover: Hover | null) => void;
      zoom: (range: [number, number] | null) => void;
      pick: (x: number) => void;
    },
  ) {
    this.#box = box;
    this.#syncKey = options.syncKey;
    this.#hover = options.hover;
    this.#zoom = options.zoom;
    this.#pick = options.pick;
    this.#resized = new ResizeObserver(() => {
      // Also for a chart that had no width at its first drawing: nothing was drawn.
      if (box.clientWidth > 0 && this.#plot?.width !== box.clientWidth) this.recolour();
    });
    this.#resized.observe(box);
  }

  show(look: ChartLook): void {
    if (this.#closed) return;
    this.#look = look;
    soon(this.#draw);
  }

  /** Redraws with the current colours and width. */
  recolour(): void {
    if (this.#closed) return;
    this.#shape = "";
    soon(this.#draw);
  }

  close(): void {
    this.#closed = true;
    waiting.delete(this.#draw);
    this.#resized.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
  }

  /** The chart as a picture, on the page's background colour. */
  picture(): Promise<Blob | null> {
    const from = this.#plot?.ctx.canvas;
    if (!from) return Promise.resolve(null);
    const canvas = document.createElement("canvas");
    canvas.width = from.width;
    canvas.height = from.height;
    const context = canvas.getContext("2d");
    if (!context) return Promise.resolve(null);
    context.fillStyle = css("--panel");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(from, 0, 0);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  readonly #draw = () => {
    const look = this.#look;
    if (!look || this.#box.clientWidth === 0) return;
    const data = this.#data(look);
    const shape = JSON.stringify([
      look.lines.map((line) => [line.label, line.colour, line.earlier, line.dash, line.curve.range !== undefined]),
      look.yRange,
      look.heightPx,
      look.smooth > 0,
      look.logX,
      look.logY,
      look.timeAxis,
    ]);
    if (this.#plot && shape === this.#shape) {
      this.#plot.setData(data, false);
      this.#scale(this.#plot, look, data);
      return;
    }
    this.#shape = shape;
    this.#plot?.destroy();
    this.#plot = new uPlot(this.#options(look), data, this.#box);
    this.#scale(this.#plot, look, data);
  };

  #scale(plot: uPlot, look: ChartLook, data: uPlot.AlignedData): void {
    const xs = data[0];
    const [min, max] = look.range ?? [xs[0] ?? 0, xs.at(-1) ?? 1];
    // Centres a single point, and the points of several nodes that were measured in the same second.
    const around = { min: look.logX ? min / 2 : look.timeAxis ? Math.max(0, min - 1) : min - 1, max: max + 1 };
    const least = look.timeAxis && !look.range && !look.logX ? 1 : 0;
    plot.batch(() => plot.setScale("x", max - min > least ? { min, max } : around));
  }

  /** Each line appears twice if it is smoothed: every point faintly, the mean on top. */
  #data(look: ChartLook): uPlot.AlignedData {
    const buckets = Math.max(100, this.#box.clientWidth);
    const fit = (values: readonly number[], log: boolean) =>
      values.map((value) => (Number.isFinite(value) && !(log && value <= 0) ? value : null));
    const tables = look.lines.flatMap(({ curve }) => {
      const rows = (y: readonly number[]): uPlot.AlignedData => {
        const kept = drawnPoints(curve.x, y, look.range, buckets);
        const good = look.logX ? kept.filter((i) => (curve.x[i] ?? 0) > 0) : kept;
        return [
          good.map((i) => curve.x[i] ?? 0),
          fit(
            good.map((i) => y[i] ?? Number.NaN),
            look.logY,
          ),
        ];
      };
      const range = curve.range ? [rows(curve.range.low), rows(curve.range.high)] : [];
      const mean = look.smooth > 0 ? [rows(curve.y), rows(smoothed(curve.y, look.smooth))] : [rows(curve.y)];
      return [...mean, ...range];
    });
    const [only] = tables;
    if (!only) return [[], []];
    // Separate tables keep points with equal steps, from several ranks or two attempts, apart.
    const distinct = tables.map(oneEach);
    return distinct.length === 1 ? (distinct[0] ?? [[], []]) : uPlot.join(distinct);
  }

  #options(look: ChartLook): uPlot.Options {
    const axis = {
      stroke: css("--quiet"),
      grid: { stroke: css("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const bands: uPlot.Band[] = [];
    let made = 0;
    const series = look.lines.flatMap(({ label, colour, earlier, dash, curve }): uPlot.Series[] => {
      const stroke = css(`--series-${colour % COLOURS}`);
      const base: uPlot.Series = {
        label,
        stroke,
        width: 1.6,
        // In the joined table, `undefined` means that this line has no point there, and null a value that is not a
        // number: only null is a gap.
        spanGaps: false,
        points: { show: false, size: 6, filter: alone },
        ...(dash > 0 ? { dash: DASHES[dash % DASHES.length] ?? [] } : {}),
        ...(earlier ? { dash: [5, 4], alpha: 0.55 } : {}),
      };
      const mean = look.smooth <= 0 ? [base] : [{ ...base, alpha: 0.22, width: 1 }, base];
      const edge: uPlot.Series = { ...base, width: 0.5, alpha: 0.35, points: { show: false } };
      made += mean.length;
      if (!curve.range) return mean;
      bands.push({ series: [made + 2, made + 1], fill: `${stroke}22` });
      made += 2;
      return [...mean, edge, edge];
    });
    return {
      width: Math.max(120, this.#box.clientWidth),
      height: look.heightPx,
      bands,
      padding: [8, 18, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, distr: look.logX ? 3 : 1, auto: false },
        y: {
          distr: look.logY ? 3 : 1,
          ...(look.yRange
            ? { range: [...look.yRange] as [number, number] }
            : look.logY
              ? {}
              : { range: isShare(look.name) ? ([0, 100] as [number, number]) : rangeOf }),
        },
      },
      cursor: {
        sync: { key: this.#syncKey, scales: ["x", null] },
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
        bind: { dblclick: () => () => (this.#zoom(null), null) },
      },
      axes: [
        {
          ...axis,
          size: 24,
          gap: 4,
          // As wide as the longest label: "59 min 30 s".
          ...(look.timeAxis ? { space: 96, incrs: TIME_STEPS } : {}),
          values: (_plot, splits) =>
            look.timeAxis ? timeMarks(splits) : look.xWords === "step" ? stepMarks(splits) : valueMarks("", splits),
        },
        {
          ...axis,
          size: (_plot, marks) => Math.max(50, 8 + 6 * Math.max(0, ...(marks ?? []).map((words) => words.length))),
          gap: 4,
          values: (_plot, splits) => valueMarks(look.name, splits),
        },
      ],
      series: [{}, ...series],
      hooks: {
        setCursor: [(plot) => this.#hover(this.#under(plot))],
        setSelect: [
          (plot) => {
            if (plot.select.width < 4) return;
            const from = plot.posToVal(plot.select.left, "x");
            const to = plot.posToVal(plot.select.left + plot.select.width, "x");
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            this.#zoom([from, to]);
          },
        ],
        ready: [(plot) => this.#clicks(plot.over, () => plot.data[0][plot.cursor.idx ?? -1])],
        draw: [(plot) => this.#drawOdd(plot)],
      },
    };
  }

  /** A click that did not drag picks the point under it. */
  #clicks(over: HTMLElement, under: () => number | undefined): void {
    let from = { x: 0, y: 0 };
    over.addEventListener("mousedown", ({ clientX, clientY }) => (from = { x: clientX, y: clientY }));
    over.addEventListener("click", ({ clientX, clientY, detail }) => {
      const x = under();
      if (x !== undefined && detail === 1 && Math.hypot(clientX - from.x, clientY - from.y) < CLICK_PX) this.#pick(x);
    });
  }

  /** Values that are not finite have no height: a mark at the lower edge shows their position. */
  #drawOdd(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const size = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = css("--bad");
    for (const { curve } of this.#look?.lines ?? []) {
      for (const x of oddPlaces(curve)) {
        const left = plot.valToPos(x, "x", true);
        if (left < bbox.left || left > bbox.left + bbox.width) continue;
        const bottom = bbox.top + bbox.height;
        ctx.beginPath();
        ctx.moveTo(left, bottom - 2 * size);
        ctx.lineTo(left - size, bottom);
        ctx.lineTo(left + size, bottom);
        ctx.fill();
      }
    }
    ctx.restore();
  }

  #under(plot: uPlot): Hover | null {
    const look = this.#look;
    const at = plot.cursor.idx;
    if (!look || at === null || at === undefined || (plot.cursor.left ?? -1) < 0) return null;
    const x = plot.data[0][at];
    if (x === undefined) return null;
    // Each line has one column, two if it is smoothed, and two more for a range.
    let column = 0;
    const values = look.lines.flatMap((line, i) => {
      column += look.smooth > 0 ? 2 : 1;
      const value = plot.data[column]?.[at];
      if (line.curve.range) column += 2;
      return typeof value === "number" ? [{ line: i, colour: line.colour, text: metricValue(look.name, value) }] : [];
    });
    return { x: look.timeAxis ? duration(x * 1000) : `${look.xWords} ${number(x)}`, values };
  }
}

/** With space above and below; a line that is always 0 gets an axis up to 1, and not up to 100. */
const rangeOf: uPlot.Range.Function = (_plot, min, max) => {
  if (min === null || max === null) return [null, null];
  return min === 0 && max === 0 ? [0, 1] : uPlot.rangeNum(min, max, 0.1, true);
};

/** A table may contain an x only once: a second point at the same place is shifted by a tiny amount. */
function oneEach([xs, ys]: uPlot.AlignedData): uPlot.AlignedData {
  let last = -Infinity;
  const x = Array.from(xs, (at) => (last = at > last ? at : last + Math.abs(last) * 1e-12 + 1e-12));
  return [x, ys ?? []];
}

/** Points without a line to a neighbour, which would otherwise be invisible. */
function alone(plot: uPlot, series: number): number[] | null {
  const ys = plot.data[series] ?? [];
  const own = Array.from(ys.keys()).filter((i) => ys[i] !== undefined);
  const has = (n: number) => typeof ys[own[n] ?? -1] === "number";
  const lonely = own.filter((_, n) => has(n) && !has(n - 1) && !has(n + 1));
  return lonely.length > 0 ? lonely : null;
}
