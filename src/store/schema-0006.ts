// Schema 6 adds checkpoint files that are still being written, sizes on disk, and runs that were removed.

/** Never edited once released. */
export const SCHEMA_0006: readonly string[] = [
  // 1 if the file was downloaded while the script was still writing to it.
  `ALTER TABLE checkpoint ADD COLUMN in_progress INTEGER NOT NULL DEFAULT 0`,
  // Disk usage of the job's files on this computer; null until they were measured.
  `ALTER TABLE job ADD COLUMN disk_bytes INTEGER`,
  // The row is written before the first file of a removed job is deleted. `ended_at` is null until the last one is
  // deleted.
  `CREATE TABLE removal (job_id TEXT PRIMARY KEY, begun_at INTEGER NOT NULL, ended_at INTEGER) STRICT, WITHOUT ROWID`,
  `CREATE INDEX removal_open ON removal (job_id) WHERE ended_at IS NULL`,
];
