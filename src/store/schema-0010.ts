// Schema 10 adds notifications: what is to be reported, to whom, and how far each message got.

/** Never edited once released. */
export const SCHEMA_0010: readonly string[] = [
  // A notice, written in the transaction of the event that it reports. `key`: the same fact is reported once. `data` is JSON.
  // `spread`: 1 once its messages exist.
  `CREATE TABLE notice (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    key TEXT,
    title TEXT NOT NULL,
    data TEXT NOT NULL,
    spread INTEGER NOT NULL DEFAULT 0
  ) STRICT`,
  `CREATE UNIQUE INDEX notice_key ON notice (key) WHERE key IS NOT NULL`,
  `CREATE INDEX notice_fresh ON notice (id) WHERE spread = 0`,
  `CREATE INDEX notice_job ON notice (job_id) WHERE job_id IS NOT NULL`,
  // Targets of messages. `settings` is JSON, with the reference of its secret and never the secret.
  `CREATE TABLE notify_target (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    settings TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  // One message to one target. `notices` is a JSON list of ids: one, or those of a digest.
  `CREATE TABLE notify_message (
    id TEXT PRIMARY KEY,
    target TEXT NOT NULL,
    job_id TEXT,
    kind TEXT NOT NULL,
    notices TEXT NOT NULL,
    title TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'merged', 'gave_up')),
    attempts INTEGER NOT NULL,
    next_at INTEGER,
    error TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX notify_message_open ON notify_message (target, created_at) WHERE state = 'waiting'`,
  `CREATE INDEX notify_message_ended ON notify_message (target, ended_at) WHERE ended_at IS NOT NULL`,
  `CREATE INDEX notify_message_time ON notify_message (created_at)`,
  `CREATE INDEX notify_message_job ON notify_message (job_id) WHERE job_id IS NOT NULL`,
  // Rules of the home (a JSON list of lines), and the newest notice that was read.
  `CREATE TABLE notify_setting (one INTEGER PRIMARY KEY CHECK (one = 1), rules TEXT NOT NULL, read_up_to INTEGER NOT NULL) STRICT`,
  `INSERT INTO notify_setting (one, rules, read_up_to) VALUES (1, '["waiting 30m"]', 0)`,
];
