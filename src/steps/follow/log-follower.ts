// Downloads a run's data while it runs: log, metrics, samples, checkpoints. After any interruption it resumes from the
// recorded offset; no state is only in memory, so the next control plane misses nothing.

import { setTimeout as pause } from "node:timers/promises";
import type { CheckpointCollector } from "../checkpoints/collector.ts";
import type { CheckpointScan } from "../checkpoints/scan.ts";
import type { Announcement } from "../checkpoints/announcements.ts";
import { withHomeNames } from "../checkpoints/home-names.ts";
import type { LogCursor, RunLogWriter } from "../ports.ts";
import { SvcError } from "../../errors/index.ts";
import { parseLog, type LogRecord } from "../../domain/log-stream.ts";
import { REDACTED, Redactor } from "../../domain/redaction.ts";
import type { LogSlice, RunHost, RunLook } from "../../providers/host.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import type { RunnerSample, RunnerStatus } from "../../schemas/runner.ts";

/** Bytes per request: limits the memory for a flood, and is large enough to keep up with one. */
const PULL_BYTES = 4 * 1024 * 1024;
/** The part of the log's end that is kept for error messages: ranks fail one after another, with a traceback each. */
const TAIL_BYTES = 32_768;
const ACK_EVERY_BYTES = 8 * 1024 * 1024;
/** How often missing bytes that the runner counted are searched before they are given up. */
const LOOKS_FOR_MISSING = 5;
const MISSING_PAUSE_MS = 200;

export interface FollowedRun {
  jobId: string;
  node: number;
  stream: "run" | "install";
  /** The prefix of this node's lines, if several nodes write one log. */
  tag: string | null;
  host: RunHost;
  sink: RunLogWriter;
  mark: string;
  readonly redactor: Redactor;
  signal: AbortSignal;
  /**
   * Called with records before they are stored, and so perhaps more than once: a crash in between must not lose them.
   */
  hears?: (records: LogRecord[]) => void;
  /** Keeps bytes that were read but not committed, for when no more arrive. */
  undecided?: Undecided;
}

/** The result of one pull. */
export interface Pulled {
  /** Committed bytes, with those that the machine no longer has. Bytes that may still become a secret, a record or a line are left for later. */
  bytes: number;
  records: LogRecord[];
  samples: RunnerSample[];
}

/**
 * The ends of logs that were read but not committed, because they may still become a secret, a record, or a whole line.
 * A lost machine sends no more, and these bytes are its last output.
 */
export class Undecided {
  readonly #kept = new Map<
    string,
    { run: FollowedRun; offset: number; bytes: Buffer; slice: Omit<LogSlice, "bytes"> }
  >();

  /** @param offset position of the first of `bytes` in the stream. */
  keep(run: FollowedRun, offset: number, bytes: Buffer, slice: Omit<LogSlice, "bytes">): void {
    const name = nameOf(run.jobId, run.node, run.stream);
    // A copy: the bytes are the end of a part that may be megabytes.
    if (bytes.length === 0) this.#kept.delete(name);
    else this.#kept.set(name, { run, offset, bytes: Buffer.from(bytes), slice });
  }

  /** No more arrives from this node: its kept bytes become text. May be called again, also after a failure. */
  async settle(jobId: string, node: number): Promise<void> {
    for (const stream of ["install", "run"] as const) {
      const name = nameOf(jobId, node, stream);
      const kept = this.#kept.get(name);
      if (kept === undefined) continue;
      const { run, offset, bytes, slice } = kept;
      const { sink, tag, mark, redactor } = run;
      const from = sink.cursor(jobId, node, stream);
      // Another process has committed these bytes since.
      if (from.sourceOffset === offset) {
        const { text, records } = parseLog(bytes, { mark, redactor, final: true, cut: true, wholeLines: tag !== null });
        byOurClock(records, slice.clockAheadMs ?? 0);
        if (records.length > 0) run.hears?.(records);
        const { times } = slice;
        const to = { ...from, sourceOffset: offset + bytes.length };
        await sink.append({ jobId, node, stream, from, to, text: tagged(text, tag), records, samples: [], times });
      }
      this.#kept.delete(name);
    }
  }

  /** Call it once a job has ended. */
  forget(jobId: string): void {
    for (const name of this.#kept.keys()) if (name.startsWith(`${jobId} `)) this.#kept.delete(name);
  }
}

const nameOf = (jobId: string, node: number, stream: string): string => `${jobId} ${node} ${stream}`;

/** Follows one stream of one node. Every method may be called again after a failure. */
export class Follower {
  readonly #run: FollowedRun;
  #at: LogCursor;
  #acked: number;
  /** The end of the log as far as it was read: held-back bytes do not count as new. */
  #seen: number;
  #tail = "";

