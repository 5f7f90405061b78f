// What the sixth schema adds: checkpoint files that are still being written, and jobs that are being removed.

/** Never edited once released. */
export const SCHEMA_0006: readonly string[] = [
  // 1 where the file was downloaded while the script still wrote to it.
  `ALTER TABLE checkpoint ADD COLUMN in_progress INTEGER NOT NULL DEFAULT 0`,
  // A row is written before the first file of a removed job goes, and deleted after the last one.
  `CREATE TABLE removal (job_id TEXT PRIMARY KEY, code_snapshot TEXT, begun_at INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
];
