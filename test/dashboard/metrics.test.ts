import { describe, expect, it } from "vitest";
import { metricValue } from "../../dashboard/src/format.ts";
import { stepMarks, timeMarks, valueMarks } from "../../dashboard/src/run/metrics/axis-words.ts";
import { append, noColumns, summary, type Columns } from "../../dashboard/src/run/metrics/columns.ts";
import { csvOf, curvesOf, drawnPoints, oddPlaces, smoothed } from "../../dashboard/src/run/metrics/curves.ts";

const columns = (points: [step: number, value: number, rank?: number][]): Columns => ({
  step: points.map(([step]) => step),
  time: points.map((_, i) => 1_000 + i),
  value: points.map(([, value]) => value),
  rank: points.map(([, , rank]) => rank ?? 0),
  next: points.length,
  thinned: false,
});

describe("smoothing", () => {
  it("keeps a constant from the first point on, for any weight", () => {
    for (const weight of [0, 0.5, 0.9, 0.999])
      for (const value of smoothed([7, 7, 7, 7, 7], weight)) expect(value).toBeCloseTo(7, 9);
  });
  it("is the mean weighted by wⁿ, without the bias towards its first value", () => {
    const w = 0.6;
    const [, second, third] = smoothed([1, 2, 4], w);
    expect(second).toBeCloseTo((2 + w * 1) / (1 + w), 12);
    expect(third).toBeCloseTo((4 + w * 2 + w * w * 1) / (1 + w + w * w), 12);
  });
  it("skips values that are not finite, as if they did not exist", () => {
    const whole = smoothed([1, 3, 5], 0.8);
    const holed = smoothed([1, Number.NaN, 3, Infinity, 5], 0.8);
    expect([holed[0], holed[2], holed[4]]).toEqual(whole);
    expect(holed[1]).toBeNaN();
  });
});

describe("the drawn points", () => {
  const x = Array.from({ length: 100_000 }, (_, i) => i);
  it("keeps every spike of a hundred thousand points, and the ends", () => {
    const y = x.map(() => 1);
    y[51_234] = 900;
    y[51_235] = -900;
    y[99_000] = Number.NaN;
    const kept = drawnPoints(x, y, null, 400);
    expect(kept.length).toBeLessThan(900);
    expect(kept).toEqual(expect.arrayContaining([0, 51_234, 51_235, 99_999]));
    expect(kept.every((i, at) => at === 0 || i > (kept[at - 1] ?? 0))).toBe(true);
  });
  it("contain every point in a zoom if they fit, with one beyond each edge", () => {
    const kept = drawnPoints(x, x, [500, 510], 400);
    expect([kept[0], kept.at(-1)]).toEqual([499, 511]);
    expect(kept.length).toBe(13);
  });
  it("marks where values are not finite", () => {
    const [curve] = curvesOf(
      columns([
        [1, 1],
        [2, Number.NaN],
        [3, Infinity],
      ]),
      "step",
      0,
    );
    expect(curve && oddPlaces(curve)).toEqual([2, 3]);
  });
});

describe("lines of a chart", () => {
  it("continue over a rank's attempts, without what a later attempt repeats, and keep ranks apart", () => {
    const points = columns([
      [1, 10],
      [1, 20, 1],
      [2, 11],
      [3, 12],
      [2, 21, 1],
      [2, 13],
      [3, 14],
    ]);
    const found = curvesOf(points, "step", 0);
    expect(found.map(({ rank, attempt, attempts, x, y }) => [rank, attempt, attempts, x, y])).toEqual([
      [0, 1, 2, [2, 3], [11, 12]],
      [0, 2, 2, [1, 2, 3], [10, 13, 14]],
      [1, 1, 1, [1, 2], [20, 21]],
    ]);
  });
  it("show of three attempts only what none repeats", () => {
    const points = columns([
      [1, 1],
      [2, 2],
      [3, 3],
      [2, 20],
      [3, 30],
      [4, 40],
      [3, 300],
      [5, 500],
    ]);
    expect(curvesOf(points, "step", 0).map(({ attempt, x, y }) => [attempt, x, y])).toEqual([
      [1, [2, 3], [2, 3]],
      [2, [3, 4], [30, 40]],
      [3, [1, 2, 3, 5], [1, 20, 300, 500]],
    ]);
  });
  it("treat steps that fall back over and over as several processes of one rank, and not as attempts", () => {
    const points = columns(
      Array.from({ length: 200 }, (_, i): [number, number] => [i % 2 === 0 ? i / 2 + 1 : (i - 1) / 2, i]),
    );
    const [curve, ...others] = curvesOf(points, "step", 0);
    expect(others).toEqual([]);
    expect(curve?.attempts).toBe(1);
    expect(curve?.x).toEqual([...(curve?.x ?? [])].sort((a, b) => a - b));
    expect([...(curve?.y ?? [])].sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, i) => i));
  });
  it("run over time from the run's start, or over another metric at the same step", () => {
    const loss = columns([
      [1, 5],
      [2, 4],
      [3, 3],
    ]);
    expect(curvesOf(loss, "time", 990_000)[0]?.x).toEqual([10, 11, 12]);
    const tokens = columns([
      [3, 300],
      [1, 100],
    ]);
    expect(curvesOf(loss, { metric: tokens }, 0)[0]).toMatchObject({ x: [100, 300], y: [5, 3] });
  });
});

