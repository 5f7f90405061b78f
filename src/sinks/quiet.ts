// Times out a request to a store after a period without progress, never by its total time: on a slow line a part may
// take hours, and several requests share the line.

import { Readable } from "node:stream";

/** The maximum of a timer; with a longer delay it fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** A body is passed to the connection in pieces of this size, and each accepted piece counts as progress. */
const PIECE_BYTES = 64 * 1024;
/** The kernel accepts about this much of a body before the line has carried any of it. */
const KERNEL_BYTES = 1024 * 1024;

export interface UploadPace {
  /** How long a healthy store may stay silent. */
  quietMs: number;
  /** The slowest line on which svc waits for bytes that the kernel still buffers. */
  bytesPerSecondMin: number;
}

export const PACE: UploadPace = { quietMs: 60_000, bytesPerSecondMin: 4 * 1024 };

/**
 * The deadline of one request. Each progress postpones it; `signal` aborts with a `TimeoutError` when it has passed.
 */
export class Quiet {
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #began = performance.now();
  readonly #waitMs: number;
  #timer: NodeJS.Timeout | null = null;
  #limitMs = 0;

  /** @param bytes how many bytes the request carries. */
  constructor(bytes: number, { quietMs, bytesPerSecondMin }: UploadPace) {
    this.signal = this.#stop.signal;
    this.#waitMs = quietMs + (Math.min(bytes, KERNEL_BYTES) / bytesPerSecondMin) * 1_000;
    this.moved();
  }

  /**
   * Bytes were sent or received. Bytes in the kernel's buffer may need about as long as everything before them, so the
   * request gets that time as well.
   */
  readonly moved = (): void => {
    if (this.#timer) clearTimeout(this.#timer);
    this.#limitMs = Math.min(TIMER_MS_MAX, this.#waitMs + performance.now() - this.#began);
    this.#timer = setTimeout(
      () => this.#stop.abort(new DOMException("nothing moved", "TimeoutError")),
      this.#limitMs,
    ).unref();
  };

  /** How long nothing had moved when the signal aborted, as text. */
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
    // The next piece is created only when the connection wants more.
    { highWaterMark: 0 },
  );
}
