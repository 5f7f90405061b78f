// Reads a stored log as lines: finds where the last lines begin, makes them safe for a terminal, and folds progress
// bars to their last state.

import { OBEYED, visible } from "./terminal-text.ts";

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const CHUNK_BYTES = 65_536;
/** The furthest that a tail looks back, so that endless lines do not make it read a whole log. */
export const TAIL_BYTES_MAX = 8 * 1024 * 1024;

/**
 * The offset at which the last `lines` lines of a text of `size` bytes begin. A line ends with LF (so CRLF counts
 * once); a last line without an end counts. A progress bar that rewrites itself with CR is one line. If the lines reach
 * further back than `bytesMax`, the answer is the first sensible start within that range: after a line end, else after
 * a CR, else at a character boundary.
 * @param read up to `max` bytes from `offset`; may return fewer, but not zero before the end.
 */
export function tailOffset(
  read: (offset: number, max: number) => Buffer,
  size: number,
  lines: number,
  bytesMax: number = TAIL_BYTES_MAX,
): number {
  if (lines <= 0 || size <= 0) return size;
  const floor = Math.max(0, size - bytesMax);
  let found = 0;
  let oldest = -1;
  let end = size;
  while (end > floor) {
    const start = Math.max(floor, end - CHUNK_BYTES);
    const chunk = readFully(read, start, end);
    // A line end at the very end closes the last line and does not begin another.
    let from = end === size && chunk.at(-1) === NEWLINE ? chunk.length - 2 : chunk.length - 1;
    for (; from >= 0; from--) {
      from = chunk.lastIndexOf(NEWLINE, from);
      if (from < 0) break;
      oldest = start + from + 1;
      if (++found === lines) return oldest;
    }
    end = start;
  }
  if (floor === 0) return 0;
  return oldest >= 0 ? oldest : startWithin(readFully(read, floor, Math.min(size, floor + CHUNK_BYTES)), floor);
}

function readFully(read: (offset: number, max: number) => Buffer, start: number, end: number): Buffer {
  const first = read(start, end - start);
  if (first.length >= end - start) return first;
  const parts = [first];
  for (let at = start + first.length; at < end;) {
    const part = read(at, end - at);
    if (part.length === 0) break;
    parts.push(part);
    at += part.length;
  }
  return Buffer.concat(parts);
}

function startWithin(chunk: Buffer, offset: number): number {
  const afterReturn = chunk.indexOf(RETURN) + 1;
  if (afterReturn > 0 && afterReturn < chunk.length) return offset + afterReturn;
  let at = 0;
  while (at < 3 && at < chunk.length && (chunk.readUInt8(at) & 0xc0) === 0x80) at++;
  return offset + at;
}

// A colour or style sequence; the sequences by which a progress bar clears its line or hides the cursor; or a character
// that a terminal obeys, except tab and line feed.
const UNSAFE = new RegExp(
  String.raw`(\u001b\[[0-9;:]{0,64}m)|(\u001b\[(?:[0-2]?K|\?25[hl])|\r(?=\n))|(?![\t\n])[${OBEYED}]`,
  "g",
);

/**
 * Text that is safe to print on a terminal: colours, line feeds and tabs pass; every other control character is shown
 * as `\x1b` or `\u202e`. A CR before a line feed and the sequences by which progress bars clear a line are dropped: a
 * stored line is already complete. The caller resets them (`\x1b[0m`) at the end if the text has colours.
 */
export function terminalSafe(text: string): string {
  return text.replace(UNSAFE, (found, colour: string | undefined, dropped: string | undefined) => {
    if (colour !== undefined) return colour;
    return dropped === undefined ? visible(found.charCodeAt(0)) : "";
  });
}

/** The visible text of a line after a progress bar has rewritten it: the last segment between CRs that is not empty. */
export function foldReturns(line: string): string {
  if (!line.includes("\r")) return line;
  const segments = line.split("\r");
  return segments.findLast((segment) => segment !== "") ?? "";
}

/** The rank in a log line's prefix, also after a time and a node; null if the line has none. */
export function rankOf(line: string): number | null {
  const rank = /^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?\r*(?:\[node\d+\] )?\r*\[rank(\d+)\]/.exec(line)?.[1];
  return rank === undefined ? null : Number(rank);
}
