// Turns the bytes that a run's script wrote into the stored text and the records embedded in it.
//
// S1. A record is `\x1esvc1:<mark> {json}\n`, anywhere in a line. The text before it is joined with what follows it.
// S2. `consumed` is the raw offset before which everything is decided. The caller presents the bytes after it again
//     together with new ones, so text, records and cursor go into one transaction, and a crash neither loses nor
//     doubles anything.
// S3. However the stream is cut, the sum of the results is the same.
// S4. Nothing is held back but the beginning of a record (at most RECORD_BYTES_MAX) and a tail that may become a secret.
// S5. Text that only looks like a record (another mark, bad JSON, wrong types, no end) stays text.
// S6. A secret that records cut in two is found in the joined text, if they are at most RECORD_GAP_MAX bytes together. The
//     bound keeps a lone first letter of a secret, left at the end of a line without end, from holding up metrics for ever.
// S7. With `wholeLines` an unfinished line is held back, too, up to LINE_BYTES_MAX: there it is cut as if it had ended.

import type { Redactor } from "./redaction.ts";

/** A record's start without a line break within this many bytes is ordinary text. */
export const RECORD_BYTES_MAX = 65_536;
export const RECORD_GAP_MAX = 16_384;
const LINE_BYTES_MAX = 65_536;
const METRIC_NAME_MAX = 512;
const METRICS_PER_RECORD_MAX = 4_096;
const PATH_MAX = 4_096;
const URL_MAX = 2_048;
const ALERT_MAX = 2_000;
const NEWLINE = 0x0a;

/** JSON has no NaN: these three travel as strings. */
export type LoggedValue = number | "NaN" | "Infinity" | "-Infinity";

/** One call of `svc.log`. */
export interface MetricRecord {
  kind: "metrics";
  /** Grows per process: (attempt, rank, n) reveals duplicates and gaps. */
  n: number;
  step: number;
  /** Seconds since the epoch, by the script's clock. */
  time: number;
  rank: number;
  /** Pairs, not an object: a name may be `__proto__`, and two names may become one by redaction. */
  values: [name: string, value: LoggedValue][];
  /** Offset of the record's start in the presented bytes. */
  offset: number;
}

/** One call of `svc.checkpoint`: a file or folder in the checkpoint directory is complete. */
export interface CheckpointRecord {
  kind: "checkpoint";
  path: string;
  step: number | null;
  /** Seconds since the epoch, by the script's clock; null if the line does not say it. */
  time: number | null;
  rank: number;
  offset: number;
}

/** The run's page at the tracker. */
export interface TrackerRecord {
  kind: "tracker";
  url: string;
  rank: number;
  offset: number;
}

/** One call of `svc.alert`. */
export interface AlertRecord {
  kind: "alert";
  message: string;
  rank: number;
  offset: number;
}

export type LogRecord = MetricRecord | CheckpointRecord | TrackerRecord | AlertRecord;

export interface ParseOptions {
  /** The nonce that this job's records carry. Pass it to the redactor too: a torn record would print it. */
  mark: string;
  redactor: Redactor;
  /** The stream has ended: everything is consumed, and text that was held back is released. */
  final: boolean;
  /** The stream was truncated: half a secret at its end is taken for one. Only with `final`. */
  cut?: boolean;
  /** Only whole lines of text are consumed, so that every part begins where a line begins (see S7). */
  wholeLines?: boolean;
}

/** See S1 to S6. */
export function parseLog(bytes: Buffer, opts: ParseOptions): { text: Buffer; records: LogRecord[]; consumed: number } {
  const { pieces, records, decided } = separate(bytes, opts);
  const { redactor, final, cut = false } = opts;
  const [first] = pieces;
  const joined = first && pieces.length === 1 ? first.bytes : Buffer.concat(pieces.map((piece) => piece.bytes));
  if (!opts.wholeLines || final)
    return redacted({ pieces, records, decided, text: joined }, redactor, cut ? "cut" : final);
  // A secret usually holds back only the end of one line. A secret of several lines may hold back more; then the loop
  // tries again with less text.
  for (let end = lineEnd(joined, joined.length); ;) {
    const text = joined.subarray(0, end);
    const upTo = end === joined.length ? decided : rawOffset(pieces, end);
    const before = records.filter((record) => record.offset < upTo);
    const parsed = redacted({ pieces, records: before, decided: upTo, text }, redactor, false);
    if (parsed.taken === text.length) return parsed;
    end = lineEnd(joined, parsed.taken);
  }
}

/**
 * The end of the last complete line of `text[0, to)`; `to` itself once the wait for a line end has lasted long enough.
 */
function lineEnd(text: Buffer, to: number): number {
  if (to === 0) return 0;
  const end = Math.max(text.lastIndexOf(0x0a, to - 1), text.lastIndexOf(0x0d, to - 1)) + 1;
  return end > 0 || to < LINE_BYTES_MAX ? end : to;
}

interface Separated {
  pieces: Piece[];
  records: LogRecord[];
  decided: number;
  text: Buffer;
}

