// What the sixth schema adds: checkpoint files that are still being written, sizes on disk, and runs that were removed.

/** Never edited once released. */
export const SCHEMA_0006: readonly string[] = [
  // 1 where the file was downloaded while the script still wrote to it.
  `ALTER TABLE checkpoint ADD COLUMN in_progress INTEGER NOT NULL DEFAULT 0`,
  // What the files of the job take here; null until they were measured.
  `ALTER TABLE job ADD COLUMN disk_bytes INTEGER`,
  // A row is written before the first file of a removed job goes. `ended_at` is null until the last one has gone.
  `CREATE TABLE removal (job_id TEXT PRIMARY KEY, begun_at INTEGER NOT NULL, ended_at INTEGER) STRICT, WITHOUT ROWID`,
  `CREATE INDEX removal_open ON removal (job_id) WHERE ended_at IS NULL`,
];
