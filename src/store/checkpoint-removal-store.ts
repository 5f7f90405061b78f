// Rows of checkpoints that were removed from ended runs. The engine calls it within a transaction, except for reads.

import type { Sqlite } from "./database.ts";

interface RemovedCheckpoint {
  job_id: string;
  name: string;
}

export class CheckpointRemovalStore {
  readonly #db: Sqlite;

  constructor(db: Sqlite) {
    this.#db = db;
  }

  /** Records the removal of a name, and drops the rows of the files at these paths and below them. */
  begin({ job_id, name }: RemovedCheckpoint, paths: readonly string[], at: number): void {
    this.#db
      .prepare("INSERT OR REPLACE INTO checkpoint_removal (job_id, name, begun_at, ended_at) VALUES (?, ?, ?, NULL)")
      .run(job_id, name, at);
    // The character after the slash is the end of all paths below the folder.
    const drop = this.#db.prepare("DELETE FROM checkpoint WHERE job_id = ? AND (path = ? OR (path > ? AND path < ?))");
    for (const path of paths) drop.run(job_id, path, `${path}/`, `${path}0`);
  }

  end({ job_id, name }: RemovedCheckpoint, at: number): void {
    this.#db.prepare("UPDATE checkpoint_removal SET ended_at = ? WHERE job_id = ? AND name = ?").run(at, job_id, name);
  }

  /** Whether it was removed before. */
  knows({ job_id, name }: RemovedCheckpoint): boolean {
    return (
      this.#db.prepare("SELECT 1 FROM checkpoint_removal WHERE job_id = ? AND name = ?").get(job_id, name) !== undefined
    );
  }

  /** Removals whose files are not all deleted; of one job, or of all. */
  open(jobId: string | null = null): RemovedCheckpoint[] {
    return this.#db
      .prepare(
        "SELECT job_id, name FROM checkpoint_removal WHERE ended_at IS NULL AND (? IS NULL OR job_id = ?) ORDER BY job_id, name",
      )
      .all(jobId, jobId) as RemovedCheckpoint[];
  }

  /** Paths of the job's recorded checkpoint files. */
  paths(jobId: string): string[] {
    return this.#db.prepare("SELECT path FROM checkpoint WHERE job_id = ?").pluck().all(jobId) as string[];
  }
}
