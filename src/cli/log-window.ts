// Finds the bytes of a stored log that `svc logs` prints for --tail, --since, --until and --around. Reads the log in
// parts, so that a line of any length takes no memory.

import { tailOffset } from "../domain/log-lines.ts";
import { usage } from "./argv.ts";
import type { OpenReads } from "./store.ts";
import { momentMs } from "./times.ts";

const PART_BYTES = 1 << 20;
const NEWLINE = 0x0a;
/** Lines on each side of --around, without --tail. */
const AROUND_LINES = 10;

export interface WindowOptions {
  tail: number | undefined;
  sinceMs: number | undefined;
  untilMs: number | undefined;
  /** A line number, counted from 1 as in the dashboard, or a moment. */
  around: string | undefined;
}

export interface LogWindow {
  from: number;
  /** The first byte that is not printed; null for the end of the log, which may grow. */
  to: number | null;
}

type LogReads = Pick<OpenReads, "readLog" | "logBytes" | "logTimes">;

/**
 * svc notes a time for each part of output that arrives, so a moment is as exact as that: the window begins with the
 * first line of the first part that arrived then or later. Throws `usage` for a line that the log does not have.
 */
export function logWindow(reads: LogReads, id: string, options: WindowOptions): LogWindow {
  const { tail, sinceMs, untilMs, around } = options;
  if (around !== undefined) return windowAround(reads, id, around, tail ?? AROUND_LINES);
  const size = reads.logBytes(id);
  const since = sinceMs === undefined ? 0 : offsetAt(reads, id, sinceMs);
  const to = untilMs === undefined ? null : offsetAt(reads, id, untilMs + 1);
  const tailFrom = tail === undefined ? 0 : tailOffset(readerOf(reads, id), to ?? size, tail);
  return { from: Math.max(since, tailFrom), to };
}

const readerOf =
  (reads: LogReads, id: string) =>
  (offset: number, max: number): Buffer =>
    reads.readLog(id, offset, max);

/** The offset of the first line that arrived at `atMs` or later; the end of the log if none did. */
function offsetAt(reads: LogReads, id: string, atMs: number): number {
  const found = reads.logTimes(id, 0).find(({ at_ms }) => at_ms >= atMs);
  return found === undefined ? reads.logBytes(id) : lineStart(reads, id, found.offset);
}

/** The start of the line that contains the byte at `offset`. */
function lineStart(reads: LogReads, id: string, offset: number): number {
  if (offset === 0 || reads.readLog(id, offset - 1, 1)[0] === NEWLINE) return offset;
  return tailOffset(readerOf(reads, id), offset, 1);
}

function windowAround(reads: LogReads, id: string, around: string, lines: number): LogWindow {
  const size = reads.logBytes(id);
  const at = /^[0-9]{1,15}$/.test(around) ? offsetOfLine(reads, id, Number(around)) : offsetOfMoment(reads, id, around);
  const to = afterLines(reads, id, at, lines + 1);
  return { from: lines === 0 ? at : tailOffset(readerOf(reads, id), at, lines), to: Math.min(to, size) };
}

function offsetOfMoment(reads: LogReads, id: string, around: string): number {
  const ms = momentMs(around);
  if (ms === null)
    throw usage(
      `--around must be a line number or a time, not \`${around}\`.`,
      "Write --around 1200, --around 14:03:10, --around 10m or --around 2026-11-26T14:03:00Z.",
    );
  const size = reads.logBytes(id);
  const at = offsetAt(reads, id, ms);
  // Later than everything: around the last line.
  return at < size ? at : tailOffset(readerOf(reads, id), size, 1);
}

function offsetOfLine(reads: LogReads, id: string, line: number): number {
  const size = reads.logBytes(id);
  const at = line < 1 ? size : afterLines(reads, id, 0, line - 1);
  if (at < size) return at;
  throw usage(
    `The log of job ${id} has no line ${line}.`,
    "Lines are counted from 1; `svc logs JOB | wc -l` counts them.",
  );
}

/** The offset after `lines` further line ends; the end of the log if there are fewer. */
function afterLines(reads: LogReads, id: string, from: number, lines: number): number {
  let left = lines;
  let at = from;
  while (left > 0) {
    const part = reads.readLog(id, at, PART_BYTES);
    if (part.length === 0) return at;
    for (let end = part.indexOf(NEWLINE); end >= 0; end = part.indexOf(NEWLINE, end + 1))
      if (--left === 0) return at + end + 1;
    at += part.length;
  }
  return at;
}
