// The metrics of the listed runs. Those of a run that has ended are read once, those of an active one again as it logs.

import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import type { MetricSummary } from "../../../src/schemas/series.ts";
import { api } from "../api.ts";
import { isActive } from "../status.ts";
import { coalesced, onHint } from "../sync.ts";

const AT_ONCE = 200;
const EVERY_MS = 2_000;

export type RunMetrics = Readonly<Record<string, MetricSummary>>;

class MetricBook {
  /** By run; a run that was read and has none of the metrics has an empty entry. */
  runs: ReadonlyMap<string, RunMetrics> = new Map();
  /** Every metric name of the runs that were read. */
  names: readonly string[] = [];
  readonly #metrics: readonly string[];
  readonly #listeners = new Set<() => void>();
  readonly #due = new Set<string>();
  readonly #asked = new Set<string>();
  #version = 0;
  #closed = false;
  readonly #reading = coalesced(EVERY_MS, () => this.#read());

  constructor(metrics: readonly string[]) {
    this.#metrics = metrics;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  open(): () => void {
    this.#closed = false;
    if (this.#due.size > 0) this.#reading.mark();
    return () => void (this.#closed = true);
  }

  /** These runs are listed: reads those that were not read yet. */
  want(ids: readonly string[]): void {
    for (const id of ids) {
      if (this.#asked.has(id)) continue;
      this.#asked.add(id);
      this.#due.add(id);
    }
    if (this.#due.size > 0) this.#reading.mark();
  }

  /** A run has logged more. */
  again(id: string): void {
    if (!this.#asked.has(id)) return;
    this.#due.add(id);
    this.#reading.mark();
  }

  async #read(): Promise<void> {
    const ids = [...this.#due].slice(0, AT_ONCE);
    if (this.#closed || ids.length === 0) return;
    for (const id of ids) this.#due.delete(id);
    try {
      const answer = await api.metricSummaries(ids, this.#metrics);
      const runs = new Map(this.runs);
      for (const id of ids) runs.set(id, answer.jobs[id] ?? {});
      this.runs = runs;
      const names = new Set([...this.names, ...answer.names]);
      if (names.size !== this.names.length) this.names = [...names];
      if (answer.open > 0) for (const id of ids) this.#due.add(id);
    } catch {
      for (const id of ids) this.#due.add(id);
    }
    this.#version += 1;
    for (const listener of this.#listeners) listener();
    if (this.#due.size > 0) this.#reading.mark();
  }
}

/** @param metrics names whose values are wanted; @param enabled whether the list shows or offers any. */
export function useMetricBook(
  ids: readonly string[],
  jobs: Readonly<Record<string, JobRecord>>,
  metrics: readonly string[],
  enabled: boolean,
): MetricBook {
  const key = JSON.stringify(metrics);
  const book = useMemo(() => new MetricBook(JSON.parse(key) as string[]), [key]);
  useSyncExternalStore(book.subscribe, book.version);
  useEffect(() => book.open(), [book]);
  useEffect(() => {
    if (enabled) book.want(ids);
  }, [book, ids, enabled]);
  useEffect(
    () => onHint((hint) => hint.type === "metrics.advanced" && enabled && book.again(hint.job_id)),
    [book, enabled],
  );
  // The last points of a run arrive with its end.
  const active = ids.filter((id) => jobs[id] && isActive(jobs[id])).join();
  useEffect(() => {
    if (!enabled) return undefined;
    const were = active === "" ? [] : active.split(",");
    return () => were.forEach((id) => book.again(id));
  }, [book, active, enabled]);
  return book;
}
