// The engine's rows: jobs, journal, effects, attempts, timers, feed. Every method is synchronous, so that deciding and
// committing happen in one turn without interruption.
//
// S1. Nothing is written outside of `transaction`, and every transaction first proves that this epoch still owns the home.
// S2. A job's row changes only by compare-and-set on `seq`.
// S3. Journal, feed and attempts only grow.

import { sql, type Insertable } from "kysely";
import { SvcError } from "../errors/index.ts";
import type { OpenedStore, Sqlite } from "./database.ts";
import { asStoreError } from "./database.ts";
import { columns, lit, p, prepare, q } from "./statements.ts";
import type { AttemptRow, EffectRow, JobRow, JournalRow, PlacementRow, Tables, TimerRow } from "./tables.ts";
import { storedLeftOut } from "./stored-json.ts";
import { storedTags } from "./stored-tags.ts";

/** The columns that a transition writes. */
const CHANGED = [
  "seq",
  "version",
  "state",
  "status",
  "snapshot",
  "hash",
  "exit_code",
  "error",
  "started_at",
  "ended_at",
] as const;
type JobChange = Pick<JobRow, "id" | (typeof CHANGED)[number]>;

export class EngineStore {
  readonly db: Sqlite;
  readonly epoch: number;
  readonly installationId: string;
  readonly file: string;
  readonly #s;

