// Shares one answer among concurrent callers: polling 200 machines costs one listing, not 200.
//
// L1. A caller that requires a fresh answer gets one whose first request left after the call, never one that was
//     already running.
// L2. A failure reaches every waiting caller, and is not cached.

import { orAborted } from "../../domain/or-aborted.ts";

/** An answer, and the earliest time at which its first request could have left. */
export interface Looked<T> {
  startedAt: number;
  value: T;
}

export class SharedLook<T> {
  private readonly ask: () => Promise<T>;
  private readonly now: () => number;
  private last: Looked<T> | undefined;
  private running: { startedAt: number; answer: Promise<Looked<T>> } | undefined;
  private following: Promise<Looked<T>> | undefined;

  constructor(ask: () => Promise<T>, now: () => number) {
    this.ask = ask;
    this.now = now;
  }

  /**
   * An answer at most `ageMs` old; 0 for one that begins after this call. The request continues when one caller leaves.
   */
  get(ageMs: number, signal?: AbortSignal): Promise<Looked<T>> {
    const now = this.now();
    // An answer from the future has an unknown age: the clock was set back.
    const isFresh = (startedAt: number): boolean => ageMs > 0 && startedAt >= now - ageMs && startedAt <= now;
    if (this.last && isFresh(this.last.startedAt)) return Promise.resolve(this.last);
    if (this.running && isFresh(this.running.startedAt)) return orAborted(this.running.answer, signal);
    if (!this.running) return orAborted(this.start(), signal);
    this.following ??= this.running.answer.then(
      () => this.start(),
      () => this.start(),
    );
    return orAborted(this.following, signal);
  }

  /** The state has changed: cached and running answers are not used for later calls. */
  forget(): void {
    this.last = undefined;
    if (this.running) this.running.startedAt = -Infinity;
  }

  private start(): Promise<Looked<T>> {
    this.following = undefined;
    const startedAt = this.now();
    const answer = this.ask().then((value) => {
      const looked = { startedAt, value };
      if (run.startedAt === startedAt) this.last = looked;
      return looked;
    });
    const run = { startedAt, answer };
    this.running = run;
    const over = () => {
      if (this.running === run) this.running = undefined;
    };
    answer.then(over, over);
    return answer;
  }
}
