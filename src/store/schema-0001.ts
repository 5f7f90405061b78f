// The tables of the first release. Kept apart from the migrator, so that reading a home loads no query builder.

/** Never edited once released: later versions add migrations. */
export const SCHEMA_0001: readonly string[] = [
  `CREATE TABLE fence (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL, started_at INTEGER NOT NULL, installation_id TEXT NOT NULL) STRICT`,
  `INSERT INTO fence VALUES (1, 0, 0, '', 0, '')`,
  `CREATE TABLE job (
    id TEXT PRIMARY KEY, seq INTEGER NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL, status TEXT NOT NULL,
    snapshot TEXT NOT NULL, hash TEXT NOT NULL, parked TEXT, label TEXT, provider TEXT NOT NULL, gpus TEXT NOT NULL,
    nodes INTEGER NOT NULL, spec TEXT NOT NULL, code_snapshot TEXT, idem_key TEXT, idem_hash TEXT,
    exit_code INTEGER, error TEXT, created_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_by_status ON job (status, id)`,
  `CREATE INDEX job_live ON job (id) WHERE state <> 'terminal'`,
  `CREATE UNIQUE INDEX job_by_idem_key ON job (idem_key) WHERE idem_key IS NOT NULL`,
  `CREATE TABLE journal (
    job_id TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, epoch INTEGER NOT NULL, type TEXT NOT NULL, event TEXT NOT NULL,
    from_state TEXT, to_state TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (job_id, seq)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE effect (
    id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, seq INTEGER NOT NULL, step TEXT NOT NULL, node INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running','retrying','done','failed','cancelled')), attempt INTEGER NOT NULL,
    first_at INTEGER NOT NULL, next_at INTEGER) STRICT`,
  `CREATE INDEX effect_by_job ON effect (job_id)`,
  `CREATE INDEX effect_open ON effect (id) WHERE state IN ('running','retrying')`,
  `CREATE TABLE attempt (
    effect_id INTEGER NOT NULL, attempt INTEGER NOT NULL, epoch INTEGER NOT NULL, status TEXT NOT NULL, started_at INTEGER NOT NULL,
    ended_at INTEGER, error TEXT, detail TEXT, PRIMARY KEY (effect_id, attempt)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE timer (job_id TEXT NOT NULL, name TEXT NOT NULL, due INTEGER NOT NULL, event TEXT NOT NULL, PRIMARY KEY (job_id, name)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE machine (
    name TEXT PRIMARY KEY, job_id TEXT, node INTEGER NOT NULL, ordinal INTEGER NOT NULL, provider TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('intended','unknown','held','releasing','released')), resource_id TEXT, handle TEXT, address TEXT,
    price_micro INTEGER CHECK (price_micro >= 0), created_at INTEGER NOT NULL, horizon_at INTEGER NOT NULL, held_at INTEGER,
    empty_looks INTEGER NOT NULL, last_look_at INTEGER, released_at INTEGER, proof TEXT, note TEXT,
    CHECK ((state = 'released') = (released_at IS NOT NULL)), CHECK (state <> 'released' OR proof IS NOT NULL)) STRICT, WITHOUT ROWID`,
  `CREATE INDEX machine_by_job ON machine (job_id)`,
  `CREATE INDEX machine_owed ON machine (name) WHERE state <> 'released'`,
  `CREATE TABLE feed (seq INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT, at INTEGER NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL) STRICT`,
  `CREATE INDEX feed_by_job ON feed (job_id, seq)`,
  `CREATE TABLE log (job_id TEXT PRIMARY KEY, stored_bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
  `CREATE TABLE log_cursor (
    job_id TEXT NOT NULL, node INTEGER NOT NULL, stream TEXT NOT NULL, source_offset INTEGER NOT NULL, samples_offset INTEGER NOT NULL,
    ended INTEGER NOT NULL, PRIMARY KEY (job_id, node, stream)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE log_time (job_id TEXT NOT NULL, offset INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (job_id, offset)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE series (id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (job_id, name)) STRICT`,
  `CREATE TABLE point (
    series_id INTEGER NOT NULL, i INTEGER NOT NULL, step REAL NOT NULL, time REAL NOT NULL, value REAL, rank INTEGER NOT NULL,
    PRIMARY KEY (series_id, i)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE checkpoint (
    job_id TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, modified_at INTEGER NOT NULL, saved_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, path)) STRICT, WITHOUT ROWID`,
];