  constructor(opened: OpenedStore) {
    this.db = opened.db;
    this.epoch = opened.epoch;
    this.installationId = opened.installationId;
    this.file = opened.file;
    const db = opened.db;
    this.#s = {
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      rollback: db.prepare("ROLLBACK"),
      savepoint: db.prepare("SAVEPOINT one"),
      release: db.prepare("RELEASE one"),
      rollbackTo: db.prepare("ROLLBACK TO one"),
      epoch: db.prepare("SELECT epoch FROM fence WHERE one = 1").pluck(),

      insertJob: prepare(
        db,
        q
          .insertInto("job")
          .values(
            columns(
              "id",
              "seq",
              "version",
              "state",
              "status",
              "snapshot",
              "hash",
              "parked",
              "label",
              "tags",
              "provider",
              "gpus",
              "nodes",
              "spec",
              "code_snapshot",
              "left_out",
              "idem_key",
              "idem_hash",
              "exit_code",
              "error",
              "created_at",
              "started_at",
              "ended_at",
            ),
          ),
      ),
      job: prepare<JobRow>(db, q.selectFrom("job").selectAll().where("id", "=", p("id"))),
      spec: prepare<Pick<JobRow, "spec">>(db, q.selectFrom("job").select("spec").where("id", "=", p("id"))),
      liveJobs: prepare<JobRow>(
        db,
        q.selectFrom("job").selectAll().where("state", "<>", lit("terminal")).orderBy("id"),
      ),
      codeInUse: prepare<Pick<JobRow, "code_snapshot" | "left_out">>(
        db,
        q.selectFrom("job").select(["code_snapshot", "left_out"]).distinct(),
      ),
      jobByKey: prepare<JobRow>(db, q.selectFrom("job").selectAll().where("idem_key", "=", p("key"))),
      updateJob: prepare(
        db,
        q
          .updateTable("job")
          .set(columns(...CHANGED))
          .where("id", "=", p("id"))
          .where("seq", "=", p("expected")),
      ),
      changeJob: prepare(
        db,
        q
          .updateTable("job")
          .set(columns("spec", "label", "tags"))
          .where("id", "=", p("id")),
      ),
      park: prepare(db, q.updateTable("job").set(columns("parked")).where("id", "=", p("id"))),
      insertJournal: prepare(
        db,
        q
          .insertInto("journal")
          .values(columns("job_id", "seq", "at", "epoch", "type", "event", "from_state", "to_state", "hash")),
      ),
      journal: prepare<JournalRow>(
        db,
        q.selectFrom("journal").selectAll().where("job_id", "=", p("job_id")).orderBy("seq"),
      ),
      insertEffect: prepare(
        db,
        q
          .insertInto("effect")
          .values(columns("job_id", "seq", "step", "node", "state", "attempt", "first_at", "next_at")),
      ),
      openEffects: prepare<EffectRow>(
        db,
        q
          .selectFrom("effect")
          .selectAll()
          .where("state", "in", [lit("running"), lit("retrying")])
          .orderBy("id"),
      ),
      openEffectsOf: prepare<EffectRow>(
        db,
        q
          .selectFrom("effect")
          .selectAll()
          .where("job_id", "=", p("job_id"))
          .where("state", "in", [lit("running"), lit("retrying")]),
      ),
      // Only the current attempt may settle: a late or repeated result changes nothing.
      settleEffect: prepare(
        db,
        q
          .updateTable("effect")
          .set(columns("state", "next_at"))
          .where("id", "=", p("id"))
          .where("attempt", "=", p("attempt"))
          .where("state", "=", lit("running")),
      ),
      rearmEffect: prepare(
        db,
        q
          .updateTable("effect")
          .set({ state: lit("running"), attempt: p("attempt"), next_at: lit(null) })
          .where("id", "=", p("id")),
      ),
      cancelEffect: prepare(
        db,
        q
          .updateTable("effect")
          .set({ state: lit("cancelled"), next_at: lit(null) })
          .where("id", "=", p("id")),
      ),
      insertAttempt: prepare(
        db,
        q
          .insertInto("attempt")
          .values(columns("effect_id", "attempt", "epoch", "status", "started_at", "ended_at", "error", "detail")),
      ),
      endAttempt: prepare(
        db,
        q
          .updateTable("attempt")
          .set((e) => ({
            status: p("status"),
            ended_at: p("ended_at"),
            error: p("error"),
            detail: e.fn.coalesce(e.val<string | null>(p("detail")), "detail"),
          }))
          .where("effect_id", "=", p("effect_id"))
          .where("attempt", "=", p("attempt")),
      ),
      failures: prepare<{ n: number }>(
        db,
        q
          .selectFrom("attempt")
          .select((e) => e.fn.countAll<number>().as("n"))
          .where("effect_id", "=", p("effect_id"))
          .where("status", "=", "failed"),
      ),
      firstFailedAt: prepare<{ at: number | null }>(
        db,
        q
          .selectFrom("attempt")
          .select((e) => e.fn.min("ended_at").as("at"))
          .where("effect_id", "=", p("effect_id"))
          .where("status", "=", "failed")
          .where(sql<string>`error ->> '$.code'`, "=", p("code")),
      ),
      openAttempts: prepare<Pick<AttemptRow, "error" | "detail">>(
        db,
        q
          .selectFrom("effect")
          .innerJoin("attempt", "attempt.effect_id", "effect.id")
          .select(["attempt.error", "attempt.detail"])
          .where("effect.job_id", "=", p("job_id"))
          .where("effect.state", "in", [lit("running"), lit("retrying")])
          .orderBy("effect.id")
          .orderBy("attempt.attempt", "desc")
          .limit(50),
      ),
      collects: prepare<Pick<EffectRow, "state"> & Pick<AttemptRow, "detail">>(
        db,
        q
          .selectFrom("effect")
          .innerJoin("attempt", (j) =>
            j.onRef("attempt.effect_id", "=", "effect.id").onRef("attempt.attempt", "=", "effect.attempt"),
          )
          .select(["effect.state", "attempt.detail"])
          .where("effect.job_id", "=", p("job_id"))
          .where("effect.step", "=", "collect"),
      ),
      leaveAttempt: prepare(
        db,
        q
          .updateTable("attempt")
          .set({ status: "cancelled", ended_at: p("ended_at") })
          .where("effect_id", "=", p("effect_id"))
          .where("status", "=", "running"),
      ),
      detailAttempt: prepare(
        db,
        q
          .updateTable("attempt")
          .set(columns("detail"))
          .where("effect_id", "=", p("effect_id"))
          .where("attempt", "=", p("attempt")),
      ),
      setTimer: prepare(db, q.replaceInto("timer").values(columns("job_id", "name", "due", "event"))),
      takeTimer: prepare(
        db,
        q
          .deleteFrom("timer")
          .where("job_id", "=", p("job_id"))
          .where("name", "=", p("name"))
          .where("due", "=", p("due")),
      ),
      timer: prepare<TimerRow>(
        db,
        q.selectFrom("timer").selectAll().where("job_id", "=", p("job_id")).where("name", "=", p("name")),
      ),
      clearTimers: prepare(db, q.deleteFrom("timer").where("job_id", "=", p("job_id"))),
      timers: prepare<TimerRow>(db, q.selectFrom("timer").selectAll().orderBy("due").orderBy("job_id").orderBy("name")),
      openPlacement: prepare(
        db,
        q
          .insertInto("placement")
          .values(
            columns("job_id", "n", "candidate", "seq", "provider", "gpus", "region", "spot", "opened_at", "goes_on"),
          ),
      ),
      placeJob: prepare(db, q.updateTable("job").set(columns("provider", "gpus")).where("id", "=", p("id"))),
      closePlacement: prepare(
        db,
        q
          .updateTable("placement")
          .set(columns("closed_at", "outcome", "failure", "step", "error", "exit_code", "checkpoint", "goes_on"))
          .where("job_id", "=", p("job_id"))
          .where("n", "=", p("n"))
          // The rescue of a parked job ends it from its last placement, which may have been closed before.
          .where("closed_at", "is", null),
      ),
      resumedFrom: prepare(
        db,
        q
          .updateTable("placement")
          .set(columns("resumed_from"))
          .where("job_id", "=", p("job_id"))
          .where("n", "=", p("n")),
      ),
      lastPlacement: prepare<PlacementRow>(
        db,
        q.selectFrom("placement").selectAll().where("job_id", "=", p("job_id")).orderBy("n", "desc").limit(1),
      ),
      placementFailures: prepare<Pick<PlacementRow, "candidate" | "failure" | "checkpoint">>(
        db,
        q
          .selectFrom("placement")
          .select(["candidate", "failure", "checkpoint"])
          .where("job_id", "=", p("job_id"))
          .orderBy("n"),
      ),

      insertFeed: prepare(db, q.insertInto("feed").values(columns("job_id", "at", "type", "data"))),
    };
  }

  // Transactions

  begin(): void {
    this.#s.begin.run();
    try {
      this.checkEpoch();
    } catch (e) {
      this.rollback();
      throw e;
    }
  }
  /** @throws `stale_writer` when a newer control plane has the home. For writes outside of the database. */
  checkEpoch(): void {
    const epoch = this.#s.epoch.get() as number;
    if (epoch !== this.epoch) throw new SvcError("stale_writer", { epoch });
  }
  commit(): void {
    this.#s.commit.run();
  }
  /** Safe to call even if SQLite has already rolled back by itself, as it does when the disk is full. */
  rollback(): void {
    if (this.db.inTransaction) this.#s.rollback.run();
  }
  /** Runs `fn` so that its failure undoes only its own writes. */
  nested<T>(fn: () => T): T {
    this.#s.savepoint.run();
    try {
      const value = fn();
      this.#s.release.run();
      return value;
    } catch (e) {
      if (this.db.inTransaction) {
        this.#s.rollbackTo.run();
        this.#s.release.run();
      }
      throw e;
    }
  }
  asError(e: unknown): unknown {
    return asStoreError(e, this.file);
  }

  // Jobs and journal

  insertJob(row: Insertable<Tables["job"]>): void {
    this.#s.insertJob.run({ tags: storedTags([]), ...row });
  }
  job(id: string): JobRow | undefined {
    return this.#s.job.get({ id });
  }
  /** The part of the row that `specOf` reads. */
  spec(id: string): Pick<JobRow, "spec"> | undefined {
    return this.#s.spec.get({ id });
  }
  liveJobs(): JobRow[] {
    return this.#s.liveJobs.all({});
  }
  jobByKey(key: string): JobRow | undefined {
    return this.#s.jobByKey.get({ key });
  }
  /** Ids of the code snapshots and of the lists of excluded files that jobs name (`collectGarbage`). */
  codeInUse(): string[] {
    return this.#s.codeInUse.all({}).flatMap(({ code_snapshot, left_out }) => {
      const list = left_out === null ? null : storedLeftOut(left_out).list;
      return [code_snapshot, list].filter((id) => id !== null);
    });
  }
  /** New limits, a new label or new tags of a job; its state stays. */
  changeJob(change: Pick<JobRow, "id" | "spec" | "label" | "tags">): void {
    this.#s.changeJob.run(change);
  }
  /** @throws `stale_writer` when another writer has changed the job. */
  updateJob(change: JobChange): void {
    const { changes } = this.#s.updateJob.run({ ...change, expected: change.seq - 1 });
    if (changes !== 1) throw new SvcError("stale_writer", { epoch: this.epoch });
  }
  park(id: string, why: string | null): void {
    this.#s.park.run({ id, parked: why });
  }
  insertJournal(row: JournalRow): void {
    this.#s.insertJournal.run(row);
  }
  journal(jobId: string): JournalRow[] {
    return this.#s.journal.all({ job_id: jobId });
  }

  // Effects and attempts

  insertEffect(row: Omit<EffectRow, "id">): number {
    return Number(this.#s.insertEffect.run(row).lastInsertRowid);
  }
  openEffects(): EffectRow[] {
    return this.#s.openEffects.all({});
  }
  openEffectsOf(jobId: string): EffectRow[] {
    return this.#s.openEffectsOf.all({ job_id: jobId });
  }
  /** False when a newer attempt is current: the result comes too late and must be dropped. */
  settleEffect(id: number, attempt: number, state: EffectRow["state"], nextAt: number | null): boolean {
    return this.#s.settleEffect.run({ id, attempt, state, next_at: nextAt }).changes === 1;
  }
  rearmEffect(id: number, attempt: number): void {
    this.#s.rearmEffect.run({ id, attempt });
  }
  cancelEffect(id: number): void {
    this.#s.cancelEffect.run({ id });
  }
  insertAttempt(row: AttemptRow): void {
    this.#s.insertAttempt.run(row);
  }
  endAttempt(row: Pick<AttemptRow, "effect_id" | "attempt" | "status" | "ended_at" | "error" | "detail">): void {
    this.#s.endAttempt.run(row);
  }
  /** How many attempts of the effect have failed; an attempt cut short by a crash is not a failure. */
  failures(effectId: number): number {
    return this.#s.failures.get({ effect_id: effectId })?.n ?? 0;
  }
  /** When an attempt of the effect first failed with this error code; null where none did. */
  firstFailedAt(effectId: number, code: string): number | null {
    return this.#s.firstFailedAt.get({ effect_id: effectId, code })?.at ?? null;
  }
  /** Ends every attempt of the effect that is still recorded as running: a crash interrupted it. */
  leaveAttempt(effectId: number, endedAt: number): void {
    this.#s.leaveAttempt.run({ effect_id: effectId, ended_at: endedAt });
  }
  /** The errors and details of attempts of its open effects, the newest of each effect first. */
  openAttempts(jobId: string): Pick<AttemptRow, "error" | "detail">[] {
    return this.#s.openAttempts.all({ job_id: jobId });
  }
  /** Whether all files that the job left on its machines were downloaded. */
  collected(jobId: string): boolean {
    return this.#s.collects
      .all({ job_id: jobId })
      .every((c) => c.state === "done" && !c.detail?.includes('"left_out"'));
  }
  detailAttempt(effectId: number, attempt: number, detail: string): void {
    this.#s.detailAttempt.run({ effect_id: effectId, attempt, detail });
  }

  // Timers

  setTimer(row: TimerRow): void {
    this.#s.setTimer.run(row);
  }
  timer(jobId: string, name: string): TimerRow | undefined {
    return this.#s.timer.get({ job_id: jobId, name });
  }
  /** True for the one caller that may fire it. */
  takeTimer(jobId: string, name: string, due: number): boolean {
    return this.#s.takeTimer.run({ job_id: jobId, name, due }).changes === 1;
  }
  clearTimers(jobId: string): void {
    this.#s.clearTimers.run({ job_id: jobId });
  }
  timers(): TimerRow[] {
    return this.#s.timers.all({});
  }

  // Placements

  /** The job's row shows what its open placement uses. */
  openPlacement(
    row: Pick<
      PlacementRow,
      "job_id" | "n" | "candidate" | "seq" | "provider" | "gpus" | "region" | "spot" | "opened_at"
    >,
  ): void {
    this.#s.openPlacement.run({ ...row, goes_on: 0 });
    this.#s.placeJob.run({ id: row.job_id, provider: row.provider, gpus: row.gpus });
  }
  closePlacement(
    row: Pick<
      PlacementRow,
      "job_id" | "n" | "closed_at" | "outcome" | "failure" | "step" | "error" | "exit_code" | "checkpoint" | "goes_on"
    >,
  ): void {
    this.#s.closePlacement.run(row);
  }
  resumedFrom(jobId: string, n: number, text: string): void {
    this.#s.resumedFrom.run({ job_id: jobId, n, resumed_from: text });
  }
  /** Why each placement of the job ended, in order; null while it is open or if it succeeded. With its newest checkpoint at that time. */
  placementFailures(jobId: string): Pick<PlacementRow, "candidate" | "failure" | "checkpoint">[] {
    return this.#s.placementFailures.all({ job_id: jobId });
  }

  lastPlacement(jobId: string): PlacementRow | undefined {
    return this.#s.lastPlacement.get({ job_id: jobId });
  }

  // Feed

  insertFeed(jobId: string | null, at: number, type: string, data: string): number {
    return Number(this.#s.insertFeed.run({ job_id: jobId, at, type, data }).lastInsertRowid);
  }
}
