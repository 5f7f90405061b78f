// Schema 11 adds the limits of a home, and the runs that wait for them.

/** Never edited once released. */
export const SCHEMA_0011: readonly string[] = [
  // Micro-dollars or counts; a limit that is not set has no row.
  `CREATE TABLE home_limit (name TEXT PRIMARY KEY, value INTEGER NOT NULL CHECK (value >= 0)) STRICT, WITHOUT ROWID`,
  // One row while a run waits to be let in, oldest first. `passes`: younger runs that were let in before it. `reason` is JSON.
  `CREATE TABLE limit_wait (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL UNIQUE, passes INTEGER NOT NULL, reason TEXT NOT NULL) STRICT`,
  // A run that leaves `waiting`, for any reason, loses its row.
  `CREATE TRIGGER limit_wait_over AFTER UPDATE OF state ON job WHEN new.state <> 'waiting'
    BEGIN DELETE FROM limit_wait WHERE job_id = new.id; END`,
];