/** `taken`: how much of the text was passed on or replaced by redaction. */
function redacted(
  { pieces, records, decided, text }: Separated,
  redactor: Redactor,
  final: boolean | "cut",
): { text: Buffer; records: LogRecord[]; consumed: number; taken: number } {
  if (redactor.empty || text.length === 0) return { text, records, consumed: decided, taken: text.length };
  // The raw bytes minus the text bytes between two positions are the records in between. A tail must bridge every
  // record after it as well.
  const gap = (start: number, rawEnd: number, end: number) => rawEnd - rawOffset(pieces, start) - (end - start);
  const { out, consumed } = redactor.redact(text, final, {
    match: (start, end) => gap(start, rawOffset(pieces, end - 1) + 1, end) <= RECORD_GAP_MAX,
    tail: (start) => gap(start, decided, text.length) <= RECORD_GAP_MAX,
  });
  if (consumed === text.length) return { text: out, records, consumed: decided, taken: consumed };
  // The records after the tail wait with it: consuming them would lose the tail's place in the stream.
  const raw = rawOffset(pieces, consumed);
  return { text: out, records: records.filter((record) => record.offset < raw), consumed: raw, taken: consumed };
}

/** A stretch of text: its start in the raw bytes and in the joined text. */
interface Piece {
  raw: number;
  at: number;
  bytes: Buffer;
}

/** Text and records, as far as the bytes decide them: up to `decided`. */
function separate(bytes: Buffer, { mark, redactor, final }: ParseOptions) {
  const pieces: Piece[] = [];
  const records: LogRecord[] = [];
  let textLength = 0;
  const push = (from: number, to: number) => {
    if (to <= from) return;
    pieces.push({ raw: from, at: textLength, bytes: bytes.subarray(from, to) });
    textLength += to - from;
  };
  const needle = Buffer.from(`\x1esvc1:${mark} `);
  let from = 0;
  let newline = -1;
  let start = bytes.indexOf(needle);
  for (; start >= 0; start = bytes.indexOf(needle, start)) {
    // Searched once and kept: many starts before one distant line break must not each search for it.
    if (newline < start) {
      const found = bytes.indexOf(NEWLINE, start);
      newline = found < 0 ? Infinity : found;
    }
    if (newline === Infinity && !final && bytes.length - start <= RECORD_BYTES_MAX) {
      push(from, start);
      return { pieces, records, decided: start };
    }
    const record =
      newline - start > RECORD_BYTES_MAX ? null : readRecord(bytes, start + needle.length, newline, start, redactor);
    if (record === null) {
      start += 1;
      continue;
    }
    push(from, start);
    records.push(record);
    start = from = newline + 1;
  }
  const decided = final ? bytes.length : bytes.length - beginning(bytes, from, needle);
  push(from, decided);
  return { pieces, records, decided };
}

/** How many bytes at the end of `bytes` are the beginning of `needle`. */
function beginning(bytes: Buffer, from: number, needle: Buffer): number {
  const start = bytes.lastIndexOf(needle[0]!);
  const length = bytes.length - start;
  if (start < from || length >= needle.length) return 0;
  return bytes.compare(needle, 0, length, start) === 0 ? length : 0;
}

function rawOffset(pieces: Piece[], at: number): number {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pieces[middle]!.at <= at) low = middle;
    else high = middle - 1;
  }
  const piece = pieces[low]!;
  return piece.raw + (at - piece.at);
}

/**
 * Returns null if the text is not a record (S5). Parsed by hand: this runs for every line of metrics, some 100,000
 * times a second.
 */
function readRecord(bytes: Buffer, from: number, to: number, offset: number, redactor: Redactor): LogRecord | null {
  if (bytes[from] !== 0x7b) return null;
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString("utf8", from, to));
  } catch {
    return null;
  }
  if (typeof json !== "object" || json === null) return null;
  const { k, n, s, t, r, m, path, url, text } = json as Record<string, unknown>;
  if (!isCount(r)) return null;
  if (k === "m") {
    if (!isCount(n) || !isFiniteNumber(s) || !isFiniteNumber(t)) return null;
    const values = readValues(m, redactor);
    return values && { kind: "metrics", n, step: s, time: t, rank: r, values, offset };
  }
  if (k === "t") return isLink(url) ? { kind: "tracker", url: redactor.redactText(url), rank: r, offset } : null;
  if (k === "a") return isAlert(text) ? { kind: "alert", message: redactor.redactText(text), rank: r, offset } : null;
  if (k !== "c" || !isPath(path) || !(s === null || s === undefined || isFiniteNumber(s))) return null;
  const time = isFiniteNumber(t) ? t : null;
  return { kind: "checkpoint", path: redactor.redactText(path), step: s ?? null, time, rank: r, offset };
}

function readValues(map: unknown, redactor: Redactor): [string, LoggedValue][] | null {
  if (typeof map !== "object" || map === null || Array.isArray(map)) return null;
  const entries = Object.entries(map);
  if (entries.length === 0 || entries.length > METRICS_PER_RECORD_MAX) return null;
  for (const entry of entries) {
    const [name, value] = entry as [string, unknown];
    if (name.length === 0 || name.length > METRIC_NAME_MAX) return null;
    if (!isFiniteNumber(value) && value !== "NaN" && value !== "Infinity" && value !== "-Infinity") return null;
    if (!redactor.empty) entry[0] = redactor.redactText(name);
  }
  return entries as [string, LoggedValue][];
}

const isFiniteNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
/** A link shown to people: http or https, without a password, in one line. */
const isLink = (value: unknown): value is string =>
  typeof value === "string" &&
  value.length <= URL_MAX &&
  /^https?:\/\/[^\s@\u0000-\u001f\u007f]+$/i.test(value) &&
  URL.canParse(value);
const isAlert = (value: unknown): value is string =>
  typeof value === "string" && value.trim() !== "" && value.length <= ALERT_MAX;
const isPath = (value: unknown): value is string =>
  // eslint-disable-next-line no-control-regex -- control characters are exactly what is refused
  typeof value === "string" && value.length > 0 && value.length <= PATH_MAX && !/[\u0000-\u001f\u007f]/.test(value);
