// Stores a run's log. The text is in one file per job; its committed length, the position in the source and every
// metric of the same bytes are one transaction.
//
// L1. Text is on the disk (fdatasync) before the transaction that counts it.
// L2. Bytes of the file after the committed length do not count: the next write overwrites them.
// L3. The cursor moves by compare-and-set: a part is counted once, even if it arrives again.
// L4. A stream begins on a line of its own, also if the one before it ended within a line.
// L5. Bytes that the file has lost are named in their place and in a notice, and every later byte keeps its offset.

import { SvcError } from "../errors/index.ts";
import type { LogRecord } from "../domain/log-stream.ts";
import { wordsOfLost } from "../domain/lost-log.ts";
import type { FeedHint, CheckpointFile } from "../schemas/job.ts";
import type { RunnerSample } from "../schemas/runner.ts";
import type { LogCursor, RunLogWriter } from "../steps/ports.ts";
import { LogStore } from "../store/log-store.ts";
import type { Transaction } from "./transaction.ts";
import type { Engine } from "./engine.ts";
import { LogFiles } from "./log-files.ts";

/** Minimum distance of recorded times in the log. */
const TIME_GAP_MS = 200;
/** A part of this size or more belongs to a log that lags, and its commit does not wait for others. */
const URGENT_BYTES = 64 * 1024;
/** Maximum number of metric names in one job. */
export const SERIES_MAX = 10_000;
/** Different alerts of one job within one window. */
export const ALERTS_MAX = 10;
const ALERT_WINDOW_MS = 60_000;
const NEWLINE = 0x0a;

interface OpenLog {
  /** Parts of one job are written one after the other, from every node. */
  queue: Promise<unknown>;
  /** Number of queued parts, including the one that is being written. */
  waiting: number;
  /** The stream that the last text belongs to; null if this process has written none. */
  stream: Part["stream"] | null;
  lastTimeMs: number;
  /** Ids and next indices after the last commit. */
  series: Map<string, { id: number; next: number }>;
  /** The number of series in the store; null until it is read. */
  count: number | null;
  /** Whether the limit was reported. */
  told: boolean;
  /** Alerts of the window that began then. */
  alertsSince: number;
  alerts: Set<string>;
}

export interface StorySinkOptions {
  engine: Engine;
  home: string;
  hint: (hint: FeedHint) => void;
  /** Called within the transaction that stores these records. */
  watch?: (tx: Transaction, jobId: string, records: readonly LogRecord[]) => void;
}

/** The log of each placement comes from another machine and starts at 0, so it is a stream of its own. */
const streamOf = (stream: string, placement: number): string => (placement <= 1 ? stream : `${stream}@${placement}`);

type Part = Parameters<RunLogWriter["append"]>[0];

export class DurableStorySink implements RunLogWriter {
  readonly #o: StorySinkOptions;
  readonly #rows: LogStore;
  readonly #files: LogFiles;
  readonly #logs = new Map<string, OpenLog>();

  constructor(options: StorySinkOptions) {
    this.#o = options;
    this.#rows = new LogStore(options.engine.store.db);
    this.#files = new LogFiles(options.home);
  }

  cursor(jobId: string, node: number, stream: Part["stream"]): LogCursor {
    const row = this.#rows.cursor(jobId, node, this.#streamOf(jobId, stream));
    return { sourceOffset: row?.source_offset ?? 0, samplesOffset: row?.samples_offset ?? 0 };
  }

  #streamOf(jobId: string, stream: string): string {
    return streamOf(stream, this.#o.engine.placement(jobId).n);
  }

