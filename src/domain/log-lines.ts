// Reading a stored log as lines: where the last ones begin, what of them is safe on a terminal, what a progress bar said last.

import { OBEYED, visible } from "./terminal-text.ts";

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const CHUNK_BYTES = 65_536;
/** How far back a tail looks at most: lines without end must not make it read a whole log. */
export const TAIL_BYTES_MAX = 8 * 1024 * 1024;

/**
 * The offset at which the last `lines` lines of a text of `size` bytes begin. A line ends with LF (so CRLF counts once); a
 * last line without an end counts. A progress bar that rewrites itself with CR is one line. Where the lines reach further
 * back than `bytesMax`, the answer is the first sensible start within: after a line end, else after a CR, else at a
 * character.
 * @param read up to `max` bytes from `offset`; may give fewer, but some while there are any.
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
    // The line end that closes the last line begins no further one.
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
  while (at < 3 && at < chunk.length && (chunk[at]! & 0xc0) === 0x80) at++;
  return offset + at;
}

// A colour or style sequence; what a progress bar writes to clear its line or to hide the cursor; or a character that a terminal
// obeys, except tab and line feed.
const UNSAFE = new RegExp(
  String.raw`(\u001b\[[0-9;:]{0,64}m)|(\u001b\[(?:[0-2]?K|\?25[hl])|\r(?=\n))|(?![\t\n])[${OBEYED}]`,
  "g",
);

/**
 * Text that a terminal may be given: colours, line feeds and tabs pass; every other control character is shown as `\x1b` or
 * `\u202e`. Dropped are a CR before a line feed, and what progress bars clear a line with: a stored line is whole already. Where
 * colours were used the caller resets them (`\x1b[0m`) at the end.
 */
export function terminalSafe(text: string): string {
  return text.replace(UNSAFE, (found, colour: string | undefined, dropped: string | undefined) => {
    if (colour !== undefined) return colour;
    return dropped === undefined ? visible(found.charCodeAt(0)) : "";
  });
}

/** What stands in a line after a progress bar has rewritten it: the last segment between CRs that is not empty. */
export function foldReturns(line: string): string {
  if (!line.includes("\r")) return line;
  const segments = line.split("\r");
  return segments.findLast((segment) => segment !== "") ?? "";
}

/** The rank that a line of the log is of, also behind its time and its node; null where it is of none. */
export function rankOf(line: string): number | null {
  const rank = /^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?\r*(?:\[node\d+\] )?\r*\[rank(\d+)\]/.exec(line)?.[1];
  return rank === undefined ? null : Number(rank);
}
