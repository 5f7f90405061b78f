// Schema 13 adds checkpoints of ended runs that were removed one by one (ADR 0036).

/** Never edited once released. */
export const SCHEMA_0013: readonly string[] = [
  // The row is written before the first file is deleted; from then on the checkpoint no longer counts as complete. `ended_at` is null until the
  // last file is deleted.
  `CREATE TABLE checkpoint_removal (
     job_id TEXT NOT NULL, name TEXT NOT NULL, begun_at INTEGER NOT NULL, ended_at INTEGER,
     PRIMARY KEY (job_id, name)
   ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX checkpoint_removal_open ON checkpoint_removal (job_id) WHERE ended_at IS NULL`,
];
