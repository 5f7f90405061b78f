// One metric as a uPlot chart, a line per rank. The colours are the page's own and follow its light and dark forms.

import uPlot from "uplot";
import type { MetricPoint } from "../../../src/schemas/job.ts";
import { number } from "../format.ts";

const RANKS_MAX = 8;
const HEIGHT_PX = 170;

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export interface Chart {
  update(points: readonly MetricPoint[]): void;
  /** Draws anew with the colours of now. */
  recolour: () => void;
  close(): void;
}

/** Values that are not finite become gaps. */
function aligned(points: readonly MetricPoint[]): { data: uPlot.AlignedData; ranks: number[] } {
  const ranks = [...new Set(points.map((point) => point.rank))].sort((a, b) => a - b).slice(0, RANKS_MAX);
  const tables = ranks.map((rank): uPlot.AlignedData => {
    const mine = points.filter((point) => point.rank === rank);
    return [
      mine.map((point) => point.step),
      mine.map((point) => (typeof point.value === "number" ? point.value : null)),
    ];
  });
  const [only] = tables;
  return { data: tables.length === 1 && only ? only : tables.length === 0 ? [[], []] : uPlot.join(tables), ranks };
}

/** `hover` hears what lies under the cursor, or null when it has left. */
export function drawChart(
  box: HTMLElement,
  syncKey: string,
  first: readonly MetricPoint[],
  hover: (text: string | null) => void,
): Chart {
  let points = first;
  let plot: uPlot | null = null;
  let drawnRanks = "";

  const draw = () => {
    plot?.destroy();
    const { data, ranks } = aligned(points);
    drawnRanks = ranks.join();
    const axis = {
      stroke: colour("--quiet"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    plot = new uPlot(
      {
        width: Math.max(120, box.clientWidth),
        height: HEIGHT_PX,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        scales: { x: { time: false } },
        cursor: { sync: { key: syncKey }, y: false, drag: { x: true, y: false }, points: { size: 7 } },
        axes: [
          { ...axis, size: 24, gap: 4, values: (_plot, splits) => splits.map(short) },
          { ...axis, size: 48, gap: 4, values: (_plot, splits) => splits.map(short) },
        ],
        series: [
          {},
          ...ranks.map((rank, i) => ({
            label: `rank ${rank}`,
            stroke: colour(`--series-${i % RANKS_MAX}`),
            width: 1.75,
            spanGaps: ranks.length > 1,
            points: { show: data[0].length < 2, size: 6 },
          })),
        ],
        hooks: { setCursor: [(u: uPlot) => hover(under(u, ranks))] },
      },
      data,
      box,
    );
  };
  const resized = new ResizeObserver(() => {
    if (plot && box.clientWidth > 0 && plot.width !== box.clientWidth)
      plot.setSize({ width: box.clientWidth, height: HEIGHT_PX });
  });
  draw();
  resized.observe(box);
  return {
    update(next) {
      points = next;
      const { data, ranks } = aligned(points);
      // One point shows as a dot, a second turns it into a line: both need other options.
      if (ranks.join() !== drawnRanks || (plot?.data[0].length ?? 0) < 2) draw();
      else plot?.setData(data);
    },
    recolour: draw,
    close() {
      resized.disconnect();
      plot?.destroy();
    },
  };
}

function under(plot: uPlot, ranks: number[]): string | null {
  const at = plot.cursor.idx;
  if (at === null || at === undefined) return null;
  const values = ranks.flatMap((rank, i) => {
    const value = plot.data[i + 1]?.[at];
    return typeof value === "number" ? [ranks.length > 1 ? `${rank}: ${number(value)}` : number(value)] : [];
  });
  return values.length === 0 ? null : `step ${plot.data[0][at]} · ${values.join("  ")}`;
}

function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return Number(value.toPrecision(2)).toExponential();
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size > 0 && size < 1e-3) return Number(value.toPrecision(2)).toExponential();
  return String(Number(value.toPrecision(6)));
}
