// Waiting for a run, and reading its log as it arrives. A control plane must be running, so that the run makes progress.

import { runsHere } from "../src/providers/descriptors.ts";
import type { JobRecord } from "../src/schemas/job.ts";
import { hasEnded } from "../src/schemas/names.ts";
import { call, checkId, isUnreachable, refused } from "./calls.ts";
import { clientOf, forget } from "./control-planes.ts";
import { SvcError } from "./errors.ts";
import { continuesWords, seen, unwatchInterrupt, watchInterrupt } from "./interrupts.ts";
import { ownHome } from "./own-home.ts";
import { progressOf } from "./progress.ts";

const LOST_MS_MAX = 60_000;

/**
 * Resolves with the last record when the job has ended and its machines are proven gone; a terminal shows the steps
 * meanwhile. Rejects with `job_not_found`, with `unreachable` if no control plane answers, and with `wait_timeout` after
 * `timeoutSeconds`; then the run continues.
 */
export async function wait(jobId: string, timeoutSeconds?: number | null): Promise<JobRecord> {
  checkId(jobId);
  const seconds: unknown = timeoutSeconds ?? Infinity;
  if (typeof seconds !== "number" || Number.isNaN(seconds))
    throw refused("timeoutSeconds", "must be a number of seconds; leave it out to wait without limit");
  const until = performance.now() + 1_000 * seconds;
  watchInterrupt(jobId);
  const progress = progressOf((id) => call((client) => client.timeline(id)));
  try {
    for (let pauseMs = 50; ; pauseMs = Math.min(1_000, pauseMs * 1.5)) {
      const record = await driven(jobId);
      const ended = hasEnded(record.status);
      await progress.saw(record, ended);
      if (ended) return record;
      const leftMs = until - performance.now();
      if (leftMs <= 0) throw waitTimeout(record, seconds);
      await new Promise((r) => setTimeout(r, Math.min(pauseMs, leftMs)));
    }
  } catch (e) {
    if (e instanceof SvcError && e.status === 404) unwatchInterrupt(jobId);
    throw e;
  } finally {
    progress.close();
  }
}

const waitTimeout = ({ id, status, provider }: JobRecord, seconds: number): SvcError =>
  new SvcError({
    code: "wait_timeout",
    message: `Run ${id} is still ${status} after ${seconds} s.`,
    hint: `The run ${continuesWords(runsHere(provider))}: wait again, or end it with kill().`,
  });

/** Like `job`, for a job that a caller waits for: a control plane must be running, so that it makes progress. */
export async function driven(jobId: string): Promise<JobRecord> {
  checkId(jobId);
  return seen(await call((client) => client.job(jobId)), jobId);
}

/**
 * Yields the lines of the job's log from its beginning, as they arrive, without line ends, until the job ends. A lost
 * connection is resumed at the byte where it broke. Rejects with `job_not_found` at once, and with `unreachable` if no
 * control plane answers for a minute.
 *
 * While a run shows a progress bar, it also yields the current state of that unfinished line, at most twice a second.
 * Such a text ends with `\r`, which no line does. The whole line follows when it ends.
 */
export async function* stream(jobId: string): AsyncGenerator<string, void, undefined> {
  const quit = new AbortController();
  const lines = new LineReader();
  let offset = 0;
  let lostAt: number | null = null;
  let isLive = true;
  try {
    isLive = !hasEnded((await driven(jobId)).status);
    for (;;) {
      try {
        const client = await clientOf(ownHome());
        const parts = client.followLog(jobId, offset, quit.signal)[Symbol.asyncIterator]();
        for (let dueAt: number | null = null, next = ask(parts); ;) {
          if (dueAt !== null && (await isLate(next, dueAt - performance.now()))) {
            dueAt = null;
            yield `${lines.state}\r`;
            continue;
          }
          const { value: bytes, done } = await next;
          if (done === true) break;
          lostAt = null;
          offset += bytes.byteLength;
          const whole = lines.take(bytes);
          if (whole.length > 0) dueAt = null;
          yield* whole;
          if (isLive && lines.state !== "") dueAt ??= performance.now() + STATE_MS;
          next = ask(parts);
        }
        // The answer ended with the job, or with its control plane.
        if (hasEnded((await driven(jobId)).status)) break;
      } catch (e) {
        if (!isUnreachable(e)) throw e;
        lostAt ??= performance.now();
        if (performance.now() - lostAt > LOST_MS_MAX) throw e;
        forget(ownHome());
      }
      await new Promise((r) => setTimeout(r, 200));
    }
    yield* lines.end();
  } finally {
    quit.abort();
  }
}

/** A failure counts when it is awaited; a caller that stops reading never awaits it. */
function ask<T>(parts: AsyncIterator<T>): Promise<IteratorResult<T>> {
  const next = parts.next();
  next.catch(() => undefined);
  return next;
}

/** Whether `next` takes longer than `ms`. */
async function isLate(next: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((done) => (timer = setTimeout(() => done(true), Math.max(0, ms))));
  try {
    return await Promise.race([next.then(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Makes lines from bytes in pieces of any size. */
class LineReader {
  readonly #decoder = new TextDecoder();
  #rest = "";

  take(bytes: Uint8Array): string[] {
    const parts = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = parts.pop() ?? "";
    const lines = parts.map(withoutReturn);
    for (; this.#rest.length > LINE_MAX; this.#rest = this.#rest.slice(LINE_MAX))
      lines.push(this.#rest.slice(0, LINE_MAX));
    return lines;
  }

  /** The current state of an unfinished line that is being overwritten; empty for other lines. */
  get state(): string {
    const tail = this.#rest.slice(-STATE_MAX);
    return /[\r\b]/.test(tail) ? (tail.split(/[\r\b]+/).findLast((part) => part !== "") ?? "") : "";
  }

  end(): string[] {
    const last = this.#rest + this.#decoder.decode();
    return last === "" ? [] : [withoutReturn(last)];
  }
}

const withoutReturn = (line: string): string => line.replace(/\r+$/, "");
/** Minimum time between two states of an unfinished line. */
const STATE_MS = 500;
const STATE_MAX = 4_096;
const LINE_MAX = 1024 * 1024;
