// Deletes the rows of a removed run. Called within a transaction, except for reads.
//
// RM1. Rows of machines stay: they are the ledger, and the cost of a run stays counted.
// RM2. `begin` hides the run from every list and leaves the mark by which a later start finishes the removal. The long
//      tables are emptied in portions after that, because a run may have millions of points.

import type { Sqlite } from "./database.ts";

/** Tables with few rows per run, and those in which other code looks for work. */
const AT_ONCE = [
  "timer",
  "sink",
  "sink_copy",
  "sink_upload",
  "checkpoint",
  "checkpoint_removal",
  "log",
  "log_cursor",
  "placement",
  "notice",
  "notify_message",
];
/**
 * One statement per table; each deletes at most the given number of rows. The order follows the references between
 * tables.
 */
const IN_PORTIONS = [
  `DELETE FROM point WHERE (series_id, i) IN
     (SELECT p.series_id, p.i FROM series s JOIN point p ON p.series_id = s.id WHERE s.job_id = ? LIMIT ?)`,
  `DELETE FROM series WHERE id IN (SELECT id FROM series WHERE job_id = ? LIMIT ?)`,
  `DELETE FROM log_time WHERE (job_id, offset) IN (SELECT job_id, offset FROM log_time WHERE job_id = ? LIMIT ?)`,
  `DELETE FROM attempt WHERE (effect_id, attempt) IN
     (SELECT a.effect_id, a.attempt FROM effect e JOIN attempt a ON a.effect_id = e.id WHERE e.job_id = ? LIMIT ?)`,
  `DELETE FROM effect WHERE id IN (SELECT id FROM effect WHERE job_id = ? LIMIT ?)`,
  `DELETE FROM journal WHERE (job_id, seq) IN (SELECT job_id, seq FROM journal WHERE job_id = ? LIMIT ?)`,
  `DELETE FROM feed WHERE seq IN (SELECT seq FROM feed WHERE job_id = ? AND type <> 'job.removed' LIMIT ?)`,
];

/** What stays known of a run that the retention rule has removed. */
export interface RemovedByRule {
  /** JSON of the rule. */
  rule: string;
  label: string | null;
  bytes: number;
}

export class RemovalStore {
  readonly #db: Sqlite;

  constructor(db: Sqlite) {
    this.#db = db;
  }

  /** RM2. */
  begin(jobId: string, at: number, byRule?: RemovedByRule): void {
    this.#db
      .prepare("INSERT INTO removal (job_id, begun_at, rule, label, bytes) VALUES (?, ?, ?, ?, ?)")
      .run(jobId, at, byRule?.rule ?? null, byRule?.label ?? null, byRule?.bytes ?? null);
    for (const table of AT_ONCE) this.#db.prepare(`DELETE FROM ${table} WHERE job_id = ?`).run(jobId);
    this.#db.prepare("DELETE FROM job WHERE id = ?").run(jobId);
  }

  /** Deletes up to `max` further rows of the run. Returns false when none was left. */
  dropSome(jobId: string, max: number): boolean {
    return IN_PORTIONS.some((sql) => this.#db.prepare(sql).run(jobId, max).changes > 0);
  }

  end(jobId: string, at: number): void {
    this.#db.prepare("UPDATE removal SET ended_at = ? WHERE job_id = ?").run(at, jobId);
  }

  /** Runs whose removal was begun and has not ended. */
  open(): string[] {
    return this.#db
      .prepare("SELECT job_id FROM removal WHERE ended_at IS NULL ORDER BY job_id")
      .pluck()
      .all() as string[];
  }

  /** Records the disk usage of the run's files, in bytes. */
  measured(jobId: string, bytes: number): void {
    this.#db.prepare("UPDATE job SET disk_bytes = ? WHERE id = ?").run(bytes, jobId);
  }

  /** Ended runs whose disk usage was not measured yet. */
  unmeasured(max: number): string[] {
    return this.#db
      .prepare("SELECT id FROM job WHERE disk_bytes IS NULL AND state = 'terminal' ORDER BY id DESC LIMIT ?")
      .pluck()
      .all(max) as string[];
  }
}