describe("columns", () => {
  it("append each part once, in order, and keep values that are not finite", () => {
    const got = noColumns();
    const part = { id: 1, from: 0, next: 2, thinned: false, step: [1, 2], time: [1, 2], rank: [0, 0] };
    append(got, { ...part, value: [1, "NaN"] });
    append(got, { ...part, value: [1, "NaN"] });
    append(got, { ...part, from: 2, next: 3, step: [3], time: [3], value: ["-Infinity"], rank: [0] });
    expect(got).toMatchObject({ step: [1, 2, 3], value: [1, Number.NaN, -Infinity], next: 3 });
    expect(summary(got)).toMatchObject({ points: 3, odd: 2, min: 1, max: 1, lastStep: 3 });
  });
  it("become a table in which no spreadsheet executes a formula", () => {
    const csv = csvOf('=cmd("x")', [{ label: "a,b", columns: columns([[1, Number.NaN]]) }]);
    expect(csvOf("a;@x", [])).toBe(`run,rank,step,time,"a;'@x"\n`);
    expect(csv).toBe(`run,rank,step,time,"'=cmd(""x"")"\n"a,b",0,1,1970-01-01T00:16:40.000Z,NaN\n`);
    const never = { ...columns([[1, 2]]), time: [1e300] };
    expect(csvOf("loss", [{ label: "a", columns: never }])).toContain("a,0,1,1e+300,2\n");
  });
});

describe("the marks of an axis", () => {
  it("are short if they stay distinct", () => {
    expect(stepMarks([0, 2_000, 10_000, 12_000])).toEqual(["0", "2000", "10k", "12k"]);
    expect(stepMarks([0, 0.5, 1, 1.5, 2])).toEqual(["0", "", "1", "", "2"]);
    expect(timeMarks([0, 5, 60, 300, 3_600])).toEqual(["0", "5 s", "1 min", "5 min", "1 h"]);
    expect(valueMarks("system/memory_bytes", [0, 5e6, 1e7])).toEqual(["0", "5 MB", "10 MB"]);
    expect(valueMarks("system/net_bytes_per_s", [500, 12_500, 2_000_000_000_000])).toEqual([
      "500 B/s",
      "12.5 kB/s",
      "2 TB/s",
    ]);
    expect(valueMarks("system/gpu0_memory_mib", [0, 500, 20_000])).toEqual(["0", "500 MiB", "20k MiB"]);
    expect(metricValue("system/net_bytes_per_s", 12_500)).toBe("13 kB/s");
    expect(metricValue("system/net_bytes_per_s", 0)).toBe("0 B/s");
    expect(metricValue("system/gpu0_memory_mib", 20_160)).toBe("20,160 MiB");
    expect(valueMarks("loss", [0.001, 0.01, null])).toEqual(["0.001", "0.01", ""]);
  });
  it("get as many extra digits as they need to be distinct", () => {
    expect(stepMarks([1_000_000, 1_000_500])).toEqual(["1M", "1.0005M"]);
    expect(timeMarks([1, 1.001])).toEqual(["1 s", "1.001 s"]);
    expect(timeMarks([7_510, 7_520])).toEqual(["2 h 5 min 10 s", "2 h 5 min 20 s"]);
    expect(timeMarks([119.5, 119.75])).toEqual(["1 min 59.5 s", "1 min 59.8 s"]);
    expect(valueMarks("system/memory_bytes", [10_950_000, 11_000_000])).toEqual(["10.95 MB", "11 MB"]);
    expect(valueMarks("loss", [12_345.1, 12_345.2])).toEqual(["12.3451k", "12.3452k"]);
  });
  it("are equal for equal values", () => {
    expect(valueMarks("loss", [1, 1])).toEqual(["1", "1"]);
  });
});
