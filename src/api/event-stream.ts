// Serves one reader of the feed.
//
// E1. Replay reads the store until it finds nothing newer; in that same turn of the event loop the reader becomes live,
//     so no event can be missed in between, and a seq not above the last one sent is never sent.
// E2. Replay goes at the reader's pace. A live reader may leave only a bounded amount unread; beyond that it is closed
//     with 1013.
// E3. Hints are dropped first: they only say that there is more to read.

import type { WebSocket } from "@fastify/websocket";
import { maskedJson } from "../domain/masked-json.ts";
import type { ControlPlane } from "../engine/control-plane.ts";
import type { HubPullHint } from "../schemas/hub.ts";
import type { FeedEvent, FeedHint } from "../schemas/job.ts";
import type { Limits } from "./limits.ts";

const REPLAY_BATCH = 200;
const HINT_BUFFER_BYTES_MAX = 64 * 1024;

export class EventStream {
  readonly #socket: WebSocket;
  readonly #cp: ControlPlane;
  readonly #jobId: string | null;
  readonly #limits: Limits;
  #cursor: number;
  #phase: "replaying" | "live" | "ended" = "replaying";
  #unsubscribe: () => void = () => undefined;
  #answered = true;

  constructor(
    socket: WebSocket,
    cp: ControlPlane,
    from: { jobId: string | null; since: number | null },
    limits: Limits,
  ) {
    this.#socket = socket;
    this.#cp = cp;
    this.#jobId = from.jobId;
    this.#limits = limits;
    // A seq that this store never issued (it was restored from a copy) must not silence later events.
    this.#cursor = Math.min(from.since ?? Number.MAX_SAFE_INTEGER, cp.reads.latestSeq());
  }

  start(): void {
    const ping = setInterval(() => this.#ping(), this.#limits.pingMs);
    this.#socket.on("pong", () => (this.#answered = true));
    this.#socket.on("close", () => {
      clearInterval(ping);
      this.#phase = "ended";
      this.#unsubscribe();
    });
    this.#unsubscribe = this.#cp.subscribe((event) => this.#heard(event));
    void this.#replay().catch(() => this.#end(1011, "the stored events could not be read"));
  }

  async #replay(): Promise<void> {
    while (this.#phase === "replaying") {
      const options = { limit: REPLAY_BATCH, ...(this.#jobId === null ? {} : { jobId: this.#jobId }) };
      const batch = this.#cp.reads.eventsSince(this.#cursor, options);
      if (batch.length === 0) {
        this.#phase = "live";
        return;
      }
      let taken: Promise<void> = Promise.resolve();
      for (const event of batch) {
        taken = new Promise((resolve) => this.#send(event, () => resolve()));
        this.#cursor = event.seq;
      }
      const stalled = setTimeout(() => this.#end(1013, slowReader(this.#cursor)), this.#limits.socketStallMs);
      await taken;
      clearTimeout(stalled);
    }
  }

  #heard(event: FeedEvent | FeedHint | HubPullHint): void {
    if (this.#phase !== "live" || (this.#jobId !== null && event.job_id !== this.#jobId)) return;
    if (!("seq" in event)) {
      if (this.#socket.bufferedAmount < HINT_BUFFER_BYTES_MAX) this.#send(event);
      return;
    }
    if (event.seq <= this.#cursor) return;
    this.#send(event);
    this.#cursor = event.seq;
    if (this.#socket.bufferedAmount > this.#limits.socketBufferBytesMax) this.#end(1013, slowReader(this.#cursor));
  }

  #send(event: FeedEvent | FeedHint | HubPullHint, taken?: () => void): void {
    this.#socket.send(maskedJson(event, this.#cp.secrets()), taken);
  }

  #ping(): void {
    if (!this.#answered) return this.#socket.terminate();
    this.#answered = false;
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping();
  }

  #end(code: number, reason: string): void {
    if (this.#phase === "ended") return;
    this.#phase = "ended";
    this.#unsubscribe();
    this.#socket.close(code, reason);
    // The close frame is queued after the unread data and may never be sent.
    const cut = setTimeout(() => this.#socket.terminate(), this.#limits.socketStallMs);
    this.#socket.once("close", () => clearTimeout(cut));
  }
}

const slowReader = (seq: number): string => `too slow: resume with since=<the last seq you have>; ${seq} was sent`;
