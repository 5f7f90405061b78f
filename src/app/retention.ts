// Applies the retention rule of a home: at the start of the control plane and then once an hour it removes the ended runs that are older than the
// rule allows. It also archives runs, which keeps them from the rule.
//
// RK1. A run is removed as by `svc rm`: durable before the first file is deleted, and finished by the next start. The reasons to keep it are
//      asked again in that commit, so a run that was archived, and a rule that was changed meanwhile, count.
// RK2. The clock of the rule is the earlier of the control plane's own time and the computer's: each may be ahead (ADR 0010, ADR 0037).
// RK3. The store keeps the names of the removed runs, and one notice reports them, also after a crash between the two.

import { bytes } from "../domain/bytes.ts";
import type { Clock, TimerHandle } from "../domain/clock.ts";
import { seenNow, type SeenTime } from "../domain/retention-time.ts";
import type { RetentionOf } from "../engine/control-plane.ts";
import type { Engine } from "../engine/engine.ts";
import type { RemovalRule } from "../engine/removals.ts";
import type { Transaction } from "../engine/transaction.ts";
import { asSvcError, messageOf, SvcError } from "../errors/index.ts";
import type { FoundNotice } from "../notify/outbox.ts";
import type { JobRecord } from "../schemas/job.ts";
import type { Removed } from "../schemas/removal.ts";
import type { HomeRetention, RetentionRule } from "../schemas/retention.ts";
import type { Reads } from "../store/reads.ts";
import { readRule, shownOld, type OldRunRow, type StoredRule } from "../store/retention-reads.ts";
import { RetentionStore } from "../store/retention-store.ts";
import type { All } from "../store/tables.ts";

const LOOK_EVERY_MS = 3_600_000;
/** Runs that a notice names. */
const NAMED_MAX = 10;

export interface RetentionParts {
  engine: Engine;
  clock: Clock;
  /** The computer's own clock. */
  wall: () => number;
  reads: Reads;
  remove: (jobId: string, rule: RemovalRule) => Promise<Removed>;
  notice: (tx: Transaction, found: FoundNotice) => void;
  report: (line: string) => void;
}

export class RetentionKeeper implements RetentionOf {
  readonly #o: RetentionParts;
  readonly #rows: RetentionStore;
  readonly #all: All;
  #timer: TimerHandle | null = null;
  #begun = false;
  #stopped = false;
  /** When this process looked last, by the monotonic clock. */
  #lookedAt: number | null = null;
  #looking: Promise<void> = Promise.resolve();

  constructor(parts: RetentionParts) {
    this.#o = parts;
    const { db } = parts.engine.store;
    this.#rows = new RetentionStore(db);
    this.#all = <Row>(sql: string, ...args: unknown[]): Row[] => db.prepare(sql).all(...args) as Row[];
  }

  /** Applies the rule now and then once an hour. */
  begin(): void {
    this.#begun = true;
    this.#wait(0);
  }

  /** RK2. */
  #now(): number {
    return Math.min(this.#o.clock.now(), this.#o.wall());
  }

  state(): HomeRetention {
    const stored = readRule(this.#all);
    const now = this.#now();
    return stored === null ? this.#o.reads.retention(now) : this.#o.reads.retention(now, this.#seen(stored, now));
  }

  preview(rule: RetentionRule): ReturnType<RetentionOf["preview"]> {
    return shownOld(this.#o.reads.oldRuns({ ...rule, now: this.#now() }));
  }

  async set(rule: RetentionRule | null): Promise<HomeRetention> {
    const before = readRule(this.#all);
    const now = this.#now();
    await this.#o.engine.commit((tx) => {
      this.#rows.set(rule, { at: tx.at, now, looked_at: before?.looked_at ?? null });
      tx.feed(null, "retention.changed", { rule });
    });
    this.#lookedAt = this.#o.clock.monotonic();
    if (this.#begun) this.#wait(LOOK_EVERY_MS);
    return this.state();
  }

  async archive(id: string, isArchived: boolean): Promise<JobRecord> {
    await this.#o.engine.commit((tx) => {
      const row = tx.store.job(id);
      if (row === undefined) throw new SvcError("job_not_found", { id });
      if (row.state !== "terminal") throw new SvcError("job_not_archivable", { id });
      if ((row.archived_at !== null) === isArchived) return;
      this.#rows.archive(id, isArchived ? tx.at : null);
      tx.feed(id, "job.archived", { archived: isArchived });
    });
    const record = this.#o.reads.job(id);
    // Somebody may have removed the run since.
    if (record === null) throw new SvcError("job_not_found", { id });
    return record;
  }

