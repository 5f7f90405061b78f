// Group commit. Callers of one turn of the event loop share one fsync; each succeeds or fails on its own.
//
// T1. A caller's promise resolves only after COMMIT returned. Its `after` callbacks start only then, too.
// T2. A caller that throws loses only its own writes: by a savepoint, or because the others run again.
// T3. When COMMIT itself fails, the whole group is rolled back and every caller receives the error, even if the
//     rollback fails as well.
// T4. A caller that may wait joins the next group. Groups made only for such callers are limited to 40 a second after
//     the first few, so that the lines of hundreds of runs do not cost an fsync each.

import type { Clock, TimerHandle } from "../domain/clock.ts";
import type { FeedEvent } from "../schemas/job.ts";
import type { EngineStore } from "../store/engine-store.ts";

/** Called for each event within its transaction: for rows that must exist exactly if the event does. */
export type Noticed = (tx: Transaction, event: Omit<FeedEvent, "seq" | "at">) => void;

export class Transaction {
  readonly at: number;
  readonly store: EngineStore;
  readonly afters: (() => void)[] = [];
  readonly feeds: FeedEvent[] = [];
  /** Jobs whose cached snapshot must be dropped if this fails. */
  readonly touched = new Set<string>();
  readonly #noticed: Noticed | undefined;
  #atText: string | null = null;

  constructor(store: EngineStore, at: number, noticed?: Noticed) {
    this.store = store;
    this.at = at;
    this.#noticed = noticed;
  }

  /** Runs once the commit is durable; never if it fails. */
  after(fn: () => void): void {
    this.afters.push(fn);
  }