  constructor(run: FollowedRun) {
    this.#run = run;
    this.#at = run.sink.cursor(run.jobId, run.node, run.stream);
    this.#acked = this.#at.sourceOffset;
    this.#seen = this.#at.sourceOffset;
  }

  /** The end of the log as far as this follower has committed it: without records and secrets. */
  get tail(): string {
    return this.#tail;
  }

  get offset(): number {
    return this.#at.sourceOffset;
  }

  /** Waits up to `waitMs` for new data, polls the run, and commits what has arrived. */
  async next(waitMs: number, samplesDue: () => boolean): Promise<{ look: RunLook | null; pulled: Pulled }> {
    const { host, signal } = this.#run;
    const from = this.#at;
    const want = { offset: from.sourceOffset, max: PULL_BYTES, seen: this.#seen, waitMs };
    const { look, slice } = await host.follow(want, signal);
    const endsAt = look !== null && look.phase !== "running" ? look.log_bytes : null;
    return { look, pulled: await this.#take(from, slice, endsAt, samplesDue()) };
  }

  /**
   * Commits available bytes, up to `PULL_BYTES`.
   * @param endsAt length of the log if the run has ended: then its last bytes are final, whatever they look like.
   */
  async pull(endsAt: number | null, withSamples: boolean): Promise<Pulled> {
    const from = this.#at;
    const slice = await this.#run.host.readLog(from.sourceOffset, PULL_BYTES, this.#run.signal);
    return this.#take(from, slice, endsAt, withSamples);
  }

  async #take(from: LogCursor, slice: LogSlice, endsAt: number | null, withSamples: boolean): Promise<Pulled> {
    const { host, sink, jobId, node, stream, tag, mark, redactor, signal } = this.#run;
    const sampled = withSamples
      ? await host.readSamples(from.samplesOffset, signal)
      : { samples: [], next: from.samplesOffset };
    const gap = slice.dropped ?? 0;
    // The bytes may begin within a secret.
    const half = gap > 0 ? redactor.headOfCut(slice.bytes) : 0;
    const begin = from.sourceOffset + gap + half;
    const bytes = slice.bytes.subarray(half);
    const final = endsAt !== null && begin + bytes.length >= endsAt;
    const parsed = parseLog(bytes, { mark, redactor, final, wholeLines: tag !== null });
    byOurClock(parsed.records, slice.clockAheadMs ?? 0);
    const to = { sourceOffset: begin + parsed.consumed, samplesOffset: sampled.next };
    const taken = to.sourceOffset - from.sourceOffset;
    if (taken > 0 || sampled.samples.length > 0) {
      const lost = gap > 0 ? wordsOfGap(gap, stream === "run" ? "the log" : "the installer's log") : null;
      const head = lost === null ? "" : `svc: ${lost}\n${half > 0 ? REDACTED : ""}`;
      const text = head === "" ? parsed.text : Buffer.concat([Buffer.from(head), parsed.text]);
      const part = {
        lost,
        text: tagged(text, tag),
        records: parsed.records,
        samples: sampled.samples,
        times: slice.times,
      };
      if (parsed.records.length > 0) this.#run.hears?.(parsed.records);
      try {
        await sink.append({ jobId, node, stream, from, to, ...part });
        this.#at = to;
        this.#tail = (this.#tail + parsed.text.toString("utf8", Math.max(0, parsed.text.length - TAIL_BYTES))).slice(
          -TAIL_BYTES,
        );
      } catch (e) {
        if (!(e instanceof SvcError && e.code === "log_moved_on")) throw e;
        // A step that was cancelled during its write has stored this part: continue from its cursor.
        this.#at = sink.cursor(jobId, node, stream);
        this.#seen = this.#at.sourceOffset;
        return { bytes: taken, records: [], samples: [] };
      }
    }
    this.#seen = begin + bytes.length;
    this.#run.undecided?.keep(this.#run, to.sourceOffset, bytes.subarray(parsed.consumed), {
      times: slice.times,
      clockAheadMs: slice.clockAheadMs ?? 0,
    });
    if (to.sourceOffset - this.#acked >= ACK_EVERY_BYTES || (final && to.sourceOffset > this.#acked)) {
      await host.ackLog(to.sourceOffset, signal);
      this.#acked = to.sourceOffset;
    }
    return { bytes: taken, records: parsed.records, samples: sampled.samples };
  }

  /** Tells the machine at once how much of the log is stored: on a full disk only that makes room for more. */
  async acknowledge(): Promise<void> {
    const { sourceOffset } = this.#at;
    if (sourceOffset <= this.#acked) return;
    await this.#run.host.ackLog(sourceOffset, this.#run.signal);
    this.#acked = sourceOffset;
  }

  /**
   * Downloads everything up to the end of an ended run.
   * @returns the number of bytes that the runner counted but that could not be found.
   */
  async drain(status: RunnerStatus): Promise<number> {
    const end = status.log_bytes;
    const least = end ?? Infinity;
    for (let looks = 0; this.#at.sourceOffset < least;) {
      const { bytes } = await this.pull(end, false);
      if (bytes > 0) looks = 0;
      else if (end === null || ++looks >= LOOKS_FOR_MISSING) break;
      else await pause(MISSING_PAUSE_MS, undefined, { signal: this.#run.signal });
    }
    // One answer has a limited number of samples.
    while ((await this.pull(this.#at.sourceOffset, true)).samples.length > 0) this.#run.signal.throwIfAborted();
    return end === null ? 0 : Math.max(0, end - this.#at.sourceOffset);
  }
}

const wordsOfGap = (bytes: number, log: string): string =>
  `${bytes} ${bytes === 1 ? "byte" : "bytes"} of ${log} are missing here, because the machine no longer has them. It deletes what svc has stored: if this home was restored from an older copy, the missing part was stored after that copy. Otherwise something on the machine deleted it.`;

/** A script stamps its metrics by the clock of its machine. */
function byOurClock(records: LogRecord[], aheadMs: number): void {
  if (aheadMs === 0) return;
  for (const record of records) if (record.kind === "metrics") record.time = Math.max(0, record.time - aheadMs / 1_000);
}

/**
 * Each line with the node's tag in front, if there is one: so one log can hold the lines of several nodes. The text ends as a line, or as
 * the state of a progress bar, because another node may write next.
 */
function tagged(text: Buffer, tag: string | null): Buffer {
  if (text.length === 0 || tag === null) return text;
  const mark = Buffer.from(tag);
  const pieces: Buffer[] = [];
  for (let at = 0; at < text.length;) {
    const found = text.indexOf(0x0a, at);
    const end = found < 0 ? text.length : found + 1;
    pieces.push(mark, text.subarray(at, end));
    at = end;
  }
  const last = text.at(-1);
  if (last !== 0x0a && last !== 0x0d) pieces.push(Buffer.from("\n"));
  return Buffer.concat(pieces);
}

/** Paths, relative to the checkpoint directory, that the script itself announced as complete. */
export function announced(records: LogRecord[], checkpointDir: string): Announcement[] {
  const root = checkpointDir.endsWith("/") ? checkpointDir : `${checkpointDir}/`;
  return records.flatMap((r) =>
    r.kind !== "checkpoint"
      ? []
      : [
          {
            path: r.path.startsWith(root) ? r.path.slice(root.length) : r.path,
            step: r.step,
            at: millisecondsOf(r.time),
          },
        ],
  );
}

/** Null for a number that is no time. */
function millisecondsOf(seconds: number | null): number | null {
  const at = Math.round((seconds ?? Number.NaN) * 1_000);
  return Math.abs(at) <= 8.64e15 ? at : null;
}

/**
 * The local folder of a node's checkpoints below those of the run: each node has its own, and gets them back on
 * resuming.
 */
export const nodeFolder = (node: number): string => (node === 0 ? "" : `node${node}/`);

/** Null while the secrets of the run cannot be read: its output must not be stored then. */
export function redactorIfReadable(run: FollowedRun): Redactor | null {
  try {
    return run.redactor;
  } catch {
    return null;
  }
}

/** One scan; downloaded files are recorded at once. Secrets that cannot be read keep no file from being downloaded. */
export function collectNow(run: FollowedRun, collector: CheckpointCollector, options: Omit<CheckpointScan, "record">) {
  const below = nodeFolder(run.node);
  const record = (files: CheckpointFile[], removed: readonly string[]) =>
    run.sink.checkpoints(
      run.jobId,
      files.map((file) => ({ ...file, path: `${below}${file.path}` })),
      removed.map((path) => `${below}${path}`),
    );
  // Names of files hardly ever hold a secret, and a lost checkpoint is lost for good.
  const names = redactorIfReadable(run) ?? new Redactor([]);
  return collector.scan(withHomeNames(run.host, names, collector.home), { ...options, record });
}
