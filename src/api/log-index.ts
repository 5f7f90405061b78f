// Indexes the stored logs by line. A log is only ever appended to, so a count stays valid.
//
// X1. It keeps the offset of every MARK_EVERY-th line: a few kilobytes for a million lines. It is built on demand,
//     extended from where it ended, and dropped for jobs that were not read lately.
// X2. A log is scanned in parts, with a turn of the event loop between them: a log of gigabytes must not delay a run.
// X3. At most HEAD_BYTES of one line are in memory, for any length.

import { foldReturns } from "../domain/log-lines.ts";
import type { LogLine } from "../schemas/log.ts";
import type { Reads } from "../store/reads.ts";

export const MARK_EVERY = 1_000;
const PART_BYTES = 1 << 20;
const READ_BYTES = 1 << 16;
const HEAD_BYTES = 1 << 16;
/** Maximum of characters sent of one line. */
const SHOWN_MAX = 4_000;
/** Maximum of characters in one answer. */
const ANSWER_CHARS_MAX = 1 << 20;
const JOBS_MAX = 64;
const NEWLINE = 0x0a;
const RETURN = 0x0d;

export type LogReads = Pick<Reads, "readLog" | "logBytes" | "logTimes">;

/** A stored line, with its colours, with `\r` folded. */
export interface StoredLine {
  /** Counted from 0. */
  index: number;
  offset: number;
  text: string;
}

export interface Counted {
  lines: number;
  bytes: number;
}

/** Yields one turn of the event loop to other work. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Marks {
  /** Offset of line 0, MARK_EVERY, 2 × MARK_EVERY … */
  offsets: number[];
  /** Number of line ends before `scanned`. */
  ends: number;
  scanned: number;
  busy: Promise<void>;
}

export class LogIndex {
  readonly #reads: LogReads;
  readonly #jobs = new Map<string, Marks>();

  constructor(reads: LogReads) {
    this.#reads = reads;
  }

  /** Counts the lines that were written since the last call. */
  async count(id: string): Promise<Counted> {
    const marks = this.#marks(id);
    const bytes = this.#reads.logBytes(id);
    const counting = marks.busy.then(() => this.#scan(id, marks, bytes));
    marks.busy = counting.catch(() => undefined);
    await counting;
    return this.#counted(id, marks);
  }

  #counted(id: string, marks: Marks): Counted {
    const open = marks.scanned > 0 && this.#reads.readLog(id, marks.scanned - 1, 1)[0] !== NEWLINE;
    return { lines: marks.ends + (open ? 1 : 0), bytes: marks.scanned };
  }

  #marks(id: string): Marks {
    const known = this.#jobs.get(id) ?? { offsets: [0], ends: 0, scanned: 0, busy: Promise.resolve() };
    this.#jobs.delete(id);
    this.#jobs.set(id, known);
    const [oldest] = this.#jobs.keys();
    if (this.#jobs.size > JOBS_MAX && oldest !== undefined) this.#jobs.delete(oldest);
    return known;
  }

