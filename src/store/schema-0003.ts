// Schema 3 adds copies of checkpoints and logs in object stores.

/** Never edited once released. */
export const SCHEMA_0003: readonly string[] = [
  // One row per sink, created with its job. `manifest` is the fingerprint of the list that was written last.
  `CREATE TABLE sink (
    job_id TEXT NOT NULL, sink INTEGER NOT NULL, state TEXT NOT NULL CHECK (state IN ('open','done','gave_up')),
    failures INTEGER NOT NULL, error TEXT, next_at INTEGER, copied_at INTEGER, manifest TEXT, PRIMARY KEY (job_id, sink)) STRICT, WITHOUT ROWID`,
  `CREATE INDEX sink_open ON sink (job_id) WHERE state = 'open'`,
  // A file that is stored and verified, in its newest version; or the reason why it never will be (`why`).
  `CREATE TABLE sink_copy (
    job_id TEXT NOT NULL, sink INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, modified_at INTEGER NOT NULL, sha256 TEXT,
    why TEXT, copied_at INTEGER NOT NULL, PRIMARY KEY (job_id, sink, path)) STRICT, WITHOUT ROWID`,
  // An upload that may exist: the row is written before the first byte leaves, and stays until the copy is recorded.
  // `resume` is sealed.
  `CREATE TABLE sink_upload (
    job_id TEXT NOT NULL, sink INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, resume TEXT,
    sent INTEGER NOT NULL, PRIMARY KEY (job_id, sink, path)) STRICT, WITHOUT ROWID`,
];
