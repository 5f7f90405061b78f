// Searches a stored log for lines. The matches of each query are kept, so that paging and following a growing log cost
// only the new lines.

import type { LogMatches } from "../schemas/log.ts";
import { LineClock, linesFrom, shownLine, type LogIndex, type LogReads, type StoredLine } from "./log-index.ts";

export interface LogQuestion {
  /**
   * Matches the visible text, without colours. A lower-case query also finds upper case, as in `git grep` and editors.
   */
  text: string;
  errors: boolean;
  /** Selects the lines of one node or rank, by their prefix: `node 1`, `rank3`. */
  tag: string | null;
}

/** Maximum of matches that are counted. */
export const MATCHES_MAX = 200_000;
const QUESTIONS_MAX = 16;
/** Maximum of characters examined in a line. */
const LOOKED_AT_MAX = 16_384;

interface Found {
  /** Line numbers (from 0) and offsets of the lines that match. */
  at: { index: number; offset: number }[];
  capped: boolean;
  /** The first line that was not examined to its end. */
  next: { index: number; offset: number };
  inTrace: boolean;
  busy: Promise<void>;
}

export class LogSearch {
  readonly #reads: LogReads;
  readonly #index: LogIndex;
  readonly #found = new Map<string, Found>();

  constructor(reads: LogReads, index: LogIndex) {
    this.#reads = reads;
    this.#index = index;
  }

  /**
   * Matches in their order.
   * @param page `from`: an index from 0; `near`: starts at the first match at this line (from 0) or later, or at the
   * last match if there is none.
   */
  async find(
    id: string,
    question: LogQuestion,
    page: { from?: number | undefined; near?: number | undefined; count: number },
  ): Promise<LogMatches> {
    const counted = await this.#index.count(id);
    const found = this.#of(id, question);
    const looking = found.busy.then(() => this.#look(id, question, found, counted.bytes));
    found.busy = looking.catch(() => undefined);
    await looking;
    const matches = found.at.length;
    const near = page.near;
    const from =
      near === undefined
        ? (page.from ?? Math.max(0, matches - page.count))
        : Math.min(firstFrom(found.at, near), Math.max(0, matches - 1));
    const clock = new LineClock(this.#reads, id);
    const lines = [];
    for (const place of found.at.slice(from, from + page.count)) {
      for await (const [line] of linesFrom(this.#reads, id, place, counted.bytes, 4_096)) {
        if (line) lines.push(shownLine(line, clock));
        break;
      }
    }
    return { total_lines: counted.lines, bytes: counted.bytes, matches, capped: found.capped, from, lines };
  }

  #of(id: string, question: LogQuestion): Found {
    const key = JSON.stringify([id, question.text, question.errors, question.tag]);
    const known = this.#found.get(key) ?? {
      at: [],
      capped: false,
      next: { index: 0, offset: 0 },
      inTrace: false,
      busy: Promise.resolve(),
    };
    this.#found.delete(key);
    this.#found.set(key, known);
    const [oldest] = this.#found.keys();
    if (this.#found.size > QUESTIONS_MAX && oldest !== undefined) this.#found.delete(oldest);
    return known;
  }

  async #look(id: string, question: LogQuestion, found: Found, bytes: number): Promise<void> {
    if (found.capped || found.next.offset >= bytes) return;
    const start = found.next;
    // A last line without an end is examined again when it grows.
    while ((found.at.at(-1)?.index ?? -1) >= start.index) found.at.pop();
    const matches = matcher(question);
    let last: StoredLine | null = null;
    let before = found.inTrace;
    for await (const part of linesFrom(this.#reads, id, start, bytes)) {
      for (const line of part) {
        last = line;
        before = found.inTrace;
        const text = line.text.length > LOOKED_AT_MAX ? line.text.slice(0, LOOKED_AT_MAX) : line.text;
        const bad = question.errors ? errorLine(text, found.inTrace) : null;
        if (bad) found.inTrace = bad.inTrace;
        if (bad?.bad === false || !matches(text)) continue;
        found.at.push({ index: line.index, offset: line.offset });
        if (found.at.length < MATCHES_MAX) continue;
        found.capped = true;
        return;
      }
    }
    if (last === null) return;
    const ended = this.#reads.readLog(id, bytes - 1, 1)[0] === 0x0a;
    found.next = ended ? { index: last.index + 1, offset: bytes } : last;
    if (!ended) found.inTrace = before;
  }
}

/** The index of the first match at `line` or later. */
function firstFrom(at: readonly { index: number }[], line: number): number {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle]?.index ?? 0) < line) low = middle + 1;
    else high = middle;
  }
  return low;
}

// eslint-disable-next-line no-control-regex -- escape sequences begin with one
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|[ -/]*[0-~]?)/g;
const plain = (text: string): string => (text.includes("\u001b") ? text.replace(ESCAPES, "") : text);

function matcher({ text, tag }: LogQuestion): (line: string) => boolean {
  const any = text === text.toLowerCase();
  const marked = tag === null ? null : `[${tag}]`;
  return (line) => {
    const shown = plain(line);
    if (marked !== null && !marksOf(shown).includes(marked)) return false;
    return text === "" || (any ? shown.toLowerCase() : shown).includes(text);
  };
}

/** The marks that a line begins with: `[node1] [rank3]: …`. */
const marksOf = (line: string): string => /^(?:\[[^\]]{1,40}\]:?\s*)*/.exec(line)?.[0] ?? "";

// Only one part matches blanks: if two could, a line of blanks would be tried in every combination.
const TRACE = /^\s*(?:\[[^\]]{1,40}\]:?\s*)*Traceback \(most recent call last\)/;
const BAD =
  /\b(?:error|fatal|critical|panic(?:ked)?|exception|segmentation fault|core dumped|out of memory|oom-kill\w*|killed)\b|nccl warn/i;
/** The name of an exception, or the level of a log line. */
const NAMED = /\b[A-Z]\w*(?:Error|Exception)\b|\b(?:ERR|E)[\]:|]/;
/** Words that only sound bad. */
const HARMLESS = /\b(?:0|no|without) errors?\b|\berrors?[ =:]+0\b|\berror[_ ]rate\b/i;

/** Whether a line reports an error. All lines of a Python traceback do, up to the one that names the error. */
export function errorLine(line: string, inTrace: boolean): { bad: boolean; inTrace: boolean } {
  const text = plain(line);
  if (TRACE.test(text)) return { bad: true, inTrace: true };
  const body = text.slice(marksOf(text).trimEnd().length).replace(/^[: ]/, "");
  if (inTrace) return { bad: true, inTrace: body === "" || /^\s/.test(body) };
  return { bad: (BAD.test(text) || NAMED.test(text)) && !HARMLESS.test(text), inTrace: false };
}