  async #scan(id: string, marks: Marks, bytes: number): Promise<void> {
    while (marks.scanned < bytes) {
      const part = this.#reads.readLog(id, marks.scanned, Math.min(PART_BYTES, bytes - marks.scanned));
      if (part.length === 0) return;
      for (let at = part.indexOf(NEWLINE); at >= 0; at = part.indexOf(NEWLINE, at + 1)) {
        marks.ends += 1;
        if (marks.ends % MARK_EVERY === 0) marks.offsets.push(marks.scanned + at + 1);
      }
      marks.scanned += part.length;
      if (marks.scanned < bytes) await turn();
    }
  }

  /** At most `count` lines, starting at line `from` (counted from 0). */
  async lines(id: string, from: number, count: number): Promise<LogLine[]> {
    const { bytes } = await this.count(id);
    const marks = this.#marks(id);
    const block = Math.min(Math.floor(from / MARK_EVERY), marks.offsets.length - 1);
    const clock = new LineClock(this.#reads, id);
    const found: LogLine[] = [];
    let chars = 0;
    const start = { index: block * MARK_EVERY, offset: marks.offsets[block] ?? 0 };
    for await (const part of linesFrom(this.#reads, id, start, bytes, READ_BYTES)) {
      for (const line of part) {
        if (line.index < from) continue;
        if (line.index >= from + count || chars > ANSWER_CHARS_MAX) return found;
        const shown = shownLine(line, clock);
        found.push(shown);
        chars += shown.text.length;
      }
    }
    return found;
  }

  /** The line (counted from 0) that holds the byte at `offset`. */
  async lineAt(id: string, offset: number): Promise<number> {
    const { lines } = await this.count(id);
    const { offsets } = this.#marks(id);
    let [low, high] = [0, offsets.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((offsets[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    let line = low * MARK_EVERY;
    for (let at = offsets[low] ?? 0; at < offset;) {
      const part = this.#reads.readLog(id, at, Math.min(READ_BYTES, offset - at));
      if (part.length === 0) break;
      for (let end = part.indexOf(NEWLINE); end >= 0; end = part.indexOf(NEWLINE, end + 1)) line += 1;
      at += part.length;
    }
    return Math.max(0, Math.min(line, lines - 1));
  }

  /** The first line that was written at `atMs` or later; the last line if all are older. */
  async lineAtTime(id: string, atMs: number): Promise<number> {
    const times = this.#reads.logTimes(id, 0);
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((times[middle]?.at_ms ?? 0) < atMs) low = middle + 1;
      else high = middle;
    }
    return this.lineAt(id, times[low]?.offset ?? this.#reads.logBytes(id));
  }
}

/** The part of a stored line that is sent. Pass lines to one clock in ascending order. */
export function shownLine({ index, offset, text }: StoredLine, clock: LineClock): LogLine {
  const cut = Math.max(0, text.length - SHOWN_MAX);
  return { line: index + 1, at_ms: clock.at(offset), text: cut > 0 ? text.slice(0, SHOWN_MAX) : text, cut };
}

/** Lines from the beginning of one up to the byte `end`, in parts. Yields to other work after each part. */
export async function* linesFrom(
  reads: LogReads,
  id: string,
  start: { index: number; offset: number },
  end: number,
  partBytes = PART_BYTES,
): AsyncGenerator<StoredLine[]> {
  let { index, offset } = start;
  let rest: Buffer = Buffer.alloc(0);
  for (let at = start.offset; at < end;) {
    const part = reads.readLog(id, at, Math.min(partBytes, end - at));
    if (part.length === 0) break;
    const lines: StoredLine[] = [];
    let from = 0;
    for (let stop = part.indexOf(NEWLINE); stop >= 0; stop = part.indexOf(NEWLINE, from)) {
      const piece = part.subarray(from, stop);
      lines.push({ index, offset, text: textOf(rest.length > 0 ? Buffer.concat([rest, piece]) : piece) });
      rest = Buffer.alloc(0);
      index += 1;
      from = stop + 1;
      offset = at + from;
    }
    rest = held(rest, part.subarray(from));
    at += part.length;
    if (lines.length > 0) yield lines;
    if (at < end) await turn();
  }
  if (rest.length > 0) yield [{ index, offset, text: textOf(rest) }];
}

const textOf = (bytes: Buffer): string => foldReturns(bytes.toString("utf8"));

/**
 * The unfinished line so far, without the text that a progress bar has overwritten, and no longer than will be shown.
 */
function held(before: Buffer, more: Buffer): Buffer {
  const all = before.length === 0 ? Buffer.from(more) : Buffer.concat([before, more]);
  if (all.length <= HEAD_BYTES) return all;
  const written = all.lastIndexOf(RETURN, all.length - 2);
  return (written >= 0 ? all.subarray(written + 1) : all).subarray(0, HEAD_BYTES);
}

/** Tells when the byte at an offset was written. Pass offsets in ascending order. */
export class LineClock {
  #times: { offset: number; at_ms: number }[] = [];
  #index = 0;
  #known = 0;
  readonly #reads: Pick<LogReads, "logBytes" | "logTimes">;
  readonly #id: string;

  constructor(reads: Pick<LogReads, "logBytes" | "logTimes">, id: string) {
    this.#reads = reads;
    this.#id = id;
  }

  at(offset: number): number {
    if (offset >= this.#known) {
      this.#known = this.#reads.logBytes(this.#id);
      this.#times = this.#reads.logTimes(this.#id, offset);
      this.#index = 0;
    }
    for (let next = this.#times[this.#index + 1]; next && next.offset <= offset; next = this.#times[this.#index + 1])
      this.#index++;
    return this.#times[this.#index]?.at_ms ?? 0;
  }
}
