import { describe, expect, it } from "vitest";
import { MetricTable, type SummaryReads } from "../../src/api/metric-summaries.ts";

/** Series in memory, which counts the points that extremes were read from. */
function readsOf(series: Record<string, number[]>): SummaryReads & { folded: number } {
  const all = Object.entries(series).map(([key, values], i) => ({
    id: i + 1,
    jobId: key.split("/")[0] ?? "",
    name: key.slice(key.indexOf("/") + 1),
    values,
  }));
  return {
    folded: 0,
    seriesNames: (_ids, max) => {
      const names = [...new Set(all.map(({ name }) => name))];
      return { names: names.slice(0, max), more: names.length > max };
    },
    namedSeries: (ids, names) =>
      all
        .filter(({ jobId, name }) => ids.includes(jobId) && names.includes(name))
        .map(({ id, jobId, name, values }) => ({ id, jobId, name, points: values.length })),
    seriesShape(id, from, to, samples) {
      const values = all[id - 1]?.values ?? [];
      const part = values.slice(from, to).filter((value) => Number.isFinite(value));
      this.folded += to - from;
      return {
        min: part.length > 0 ? part.reduce((a, b) => Math.min(a, b)) : null,
        max: part.length > 0 ? part.reduce((a, b) => Math.max(a, b)) : null,
        last: values[to - 1] ?? null,
        samples: values.slice(0, samples),
      };
    },
  };
}

describe("the metrics of a list of runs", () => {
  it("have the newest, lowest and highest value of each run", async () => {
    const table = new MetricTable(readsOf({ "a/loss": [3, 1, 2], "b/loss": [7], "b/acc/top 1,5": [0.5] }));
    expect(await table.of(["a", "b", "c"], ["loss", "acc/top 1,5"])).toMatchObject({
      names: ["loss", "acc/top 1,5"],
      more_names: false,
      open: 0,
      jobs: {
        a: { loss: { last: 2, min: 1, max: 3, points: 3, samples: [3, 1, 2] } },
        b: { loss: { last: 7, min: 7, max: 7 }, "acc/top 1,5": { last: 0.5 } },
      },
    });
    expect((await table.of(["a"], [])).jobs).toEqual({});
  });

  it("include those with the names of inherited members, and no inherited member", async () => {
    const table = new MetricTable(readsOf({ "a/__proto__": [1, 2], "a/constructor": [3], "b/loss": [4] }));
    const { jobs } = await table.of(["a", "b"], ["__proto__", "constructor", "loss"]);
    const sent = JSON.parse(JSON.stringify(jobs)) as Record<string, object>;
    expect(Object.keys(sent["a"] ?? {})).toEqual(["__proto__", "constructor"]);
    expect(Object.keys(sent["b"] ?? {})).toEqual(["loss"]);
    expect(jobs["b"]?.["constructor"]).toBeUndefined();
  });

  it("reads each point once, also while a run logs", async () => {
    const values = [5, 9];
    const reads = readsOf({ "a/loss": values });
    const table = new MetricTable(reads);
    await table.of(["a"], ["loss"]);
    values.push(-1);
    expect((await table.of(["a"], ["loss"])).jobs["a"]?.["loss"]).toMatchObject({ min: -1, max: 9, last: -1 });
    expect(reads.folded).toBe(3);
  });

  it("answers about very long series in parts, without wrong extremes meanwhile", async () => {
    const long = Array.from({ length: 900_000 }, (_, i) => i);
    const table = new MetricTable(readsOf({ "a/loss": long, "b/loss": long }));
    const first = await table.of(["a", "b"], ["loss"]);
    expect(first.open).toBe(1);
    expect(first.jobs["b"]?.["loss"]).toMatchObject({ min: null, max: null, last: 899_999 });
    const then = await table.of(["a", "b"], ["loss"]);
    expect([then.open, then.jobs["b"]?.["loss"]?.max]).toEqual([0, 899_999]);
  });

  it("begins again where a removed run's series was replaced by a shorter one", async () => {
    const world: Record<string, number[]> = { "a/loss": [100, 200, 300] };
    const values = world["a/loss"] ?? [];
    const table = new MetricTable(readsOf(world));
    await table.of(["a"], ["loss"]);
    values.splice(0, 3, 1);
    expect((await table.of(["a"], ["loss"])).jobs["a"]?.["loss"]).toMatchObject({ min: 1, max: 1 });
  });
});