  /** Adds an event to the feed that every client can replay. */
  feed(jobId: string | null, type: string, data: Record<string, unknown>): void {
    const seq = this.store.insertFeed(jobId, this.at, type, JSON.stringify(data));
    this.#atText ??= new Date(this.at).toISOString();
    this.feeds.push({ seq, job_id: jobId, at: this.#atText, type, data });
    this.#noticed?.(this, { job_id: jobId, type, data });
  }
}

/** Burst size: commits allowed back-to-back before callers that may wait are delayed. */
const BURST = 32;
/** Batch window once the burst is used up. */
const TOGETHER_MS = 25;

interface Waiting {
  fn: (tx: Transaction) => unknown;
  /** Whether `fn` may run again after a rollback. */
  repeatable: boolean;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

type Verdict = { ok: true; value: unknown; tx: Transaction } | { ok: false; error: unknown };

export interface CommitterOptions {
  store: EngineStore;
  clock: Clock;
  /** Runs `fn` at the end of this turn: `setImmediate`, or a simulation's scheduler. */
  defer: (fn: () => void) => void;
  /** Named points at which a simulation may crash the process, or let a group run again. */
  probe: (point: string) => void;
  /** Drops the cache of these jobs: their transaction was rolled back. */
  forget: (jobs: Iterable<string>) => void;
  publish: (events: FeedEvent[]) => void;
  noticed?: Noticed | undefined;
}

type Publish = CommitterOptions["publish"];

/** The events are durable. A listener may read the store, and a failing disk must not end the process through it. */
export function reportingFailures(publish: Publish | undefined, report: (e: unknown) => void): Publish {
  return (events) => {
    try {
      publish?.(events);
    } catch (e) {
      report(e);
    }
  };
}

export class Committer {
  readonly #o: CommitterOptions;
  #queue: Waiting[] = [];
  #scheduled = false;
  #later: TimerHandle | null = null;
  /** Groups that may follow at once: refilled with time, used up by each group. */
  #free = BURST;
  #filledAt: number;

  constructor(options: CommitterOptions) {
    this.#o = options;
    this.#filledAt = options.clock.monotonic();
  }

  /**
   * Runs `fn` inside the next group's transaction; resolves with its value once that is durable.
   * @param repeatable whether `fn` may run again after a rollback: it keeps nothing in memory, apart from the cache of `forget`.
   */
  commit<T>(fn: (tx: Transaction) => T, repeatable = false): Promise<T> {
    const done = this.#enqueue(fn, repeatable);
    this.#soon();
    return done;
  }

  /**
   * Like `commit`, for callers that are many at once: while groups follow each other closely it waits, at most
   * `TOGETHER_MS`.
   */
  commitTogether<T>(fn: (tx: Transaction) => T): Promise<T> {
    const done = this.#enqueue(fn, false);
    if (this.#scheduled || this.#later) return done;
    this.#fill();
    if (this.#free >= 1) this.#soon();
    else this.#later = this.#o.clock.setTimer((1 - this.#free) * TOGETHER_MS, () => this.flush());
    return done;
  }

  #enqueue<T>(fn: (tx: Transaction) => T, repeatable: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ fn, repeatable, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  #soon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#o.defer(() => this.flush());
  }

  #fill(): void {
    const now = this.#o.clock.monotonic();
    this.#free = Math.min(BURST, this.#free + (now - this.#filledAt) / TOGETHER_MS);
    this.#filledAt = now;
  }

  /** Commits everything that is waiting, at once. */
  flush(): void {
    this.#scheduled = false;
    this.#later?.cancel();
    this.#later = null;
    const group = this.#queue;
    if (group.length === 0) return;
    this.#queue = [];
    this.#fill();
    this.#free = Math.max(0, this.#free - 1);
    const { store } = this.#o;
    const verdicts: Verdict[] = [];
    try {
      // Does nothing, unless the last group's rollback failed.
      store.rollback();
      store.begin();
      this.#run(group, verdicts);
      this.#o.probe("commit.before");
      store.commit();
    } catch (e) {
      this.#rolledBack();
      const error = store.asError(e);
      this.#forget(verdicts);
      for (const waiting of group) waiting.reject(error);
      return;
    }
    this.#o.probe("commit.after");
    const events = verdicts.flatMap((v) => (v.ok ? v.tx.feeds : []));
    for (const [i, waiting] of group.entries()) {
      const v = verdicts[i];
      if (v === undefined) continue;
      if (v.ok) {
        for (const after of v.tx.afters) after();
        waiting.resolve(v.value);
      } else waiting.reject(v.error);
    }
    if (events.length > 0) this.#o.publish(events);
  }

  /** @returns false if the rollback failed as well: the callers receive the first error, and the next group begins with the rollback. */
  #rolledBack(): boolean {
    try {
      this.#o.store.rollback();
      return true;
    } catch {
      return false;
    }
  }

  /** Adds a verdict for each caller. A savepoint copies every page that its caller changes, so callers that may run again do without. */
  #run(group: readonly Waiting[], verdicts: Verdict[]): void {
    const { store } = this.#o;
    const repeatable = group.every((waiting) => waiting.repeatable);
    if (group.length === 1 || repeatable) {
      try {
        for (const waiting of group) verdicts.push(this.#one(waiting, false));
        // Tests throw here: then callers that keep something in memory are found.
        if (repeatable) this.#o.probe("group.ran");
        return;
      } catch (e) {
        if (!repeatable) throw e;
        // One failed, and its writes cannot be told from those of the others: the group starts again, with savepoints.
        if (!this.#rolledBack()) throw e;
        this.#forget(verdicts.splice(0));
        store.begin();
      }
    }
    for (const waiting of group) verdicts.push(this.#one(waiting, true));
  }

  #one(waiting: Waiting, savepoint: boolean): Verdict {
    const { store } = this.#o;
    const tx = new Transaction(store, this.#o.clock.now(), this.#o.noticed);
    const act = () => waiting.fn(tx);
    try {
      return { ok: true, value: savepoint ? store.nested(act) : act(), tx };
    } catch (e) {
      this.#o.forget(tx.touched);
      // A full disk ends SQLite's transaction as a whole; without a savepoint, a failure does too.
      if (!savepoint || !store.db.inTransaction) throw e;
      return { ok: false, error: store.asError(e) };
    }
  }

  #forget(verdicts: readonly Verdict[]): void {
    for (const v of verdicts) if (v.ok) this.#o.forget(v.tx.touched);
  }
}
