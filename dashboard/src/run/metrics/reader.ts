// Reads the metrics of one run: the names, and every point of the displayed series once.

import { asProblem } from "../../api.ts";
import { coalesced, onHint } from "../../sync.ts";
import { runApi } from "../run-api.ts";
import type { Problem } from "../../../../src/schemas/job.ts";
import { append, noColumns, type Columns } from "./columns.ts";

const LIST_EVERY_MS = 3_000;
const SERIES_AT_ONCE = 16;
const TICK_MS = 1_000;

interface Known {
  id: number;
  points: number;
}

export class MetricsReader {
  readonly jobId: string;
  /** Null until the first answer. */
  names: readonly string[] | null = null;
  problem: Problem | null = null;
  readonly #changed: () => void;
  readonly #known = new Map<string, Known>();
  readonly #columns = new Map<string, Columns>();
  readonly #versions = new Map<string, number>();
  readonly #wanted = new Map<string, number>();
  #gone = new AbortController();
  #listedAt = 0;
  #reading = false;
  #again = false;
  #listAgain = false;

  constructor(jobId: string, changed: () => void) {
    this.jobId = jobId;
    this.#changed = changed;
  }

  open(): void {
    this.#gone = new AbortController();
    void this.read(true);
  }
  close(): void {
    this.#gone.abort();
  }

  columns(name: string): Columns | null {
    return this.#columns.get(name) ?? null;
  }
  /** Whether the run may have values of this metric that were not read yet. */
  isPending(name: string): boolean {
    return this.names === null || (this.names.includes(name) && !this.#columns.has(name));
  }
  /** Grows with each new point. */
  version(name: string): number {
    return this.#versions.get(name) ?? 0;
  }

  /** Marks a series as displayed until the returned function is called. */
  want(name: string): () => void {
    this.#wanted.set(name, (this.#wanted.get(name) ?? 0) + 1);
    if (!this.#columns.has(name)) void this.read(false);
    return () => {
      const left = (this.#wanted.get(name) ?? 1) - 1;
      if (left > 0) this.#wanted.set(name, left);
      else this.#wanted.delete(name);
    };
  }

  /** Reads new points; with `list` the names too, which are otherwise read now and then. Never twice at once. */
  async read(list: boolean): Promise<void> {
    this.#again = true;
    this.#listAgain ||= list;
    if (this.#reading) return;
    this.#reading = true;
    while (this.#again) {
      this.#again = false;
      const { signal } = this.#gone;
      if (signal.aborted) break;
      try {
        await this.#once(signal);
        this.problem = null;
      } catch (error) {
        // Closed and opened again meanwhile: then it is requested again.
        if (!signal.aborted) this.problem = asProblem(error);
      }
    }
    this.#reading = false;
    this.#changed();
  }

  async #once(signal: AbortSignal): Promise<void> {
    const unknown = [...this.#wanted.keys()].some((name) => !this.#known.has(name));
    if (this.names === null || this.#listAgain || unknown || performance.now() - this.#listedAt > LIST_EVERY_MS) {
      this.#listAgain = false;
      const { series } = await runApi.series(this.jobId, signal);
      this.#listedAt = performance.now();
      for (const { id, name, points } of series) this.#known.set(name, { id, points });
      if (this.names?.length !== series.length) this.names = series.map((each) => each.name);
      this.#changed();
    }
    const places = [...this.#wanted.keys()].flatMap((name) => {
      const known = this.#known.get(name);
      return known ? [{ name, id: known.id, from: this.#columns.get(name)?.next ?? 0 }] : [];
    });
    for (let i = 0; i < places.length; i += SERIES_AT_ONCE) {
      const part = places.slice(i, i + SERIES_AT_ONCE);
      const names = new Map(part.map((place) => [place.id, place.name]));
      const { series } = await runApi.points(this.jobId, part, signal);
      for (const more of series) {
        const name = names.get(more.id);
        if (name === undefined) continue;
        const columns = this.#columns.get(name) ?? noColumns();
        const had = columns.next;
        append(columns, more);
        this.#columns.set(name, columns);
        if (columns.next > had || had === 0) this.#versions.set(name, this.version(name) + 1);
      }
      this.#changed();
    }
  }
}

/** The readers of the compared runs, as one object. */
export class MetricsSet {
  readonly readers: readonly MetricsReader[];
  #version = 0;
  #names: readonly string[] = [];
  readonly #listeners = new Set<() => void>();
  #stop: (() => void) | null = null;
  #frame = 0;

  constructor(jobIds: readonly string[]) {
    this.readers = jobIds.map((id) => new MetricsReader(id, () => this.#told()));
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) this.#open();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#close();
    };
  };
  readonly version = (): number => this.#version;

  /** The names of all runs; the same array while it does not change. */
  get names(): readonly string[] {
    const all = new Set(this.readers.flatMap((reader) => reader.names ?? []));
    if (all.size !== this.#names.length) this.#names = [...all];
    return this.#names;
  }

  /** Runs have ended: reads the rest. */
  refresh(): void {
    for (const reader of this.readers) void reader.read(true);
  }

  #open(): void {
    for (const reader of this.readers) reader.open();
    const due = new Set<MetricsReader>();
    const ticking = coalesced(TICK_MS, async () => {
      const told = [...due];
      due.clear();
      await Promise.all(told.map((reader) => reader.read(false)));
    });
    this.#stop = onHint((hint) => {
      for (const reader of this.readers) {
        if (hint.type === "opened") void reader.read(true);
        else if (hint.type === "metrics.advanced" && hint.job_id === reader.jobId) due.add(reader);
      }
      if (due.size > 0) ticking.mark();
    });
  }

  #close(): void {
    this.#stop?.();
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    for (const reader of this.readers) reader.close();
  }

  /** Joins several answers in one frame into one change. */
  #told(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#version += 1;
      for (const listener of this.#listeners) listener();
    });
  }
}
