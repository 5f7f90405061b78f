// Holds the rows of a log that were viewed. Pages are loaded on demand, and the oldest are dropped.
//
// R1. Rows are counted from 0. Without a filter row i is line i + 1; with one it is the i-th line that matches.
// R2. A row that was the last of an open log may have been half a line: it is read again when there is more.
// R3. At most one request per page is under way; requests for pages that are no longer in view are aborted.

import type { LogLine } from "../../../../src/schemas/log.ts";
import { runApi as api } from "../run-api.ts";
import { PLAIN, styleAfter, type Style } from "./ansi.ts";

export interface LogFilter {
  q: string;
  errors: boolean;
  tag: string | null;
}

export interface LogRow extends LogLine {
  /** The colours at the end of the row before. */
  style: Style;
}

const PAGE = 200;
const PAGES_MAX = 100;
const TAIL = 300;
const TAGS_MAX = 512;
const AGAIN_MS = 1_000;

type Answer = { rows: number; totalLines: number; from: number; lines: LogLine[]; capped: boolean };
export type Ask = (query: Record<string, string | number>, signal: AbortSignal) => Promise<Answer>;

/** Requests rows from the API; `from` is counted from 0 here. */
export function askLog(id: string, filter: LogFilter | null): Ask {
  return async ({ from, ...query }, signal) => {
    if (filter === null) {
      const start = from === undefined ? {} : { from: Number(from) + 1 };
      const answer = await api.logLines(id, { ...query, ...start }, signal);
      const first = answer.lines[0];
      return {
        rows: answer.total_lines,
        totalLines: answer.total_lines,
        from: first ? first.line - 1 : answer.total_lines,
        lines: answer.lines,
        capped: false,
      };
    }
    const asked = { ...query, ...(from === undefined ? {} : { from }), ...searchQuery(filter) };
    const answer = await api.logSearch(id, asked, signal);
    const { matches, total_lines, capped, lines } = answer;
    return { rows: matches, totalLines: total_lines, from: answer.from, lines, capped };
  };
}

export const searchQuery = ({ q, errors, tag }: LogFilter): Record<string, string | number> => ({
  ...(q ? { q } : {}),
  ...(errors ? { errors: 1 } : {}),
  ...(tag ? { tag } : {}),
});

export class LogSource {
  /** The number of rows; null until the first answer. */
  rows: number | null = null;
  totalLines = 0;
  capped = false;
  /** Prefixes of nodes and ranks that were seen at the beginning of lines. */
  tags: readonly string[] = [];
  longest = 0;
  readonly #ask: Ask;
  readonly #changed: (error: unknown) => void;
  readonly #pages = new Map<number, (LogRow | undefined)[]>();
  readonly #asked = new Map<number, AbortController>();
  /** Pages that could not be read, for a while: each drawing wants them. */
  readonly #resting = new Set<number>();
  #view = { first: 0, last: 0 };
  readonly #gone = new AbortController();

  constructor(ask: Ask, changed: (error: unknown) => void) {
    this.#ask = ask;
    this.#changed = changed;
  }

  close(): void {
    this.#gone.abort();
    for (const each of this.#asked.values()) each.abort();
  }

  row(index: number): LogRow | null {
    return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  /** Updates the number of rows; with `end` also loads the last of them, in the same request. */
  async refresh(end: boolean): Promise<void> {
    const answer = await this.#ask({ count: end ? TAIL : 0 }, this.#gone.signal);
    this.#take(answer);
  }

  /** Rows `from` to `to` (exclusive) are in view: requests missing ones. */
  want(from: number, to: number): void {
    const first = Math.floor(Math.max(0, from) / PAGE);
    const last = Math.floor(Math.max(0, Math.min(to, this.rows ?? 0) - 1) / PAGE);
    this.#view = { first, last };
    for (const [page, asked] of this.#asked) if (page < first || page > last) asked.abort();
    for (let page = first; page <= last; page++) this.#load(page);
  }

  #load(page: number): void {
    if (this.#asked.has(page) || this.#resting.has(page) || this.#gone.signal.aborted) return;
    const known = this.#pages.get(page) ?? [];
    const end = Math.min(PAGE, (this.rows ?? 0) - page * PAGE);
    let missing = 0;
    while (missing < end && known[missing] !== undefined) missing++;
    if (missing >= end) return;
    const asked = new AbortController();
    this.#asked.set(page, asked);
    this.#ask({ from: page * PAGE + missing, count: end - missing }, asked.signal)
      .then(
        (answer) => {
          this.#asked.delete(page);
          // An empty answer for existing rows would be requested again for ever.
          if (answer.lines.length > 0) this.#take(answer);
        },
        (error: unknown) => {
          this.#asked.delete(page);
          if (asked.signal.aborted) return;
          this.#rest(page);
          this.#changed(error);
        },
      )
      .catch(() => undefined);
  }

  /** Requests a page that could not be read again after a pause. */
  #rest(page: number): void {
    this.#resting.add(page);
    setTimeout(() => {
      this.#resting.delete(page);
      if (page >= this.#view.first && page <= this.#view.last) this.#load(page);
    }, AGAIN_MS);
  }

  #take({ rows, totalLines, from, lines, capped }: Answer): void {
    if (this.#gone.signal.aborted) return;
    if (this.rows !== null && rows > this.rows) this.#forget(this.rows - 1, from, from + lines.length);
    this.rows = rows;
    this.totalLines = totalLines;
    this.capped = capped;
    for (const [i, line] of lines.entries()) this.#put(from + i, line);
    while (this.#pages.size > PAGES_MAX) {
      const [oldest] = this.#pages.keys();
      if (oldest === undefined) break;
      this.#pages.delete(oldest);
    }
    this.#changed(null);
  }

  /** R2: unless the answer contains the row itself. */
  #forget(index: number, from: number, to: number): void {
    if (index < 0 || (index >= from && index < to)) return;
    const page = this.#pages.get(Math.floor(index / PAGE));
    if (page) page[index % PAGE] = undefined;
  }

  #put(index: number, line: LogLine): void {
    const at = Math.floor(index / PAGE);
    const page = this.#pages.get(at) ?? [];
    this.#pages.delete(at);
    this.#pages.set(at, page);
    const known = page[index % PAGE];
    // Keep the object: its drawn row stays.
    if (known && known.text === line.text && known.line === line.line) return;
    const before = this.row(index - 1);
    const style = before && before.line === line.line - 1 ? styleAfter(before.text, before.style) : PLAIN;
    page[index % PAGE] = { ...line, style };
    this.longest = Math.max(this.longest, line.text.length);
    for (const tag of tagsOf(line.text))
      if (this.tags.length < TAGS_MAX && !this.tags.includes(tag)) this.tags = [...this.tags, tag];
  }
}

/** The prefixes of nodes and ranks at the beginning of a line: `[node1] [rank3]: …`. */
export function tagsOf(text: string): string[] {
  if (!text.startsWith("[")) return [];
  const marks = /^(?:\[(?:node|rank ?|default)\d{1,5}\]:?\s*)+/.exec(text)?.[0] ?? "";
  return [...marks.matchAll(/\[([^\]]+)\]/g)].flatMap((match) => match[1] ?? []);
}

/** What the log can be filtered by: the prefixes seen so far, and those of all `nodes` of a run on several. */
export function tagChoices(seen: readonly string[], nodes: number, chosen: string | null): string[] {
  const tags = new Set(seen);
  if (nodes > 1) for (let node = 0; node < nodes; node++) tags.add(`node${node}`);
  if (chosen !== null) tags.add(chosen);
  return [...tags].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}
