// A window of a log that may be far larger than memory: whole lines between two byte offsets.

import { PLAIN, styleAfter, type Style } from "./ansi.ts";

export interface LogLine {
  /** What is shown: of a progress bar that rewrote itself with `\r`, the last state. */
  text: string;
  /** The colours that the line before left on. */
  style: Style;
  bytes: number;
}

const LINES_MAX = 100_000;
const LINES_DROPPED = 20_000;
const SHOWN_MAX = 4_000;
const NEWLINE = 10;

/** What a terminal would show of a line that returned to its beginning. */
export function folded(line: string): string {
  const end = line.endsWith("\r") ? line.replace(/\r+$/, "") : line;
  const last = end.lastIndexOf("\r");
  return last < 0 ? end : end.slice(last + 1);
}

export class LogLines {
  lines: LogLine[] = [];
  /** Byte offsets of the first line and of the next byte to ask for. */
  start: number;
  end: number;
  /** The longest line in characters: gives the pane a width that does not jump. */
  longest = 0;
  #rest: Uint8Array = new Uint8Array();
  #style: Style = PLAIN;
  readonly #decoder = new TextDecoder();

  constructor(offset: number) {
    this.start = offset;
    this.end = offset;
  }

  /** The unfinished last line, if any. */
  get open(): LogLine | null {
    if (this.#rest.length === 0) return null;
    return { text: this.#shown(this.#rest), style: this.#style, bytes: this.#rest.length };
  }

  append(bytes: Uint8Array): void {
    this.end += bytes.length;
    const { lines, rest } = this.#split(joined(this.#rest, bytes), this.#style);
    this.#rest = rest;
    for (const line of lines) this.lines.push(line);
    const last = lines.at(-1);
    if (last) this.#style = styleAfter(last.text, last.style);
    if (this.lines.length > LINES_MAX) {
      for (const line of this.lines.splice(0, LINES_DROPPED)) this.start += line.bytes;
    }
  }

  /** Puts whole earlier lines in front; returns how many. `bytes` ends where this window starts. */
  prepend(bytes: Uint8Array, offset: number): number {
    // A part that begins in the middle of a line waits until that line is whole.
    const cut = offset === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
    const { lines } = this.#split(bytes.subarray(cut), PLAIN);
    if (lines.length === 0) return 0;
    this.start = offset + cut;
    this.lines = [...lines, ...this.lines];
    return lines.length;
  }

  #split(bytes: Uint8Array, style: Style): { lines: LogLine[]; rest: Uint8Array } {
    const lines: LogLine[] = [];
    let from = 0;
    let current = style;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, from);
      if (end < 0) break;
      const line = { text: this.#shown(bytes.subarray(from, end)), style: current, bytes: end + 1 - from };
      lines.push(line);
      current = styleAfter(line.text, current);
      from = end + 1;
    }
    return { lines, rest: bytes.slice(from) };
  }

  #shown(bytes: Uint8Array): string {
    const text = folded(this.#decoder.decode(bytes));
    const shown =
      text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)} … ${text.length - SHOWN_MAX} more characters` : text;
    this.longest = Math.max(this.longest, shown.length);
    return shown;
  }
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  if (a.length === 0) return b;
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
