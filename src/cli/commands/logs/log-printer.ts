// Prints parts of a run's log for `svc logs`: raw, or line by line with times, as JSON, filtered, and safe for a terminal.
// log-reading.ts passes it the parts in order.

import { foldReturns, rankOf, terminalSafe } from "../../../domain/log-lines.ts";
import { safeField, toJson } from "../../../domain/terminal-text.ts";
import { take } from "../../columns.ts";
import type { Io } from "../../io.ts";
import type { WindowOptions } from "../../log-window.ts";
import type { OpenReads } from "../../store.ts";

export interface LogsOptions extends WindowOptions {
  follow: boolean;
  timestamps: boolean;
  exitStatus: boolean;
  rank: number | undefined;
  grep: RegExp | undefined;
  raw: boolean;
  json: boolean;
}

/** Moves to the first column and clears the line. */
const REWRITE = "\r\u001b[2K";
/** Colours, and the sequences by which a progress bar clears its line. */
const UNSHOWN = /\u001b\[(?:[0-9;:]{0,64}m|[0-2]?K|\?25[hl])/g;
const LINE_BYTES_MAX = 64 * 1024;

/** Prints raw bytes, or lines: with times, as JSON, or made harmless for a terminal. */
export class LogPrinter {
  readonly #reads: OpenReads;
  readonly #id: string;
  readonly #options: LogsOptions;
  readonly #io: Io;
  #rest: Buffer = Buffer.alloc(0);
  #restOffset = 0;
  #times: { offset: number; at_ms: number }[] = [];
  #timesTo = -1;
  /** Whether an unfinished line is on the terminal and must be overwritten. */
  #unfinished = false;

  constructor(reads: OpenReads, id: string, options: LogsOptions, io: Io) {
    this.#reads = reads;
    this.#id = id;
    this.#options = options;
    this.#io = io;
  }

  async print(part: Buffer, offset: number): Promise<void> {
    const { json, timestamps, raw } = this.#options;
    if (!json && !timestamps && !this.#picks && (raw || !this.#io.tty)) return this.#io.out(part);
    if (json || timestamps) this.#loadTimes(offset, offset + part.length);
    const whole = this.#rest.length > 0 ? Buffer.concat([this.#rest, part]) : part;
    let start = 0;
    const base = this.#rest.length > 0 ? this.#restOffset : offset;
    let shown = "";
    for (;;) {
      let end = whole.indexOf(0x0a, start);
      const cut = end < 0 ? whole.length - start >= LINE_BYTES_MAX : end - start > LINE_BYTES_MAX;
      if (cut) end = start + LINE_BYTES_MAX - 1;
      if (end < 0) break;
      shown += this.#line(whole.subarray(start, cut ? end + 1 : end), base + start);
      start = end + 1;
    }
    this.#rest = Buffer.from(whole.subarray(start));
    this.#restOffset = base + start;
    // A progress bar ends its line only when it is done; a person who follows wants to see it move.
    if (this.#options.follow && this.#io.tty && !json && !timestamps) {
      if (this.#unfinished) shown = `${REWRITE}${shown}`;
      this.#unfinished = this.#rest.length > 0;
      if (this.#unfinished) shown += this.#preview();
    }
    if (shown) await this.#io.out(shown);
  }

  /** Prints the rest without a line end. */
  async end(): Promise<void> {
    if (this.#unfinished) await this.#io.out(REWRITE);
    this.#unfinished = false;
    if (this.#rest.length > 0) await this.#io.out(this.#line(this.#rest, this.#restOffset));
    this.#rest = Buffer.alloc(0);
  }

  #preview(): string {
    const text = foldReturns(this.#rest.subarray(-4096).toString("utf8")).replace(UNSHOWN, "");
    if (!this.#wants(text)) return "";
    return take(safeField(text), this.#io.columns() - 1);
  }

  #line(bytes: Buffer, offset: number): string {
    const { json, timestamps, raw } = this.#options;
    let text = bytes.toString("utf8");
    if (!this.#wants(text)) return "";
    if (json) return `${toJson({ offset, at: this.#at(offset), line: text })}\n`;
    if (this.#io.tty && !raw) {
      text = terminalSafe(foldReturns(text));
      if (text.includes("\u001b[")) text += "\u001b[0m";
    }
    return timestamps ? `${this.#at(offset) ?? "-"} ${text}\n` : `${text}\n`;
  }

  /** Whether some lines are left out. */
  get #picks(): boolean {
    return this.#options.rank !== undefined || this.#options.grep !== undefined;
  }

  #wants(text: string): boolean {
    const { rank, grep } = this.#options;
    if (rank !== undefined && rankOf(text) !== rank) return false;
    return grep === undefined || grep.test(text.replace(UNSHOWN, ""));
  }

  #loadTimes(from: number, to: number): void {
    if (to <= this.#timesTo) return;
    const more = this.#reads.logTimes(this.#id, from);
    this.#times = [...this.#times.filter((t) => t.offset < (more[0]?.offset ?? 0)).slice(-1), ...more];
    this.#timesTo = Math.max(to, more.at(-1)?.offset ?? 0);
  }

  #at(offset: number): string | null {
    let low = 0;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#times[middle]?.offset ?? 0) <= offset) low = middle + 1;
      else high = middle;
    }
    const entry = this.#times[low - 1] ?? this.#times[0];
    return entry ? new Date(entry.at_ms).toISOString() : null;
  }
}