  append(part: Part): Promise<void> {
    const log = this.#log(part.jobId);
    log.waiting++;
    const turn = log.queue.then(() => this.#write(log, part)).finally(() => log.waiting--);
    log.queue = turn.catch(() => {});
    return turn;
  }

  async preface(jobId: string, lines: readonly string[]): Promise<void> {
    if (lines.length === 0 || this.#rows.stored(jobId) > 0) return;
    const at = this.cursor(jobId, 0, "install");
    const text = Buffer.from(`${lines.join("\n")}\n`);
    const times = [{ offset: 0, atMs: this.#o.engine.clock.now() }];
    await this.append({ jobId, node: 0, stream: "install", text, records: [], samples: [], from: at, to: at, times });
  }

  async seam(jobId: string, text: string): Promise<void> {
    const from = this.cursor(jobId, 0, "seam");
    // A repeated step has already written this line.
    if (from.sourceOffset > 0) return;
    const to = { ...from, sourceOffset: 1 };
    const times = [{ offset: 0, atMs: this.#o.engine.clock.now() }];
    const line = Buffer.from(`${text}\n`);
    await this.append({ jobId, node: 0, stream: "seam", text: line, records: [], samples: [], from, to, times }).catch(
      (e: unknown) => {
        if (!(e instanceof SvcError && e.code === "log_moved_on")) throw e;
      },
    );
  }

  async #write(log: OpenLog, part: Part): Promise<void> {
    const { jobId } = part;
    this.#checkTurn(part);
    const start = this.#rows.stored(jobId);
    const text = await this.#onOwnLine(log, part, start);
    try {
      const lost = text.length > 0 ? await this.#files.write(jobId, start, text) : null;
      const { engine } = this.#o;
      const count = (tx: Transaction): void => {
        const at = { job_id: jobId, node: part.node, stream: this.#streamOf(jobId, part.stream) };
        const from = { source_offset: part.from.sourceOffset, samples_offset: part.from.samplesOffset };
        const to = { source_offset: part.to.sourceOffset, samples_offset: part.to.samplesOffset };
        if (!this.#rows.moveCursor(at, from, to)) throw movedOn(jobId);
        if (text.length > 0) {
          this.#rows.setStored(jobId, start + text.length);
          const atMs = part.times[0]?.atMs ?? tx.at;
          if (atMs - log.lastTimeMs >= TIME_GAP_MS) {
            this.#rows.time(jobId, start, atMs);
            log.lastTimeMs = atMs;
          }
        }
        if (lost) tx.feed(jobId, "notice", { level: "warning", message: wordsOfLost(lost) });
        if (part.lost) tx.feed(jobId, "notice", { level: "warning", message: part.lost });
        this.#points(log, jobId, part.records);
        // Only the first link counts: a script that repeats itself must not fill the feed.
        const link = part.records.find((record) => record.kind === "tracker");
        if (link && !this.#rows.linked(jobId)) tx.feed(jobId, "tracker.linked", { url: link.url });
        this.#alerts(log, tx, jobId, part.records);
        this.#o.watch?.(tx, jobId, part.records);
        this.#samples(log, jobId, part.node, part.samples);
      };
      // Do not batch when parts of other nodes are queued, or their delays add up.
      const mayWait = text.length < URGENT_BYTES && log.waiting === 1;
      await (mayWait ? engine.commitTogether(count) : engine.commit(count));
      if (text.length > 0 || movesOn(part)) log.stream = part.stream;
    } catch (e) {
      // No byte of this part counts; cached values are read again.
      log.series.clear();
      log.count = null;
      log.lastTimeMs = 0;
      log.alertsSince = 0;
      throw e;
    }
    if (text.length > 0) this.#o.hint({ type: "log.advanced", job_id: jobId, bytes: start + text.length });
    if (part.records.length > 0 || part.samples.length > 0) this.#o.hint({ type: "metrics.advanced", job_id: jobId });
  }

  /**
   * Called before a byte is written: an outdated writer must not touch a file that a newer one continues, and a part
   * that another caller has stored (a step that was cancelled during its write) is read again from the log's present
   * position.
   */
  #checkTurn({ jobId, node, stream, from }: Part): void {
    this.#o.engine.store.checkEpoch();
    const at = this.cursor(jobId, node, stream);
    if (at.sourceOffset !== from.sourceOffset || at.samplesOffset !== from.samplesOffset) throw movedOn(jobId);
  }

  /** The text of the part, after a line break if L4, or a line of svc, needs one at `start`. */
  async #onOwnLine(log: OpenLog, { jobId, stream, from, to, text, lost }: Part, start: number): Promise<Buffer> {
    const isNew = log.stream === null ? from.sourceOffset === 0 : log.stream !== stream;
    const begins = isNew || !!lost;
    if (!begins || start === 0 || (text.length === 0 && !movesOn({ from, to }))) return text;
    return (await this.#files.byteAt(jobId, start - 1)) === NEWLINE ? text : Buffer.concat([Buffer.of(NEWLINE), text]);
  }

  #points(log: OpenLog, jobId: string, records: LogRecord[]): void {
    for (const record of records) {
      if (record.kind !== "metrics") continue;
      for (const [name, value] of record.values)
        this.#point(log, jobId, name, record.step, record.time, toReal(value), record.rank);
    }
  }

  /** Several ranks often say the same: once a minute is enough, and ALERTS_MAX in all. */
  #alerts(log: OpenLog, tx: Transaction, jobId: string, records: readonly LogRecord[]): void {
    for (const record of records) {
      if (record.kind !== "alert") continue;
      if (tx.at - log.alertsSince >= ALERT_WINDOW_MS) [log.alertsSince, log.alerts] = [tx.at, new Set()];
      if (log.alerts.size >= ALERTS_MAX || log.alerts.has(record.message)) continue;
      log.alerts.add(record.message);
      tx.feed(jobId, "alert", { message: record.message, rank: record.rank });
    }
  }

  /** Stores the machine's usage as series next to the script's own; an unknown value is omitted, never zero. */
  #samples(log: OpenLog, jobId: string, node: number, samples: RunnerSample[]): void {
    for (const sample of samples) {
      const values: [string, number | null][] = [
        ["system/cpu_cores", sample.cpu_cores],
        ["system/memory_bytes", sample.memory_bytes],
        ["system/disk_bytes_per_s", sample.disk_bytes_per_s],
        ["system/net_bytes_per_s", sample.net_bytes_per_s],
        ...(sample.gpus ?? []).flatMap((gpu): [string, number | null][] => [
          [`system/gpu${gpu.index}_util_percent`, gpu.util_percent],
          [`system/gpu${gpu.index}_memory_mib`, gpu.memory_used_mib],
          [`system/gpu${gpu.index}_power_watts`, gpu.power_watts],
        ]),
      ];
      for (const [name, value] of values) {
        if (value === null) continue;
        const series = this.#series(log, jobId, name);
        if (series === null) continue;
        this.#rows.point(series.id, series.next, series.next, sample.at_ms / 1000, value, node);
        series.next++;
      }
    }
  }

  #point(
    log: OpenLog,
    jobId: string,
    name: string,
    step: number,
    time: number,
    value: number | null,
    rank: number,
  ): void {
    const series = this.#series(log, jobId, name);
    if (series === null) return;
    this.#rows.point(series.id, series.next, step, time, value, rank);
    series.next++;
  }

  /** Null beyond SERIES_MAX: endless invented names would make the store, and every read of it, slow. */
  #series(log: OpenLog, jobId: string, name: string): { id: number; next: number } | null {
    let series = log.series.get(name);
    if (series) return series;
    log.count ??= this.#rows.seriesCount(jobId);
    if (log.count >= SERIES_MAX && !this.#rows.hasSeries(jobId, name)) {
      if (!log.told) {
        const words = `More than ${SERIES_MAX} names of metrics: further names are not stored.`;
        // After the open transaction; without the notice only the message is lost.
        setImmediate(() => void this.notice(jobId, "warning", words).catch(() => undefined));
      }
      log.told = true;
      return null;
    }
    log.series.set(name, (series = this.#rows.series(jobId, name)));
    if (series.next === 0) log.count++;
    return series;
  }

  async checkpoints(jobId: string, files: CheckpointFile[], removed: readonly string[] = []): Promise<void> {
    await this.#o.engine.commitWithRetry((tx) => {
      const placement = tx.store.lastPlacement(jobId)?.n ?? 1;
      for (const path of removed) this.#rows.dropCheckpoint(jobId, path);
      for (const file of files) {
        const row = {
          job_id: jobId,
          path: file.path,
          size: file.size,
          modified_at: Date.parse(file.modified_at),
          saved_at: tx.at,
          in_progress: file.in_progress ? 1 : 0,
          placement,
        };
        // A growing file would fill the feed.
        if (this.#rows.checkpoint(row) !== "saved") continue;
        tx.feed(jobId, "checkpoint.saved", { path: file.path, size: file.size });
      }
    });
  }

  /** Whether the recorded ones of these files were all downloaded from machines before the job's present placement. */
  isEarlier(jobId: string, paths: readonly string[]): boolean {
    const now = this.#o.engine.store.lastPlacement(jobId)?.n ?? 1;
    const recorded = paths.map((path) => this.#rows.savedBy(jobId, path)).filter((n) => n !== null);
    return recorded.length > 0 && recorded.every((n) => n < now);
  }

  /** The placement whose machine saved each file, by path; empty if all are of the first one. */
  placementsOf(jobId: string): ReadonlyMap<string, number> {
    return (this.#o.engine.store.lastPlacement(jobId)?.n ?? 1) > 1 ? this.#rows.placementsOf(jobId) : new Map();
  }

  /** The placement whose machine saved the file; null if it is unknown. */
  savedBy(jobId: string, path: string): number | null {
    return this.#rows.savedBy(jobId, path);
  }

  async notice(jobId: string, level: "info" | "warning", message: string, about?: "stuck"): Promise<void> {
    await this.#o.engine.commit((tx) => tx.feed(jobId, "notice", { level, message, ...(about ? { about } : {}) }));
  }

  async idle(jobId: string, node: number, error: { code: string; message: string; hint: string }): Promise<void> {
    await this.#o.engine.send(jobId, { type: "watchdog.idle", node, error });
  }

  #log(jobId: string): OpenLog {
    let log = this.#logs.get(jobId);
    if (!log)
      this.#logs.set(
        jobId,
        (log = {
          queue: Promise.resolve(),
          waiting: 0,
          stream: null,
          lastTimeMs: 0,
          series: new Map(),
          count: null,
          told: false,
          alertsSince: 0,
          alerts: new Set(),
        }),
      );
    return log;
  }

  /** Call it once a job has ended. */
  forget(jobId: string): void {
    this.#logs.delete(jobId);
    void this.#files.close(jobId);
  }

  /** Call it when this process ends. */
  async close(): Promise<void> {
    await this.#files.closeAll();
  }
}

/** Records alone move the cursor, too: the process that stores the first text of a stream may be another one. */
const movesOn = ({ from, to }: Pick<Part, "from" | "to">): boolean => to.sourceOffset > from.sourceOffset;

const movedOn = (jobId: string): SvcError => new SvcError("log_moved_on", { job_id: jobId });

/** SQLite has no NaN: it is stored as NULL, and converted back on reading. */
function toReal(value: number | "NaN" | "Infinity" | "-Infinity"): number | null {
  if (typeof value === "number") return Number.isNaN(value) ? null : value;
  return value === "NaN" ? null : value === "Infinity" ? Infinity : -Infinity;
}
