// The run page's own data for the fake server: lines of the log by the real index, series as columns.

import { LogIndex, type LogReads } from "../../src/api/log-index.ts";
import { LogSearch } from "../../src/api/log-search.ts";
import type { CodeDiff } from "../../src/schemas/code.ts";
import type { MetricSummaries, SeriesColumns } from "../../src/schemas/series.ts";
import type { FakeRun } from "./fake-server.ts";

const indexes = new WeakMap<FakeRun, { index: LogIndex; search: LogSearch }>();

function indexOf(run: FakeRun): { index: LogIndex; search: LogSearch } {
  let known = indexes.get(run);
  if (!known) {
    const reads: LogReads = {
      logBytes: () => run.log.length,
      readLog: (_id, offset, max) => run.log.subarray(offset, offset + max),
      logTimes: () => [{ offset: 0, at_ms: 1_700_000_000_000 }],
    };
    const index = new LogIndex(reads);
    indexes.set(run, (known = { index, search: new LogSearch(reads, index) }));
  }
  return known;
}

const numberOf = (url: URL, name: string): number | undefined =>
  url.searchParams.has(name) ? Number(url.searchParams.get(name)) : undefined;

/** The answer's body; undefined for a path that this module does not serve. */
export async function runPart(run: FakeRun, path: string, url: URL): Promise<unknown> {
  const { id } = run.record;
  const count = numberOf(url, "count") ?? 500;
  const from = numberOf(url, "from");
  if (path === "logs/lines") {
    const { index } = indexOf(run);
    const counted = await index.count(id);
    const at = numberOf(url, "at_ms");
    const first = at === undefined ? Math.max(0, counted.lines - count) : await index.lineAtTime(id, at);
    const lines = await index.lines(id, from === undefined ? first : from - 1, count);
    return { total_lines: counted.lines, bytes: counted.bytes, lines };
  }
  if (path === "logs/search") {
    const near = numberOf(url, "near");
    const question = {
      text: url.searchParams.get("q") ?? "",
      errors: url.searchParams.get("errors") === "1",
      tag: url.searchParams.get("tag"),
    };
    return indexOf(run).search.find(id, question, { from, near: near === undefined ? undefined : near - 1, count });
  }
  const names = Object.keys(run.metrics);
  if (path === "series")
    return { series: names.map((name, i) => ({ id: i + 1, name, points: run.metrics[name]?.length ?? 0 })) };
  if (path === "series/points") {
    const series = (url.searchParams.get("of") ?? "").split(",").map((pair): SeriesColumns => {
      const [series = 0, place = 0] = pair.split(":").map(Number);
      const all = run.metrics[names[series - 1] ?? ""] ?? [];
      const points = all.slice(place);
      return {
        id: series,
        from: place,
        next: all.length,
        thinned: false,
        step: points.map((point) => point.step),
        time: points.map((point) => point.time),
        value: points.map((point) => point.value),
        rank: points.map((point) => point.rank),
      };
    });
    return { series };
  }
  if (path === "checkpoint-digest") return { path: url.searchParams.get("path"), size: 1, sha256: "ab".repeat(32) };
  if (path === "code/diff") return codeDiff(id, url.searchParams.get("with") ?? "");
  if (path === "code/changes") return codeDiff(id, null);
  if (path === "sinks") return { sinks: [] };
  return undefined;
}

/** The answer of `GET /v1/metrics`. */
export function metricSummaries(runs: readonly FakeRun[], { searchParams }: URL): MetricSummaries {
  const ids = searchParams.get("ids")?.split(",") ?? [];
  const wanted = JSON.parse(searchParams.get("names") ?? "[]") as string[];
  const chosen = runs.filter(({ record }) => ids.includes(record.id));
  const summaryOf = (points: FakeRun["metrics"][string]) => {
    const values = points.flatMap(({ value }) => (typeof value === "number" ? [value] : []));
    const last = points.at(-1)?.value;
    return {
      last: typeof last === "number" ? last : null,
      min: values.length > 0 ? Math.min(...values) : null,
      max: values.length > 0 ? Math.max(...values) : null,
      points: points.length,
      samples: values.slice(-24),
    };
  };
  return {
    names: [...new Set(chosen.flatMap(({ metrics }) => Object.keys(metrics)))],
    more_names: false,
    open: 0,
    jobs: Object.fromEntries(
      chosen.map(({ record, metrics }) => [
        record.id,
        Object.fromEntries(wanted.flatMap((name) => (metrics[name] ? [[name, summaryOf(metrics[name])]] : []))),
      ]),
    ),
  };
}

export const HOSTILE = `<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>`;

const codeDiff = (from: string, to: string | null): CodeDiff => ({
  from: { job_id: from, code_snapshot: "c0ffee", directory: null },
  to:
    to === null
      ? { job_id: null, code_snapshot: null, directory: `/home/me/${HOSTILE}` }
      : { job_id: to, code_snapshot: "decaf", directory: null },
  added_lines: 1,
  removed_lines: 1,
  changes: [
    {
      path: "train.py",
      old_path: "train.py",
      status: "changed",
      old_mode: "file",
      new_mode: "file",
      old_size: 10,
      new_size: 11,
      binary: false,
      added_lines: 1,
      removed_lines: 1,
      patch: `@@ -1,1 +1,1 @@\n-lr = 0.1\n+lr = "${HOSTILE}"\n`,
      note: null,
    },
  ],
});