  /** Removes what the rule says now. Never rejects. */
  look(): Promise<void> {
    return (this.#looking = this.#looking.then(() => this.#look()));
  }

  async #look(): Promise<void> {
    try {
      const due = await this.#due();
      if (due !== null) for (const run of due.runs) await this.#remove(run, due.stored);
      await this.#tell();
    } catch (e) {
      this.#o.report(
        `The retention rule could not be applied: ${messageOf(asSvcError(e))} svc tries again in an hour.`,
      );
    }
  }

  /** The state of the time now. */
  #seen(stored: SeenTime, now: number): SeenTime & { isBehind: boolean } {
    const mono = this.#o.clock.monotonic();
    return seenNow(stored, now, this.#lookedAt === null ? 0 : Math.max(0, mono - this.#lookedAt));
  }

  /** The runs that go, oldest first; null without a rule, or if the clock is behind. Records this look. */
  async #due(): Promise<{ stored: StoredRule; runs: OldRunRow[] } | null> {
    const stored = readRule(this.#all);
    if (stored === null || this.#stopped) return null;
    const now = this.#now();
    const seen = this.#seen(stored, now);
    await this.#o.engine.commit(() => this.#rows.seen(seen, now));
    this.#lookedAt = this.#o.clock.monotonic();
    if (seen.isBehind) return null;
    return { stored, runs: this.#o.reads.oldRuns({ ...stored.rule, now, gaps: seen.gaps }).goes };
  }

  /** RK1. */
  async #remove({ id, label, ended_at }: OldRunRow, { rule, set_at }: StoredRule): Promise<void> {
    if (this.#stopped) return;
    const refuses: RemovalRule["refuses"] = (row) => {
      if (row.archived_at !== null) return "it is archived";
      return readRule(this.#all)?.set_at === set_at ? null : "the retention rule was changed";
    };
    try {
      const { freed_bytes } = await this.#o.remove(id, { text: JSON.stringify(rule), refuses });
      const ended = ended_at === null ? "" : `, ended ${new Date(ended_at).toISOString().slice(0, 10)}`;
      this.#o.report(
        `The retention rule (older than ${rule.older_than}) removed the run ${label ?? id} (${id}${ended}): ${bytes(freed_bytes)} are free.`,
      );
    } catch (e) {
      const error = asSvcError(e);
      // A user resumes from it now, or has removed it.
      if (error.code === "job_not_removable" || error.code === "job_not_found") return;
      throw e;
    }
  }

  /** RK3. */
  async #tell(): Promise<void> {
    if (this.#rows.untold().length === 0) return;
    await this.#o.engine.commit((tx) => {
      const untold = this.#rows.untold();
      const freed = untold.reduce((sum, run) => sum + (run.bytes ?? 0), 0);
      const named = untold
        .slice(0, NAMED_MAX)
        .map(({ job_id, label }) => (label === null ? job_id : `${label} (${job_id})`));
      const rest = untold.length - named.length;
      this.#o.notice(tx, {
        job_id: null,
        kind: "runs_removed",
        subject: "The retention rule",
        words: `removed ${untold.length === 1 ? "1 run" : `${untold.length} runs`}, ${bytes(freed)}`,
        cause: `${named.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}. The costs of these runs stay counted.`,
      });
      for (const { job_id } of untold) this.#rows.told(job_id);
    });
  }

  #wait(ms: number): void {
    this.#timer?.cancel();
    if (this.#stopped) return;
    this.#timer = this.#o.clock.setTimer(ms, () => {
      this.#timer = null;
      void this.look().then(() => {
        if (this.#timer === null) this.#wait(LOOK_EVERY_MS);
      });
    });
  }

  /** Ends after the removal that is under way. The time until now counts as seen. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#looking;
    const stored = this.#begun ? readRule(this.#all) : null;
    if (stored === null || this.#lookedAt === null) return;
    const seen = this.#seen(stored, this.#now());
    await this.#o.engine.commit(() => this.#rows.seen(seen, stored.looked_at)).catch(() => undefined);
  }
}
