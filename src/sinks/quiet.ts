// A request to a store is given up when nothing moves, never for its total time: on a slow line a part may take hours, and several
// requests share the line.

import { Readable } from "node:stream";

/** Timers cannot wait for longer; with more they fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** A body is handed to the connection in pieces of this size, and each piece that was taken is progress. */
const PIECE_BYTES = 64 * 1024;
/** The kernel takes about this much of a body before the line has carried any of it. */
const KERNEL_BYTES = 1024 * 1024;

export interface Pace {
  /** For so long a healthy store may say nothing. */
  quietMs: number;
  /** The slowest line whose hidden progress, of what the kernel holds, is waited for. */
  bytesPerSecondMin: number;
}

export const PACE: Pace = { quietMs: 60_000, bytesPerSecondMin: 4 * 1024 };

/** The deadline of one request. Each move puts it off; `signal` aborts with a `TimeoutError` when it has passed. */
export class Quiet {
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #began = performance.now();
  readonly #waitMs: number;
  #timer: NodeJS.Timeout | null = null;
  #limitMs = 0;

  /** @param bytes how many bytes the request carries. */
  constructor(bytes: number, { quietMs, bytesPerSecondMin }: Pace) {
    this.signal = this.#stop.signal;
    this.#waitMs = quietMs + (Math.min(bytes, KERNEL_BYTES) / bytesPerSecondMin) * 1_000;
    this.moved();
  }

  /**
   * Bytes went out or came in. What the kernel still holds may need about as long as everything before it, so the request gets
   * that time as well.
   */
  readonly moved = (): void => {
    if (this.#timer) clearTimeout(this.#timer);
    this.#limitMs = Math.min(TIMER_MS_MAX, this.#waitMs + performance.now() - this.#began);
    this.#timer = setTimeout(
      () => this.#stop.abort(new DOMException("nothing moved", "TimeoutError")),
      this.#limitMs,
    ).unref();
  };

  /** How long nothing moved when the signal aborted, in words. */
  get words(): string {
    return `nothing moved for ${Math.max(1, Math.round(this.#limitMs / 1_000))} s`;
  }

  end(): void {
    if (this.#timer) clearTimeout(this.#timer);
  }
}

/** A body in pieces; `moved` is called for each piece that the connection asks for. */
function* inPieces(body: Uint8Array, moved: () => void): Generator<Uint8Array> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    moved();
    yield body.subarray(at, at + PIECE_BYTES);
  }
}

export const streamOf = (body: Uint8Array, moved: () => void): Readable =>
  Readable.from(inPieces(body, moved), { objectMode: false, highWaterMark: PIECE_BYTES });

export function webStreamOf(body: Uint8Array, moved: () => void): ReadableStream<Uint8Array> {
  const pieces = inPieces(body, moved);
  return new ReadableStream(
    {
      pull(to) {
        const { value, done } = pieces.next();
        if (done === true) to.close();
        else to.enqueue(value);
      },
    },
    // Asked for only when the connection wants more.
    { highWaterMark: 0 },
  );
}
