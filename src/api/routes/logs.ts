// Sends the stored log, byte for byte. A slow reader delays only itself: bytes are read from disk as the socket accepts
// them.

import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { z } from "zod";
import type { ControlPlane } from "../../engine/control-plane.ts";
import { rankOf } from "../../domain/log-lines.ts";
import type { Reads } from "../../store/reads.ts";
import { hasEnded } from "../../schemas/names.ts";
import { invalid } from "../field-errors.ts";
import { LineClock } from "../log-index.ts";
import { jobOf, NO_JOB, route } from "../route.ts";

const CHUNK_BYTES = 64 * 1024;
/** A hint may be missed when the feed is busy; a follower then checks at this interval. */
const LOOK_AGAIN_MS = 1_000;

export const Switch = z.enum(["0", "1", "true", "false"]).transform((v) => v === "1" || v === "true");
export const wholeQuery = (max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, "must be a whole number of 0 or more")
    .transform(Number)
    .pipe(z.number().max(max));

const LogsQuery = z.strictObject({
  follow: Switch.optional(),
  offset: wholeQuery(Number.MAX_SAFE_INTEGER).optional(),
  tail: wholeQuery(1_000_000).optional(),
  timestamps: Switch.optional(),
  rank: wholeQuery(1_000_000).optional(),
});

export const LOG_ROUTE = route({
  method: "GET",
  path: "/jobs/{id}/logs",
  id: "getLogs",
  summary: "The log of a job",
  description:
    "Raw bytes, from `offset` (bytes) or the last `tail` lines. `follow=1` keeps the response open until the job has ended and " +
    "every byte is delivered. `timestamps=1` prefixes each line with its time. `rank=3` returns only the lines of " +
    "that rank; skipped lines are not counted, so a disconnected reader must start again. The header svc-log-offset gives the offset of the first byte.",
  query: LogsQuery,
  responses: { 200: { description: "The log.", contentType: "text/plain; charset=utf-8" } },
  errors: [...NO_JOB, "invalid_request"],
  async handle(call) {
    const { id } = jobOf(call);
    const { query, cp } = call;
    if (query.offset !== undefined && query.tail !== undefined) {
      throw invalid([{ field: "tail", message: "cannot be combined with offset" }]);
    }
    const start = query.tail !== undefined ? cp.reads.logTailOffset(id, query.tail) : (query.offset ?? 0);
    const end = query.follow ? null : Math.max(start, cp.reads.logBytes(id));

    call.reply.hijack();
    const response = call.reply.raw;
    response.writeHead(200, {
      "content-type": "text/plain; charset=utf-8",
      "svc-log-offset": String(start),
      ...(end !== null && !query.timestamps && query.rank === undefined
        ? { "content-length": String(end - start) }
        : {}),
    });
    if (call.request.raw.method === "HEAD") {
      response.end();
      return null;
    }
    response.flushHeaders();
    const bytes = end === null ? follow(cp, id, start, closed(response)) : slice(cp.reads, id, start, end);
    const all = query.timestamps ? stamped(cp.reads, id, start, bytes) : bytes;
    await send(query.rank === undefined ? all : linesOf(query.rank, all), response);
    return null;
  },
});

/** Ends with the last byte, or with the caller; a caller that left is normal. */
async function send(bytes: AsyncIterable<Buffer>, response: ServerResponse): Promise<void> {
  try {
    await pipeline(Readable.from(bytes, { objectMode: false }), response);
  } catch {
    response.destroy();
  }
}

async function* slice(reads: Reads, id: string, start: number, end: number): AsyncGenerator<Buffer> {
  for (let at = start; at < end;) {
    const chunk = reads.readLog(id, at, Math.min(CHUNK_BYTES, end - at));
    if (chunk.length === 0) return;
    at += chunk.length;
    yield chunk;
  }
}

async function* follow(cp: ControlPlane, id: string, start: number, gone: AbortSignal): AsyncGenerator<Buffer> {
  const bell = new Bell();
  const stop = cp.subscribe((event) => event.job_id === id && bell.ring());
  gone.addEventListener("abort", () => bell.ring(), { once: true });
  try {
    for (let at = start; !gone.aborted; await bell.heard(LOOK_AGAIN_MS)) {
      // Read before the bytes: everything stored before the end is then delivered too.
      const status = cp.reads.job(id)?.status;
      const ended = status === undefined || hasEnded(status);
      for (;;) {
        const chunk = cp.reads.readLog(id, at, CHUNK_BYTES);
        if (chunk.length === 0) break;
        at += chunk.length;
        yield chunk;
      }
      if (ended) return;
    }
  } finally {
    stop();
  }
}

/** Remembers a ring while no reader is waiting. */
class Bell {
  #rung = false;
  #wake: (() => void) | null = null;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  async heard(maxMs: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, maxMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#rung = false;
    this.#wake = null;
  }
}

function closed(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => controller.abort());
  return controller.signal;
}

const NEWLINE = 0x0a;

/** This many bytes at the beginning of a line contain its rank. */
const HEAD_BYTES = 128;

/**
 * Whole lines of one rank, from a part that begins at a line start; a line that is cut by `start` belongs to no rank.
 */
async function* linesOf(rank: number, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let head: Buffer = Buffer.alloc(0);
  /** Null until the beginning of the line has shown its rank. */
  let wanted: boolean | null = null;
  for await (const chunk of source) {
    const parts: Buffer[] = [];
    for (let from = 0; from < chunk.length;) {
      const newline = chunk.indexOf(NEWLINE, from);
      const to = newline < 0 ? chunk.length : newline + 1;
      const piece = chunk.subarray(from, to);
      if (wanted === null) {
        head = Buffer.concat([head, piece]);
        if (newline >= 0 || head.length >= HEAD_BYTES) {
          wanted = rankOf(head.toString("utf8", 0, HEAD_BYTES)) === rank;
          if (wanted) parts.push(head);
          head = Buffer.alloc(0);
        }
      } else if (wanted) parts.push(piece);
      if (newline >= 0) wanted = null;
      from = to;
    }
    if (parts.length > 0) yield Buffer.concat(parts);
  }
  if (head.length > 0 && rankOf(head.toString()) === rank) yield head;
}

/** Puts the time of its first byte before each line that begins in the part sent. */
async function* stamped(
  reads: Reads,
  id: string,
  start: number,
  source: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer> {
  let atLineStart = start === 0 || reads.readLog(id, start - 1, 1)[0] === NEWLINE;
  const clock = new LineClock(reads, id);
  let offset = start;
  for await (const chunk of source) {
    const parts: Buffer[] = [];
    for (let from = 0; from < chunk.length;) {
      if (atLineStart) parts.push(Buffer.from(`${new Date(clock.at(offset + from)).toISOString()} `));
      const newline = chunk.indexOf(NEWLINE, from);
      const to = newline < 0 ? chunk.length : newline + 1;
      parts.push(chunk.subarray(from, to));
      atLineStart = newline >= 0;
      from = to;
    }
    offset += chunk.length;
    yield Buffer.concat(parts);
  }
}
