// Schema 9 adds sums of costs, and the rows of the ledger that are not in them.

/** Never edited once released. */
export const SCHEMA_0009: readonly string[] = [
  // `dim`: day, provider, project, label or gpu, and the last four by month: `label.month`, where `day` is the month. `key` is empty for none.
  // Times are milliseconds, amounts micro-dollars.
  `CREATE TABLE cost_sum (
    dim TEXT NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, day TEXT NOT NULL, machines INTEGER NOT NULL, unpriced INTEGER NOT NULL,
    ms INTEGER NOT NULL, unpriced_ms INTEGER NOT NULL, unrated_ms INTEGER NOT NULL, micro INTEGER NOT NULL, estimate_micro INTEGER NOT NULL,
    PRIMARY KEY (dim, day, key, kind)) STRICT, WITHOUT ROWID`,
  // The share of each machine in the sums: JSON of its keys and cells.
  `CREATE TABLE cost_machine (name TEXT PRIMARY KEY, cells TEXT NOT NULL) STRICT, WITHOUT ROWID`,
  // Machines that are not in the sums, or that changed since they were added.
  `CREATE TABLE cost_open (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID`,
  `INSERT INTO cost_open (name) SELECT name FROM machine`,
  // The time zone of the sums.
  `CREATE TABLE cost_zone (one INTEGER PRIMARY KEY CHECK (one = 1), zone TEXT NOT NULL) STRICT`,
  `CREATE TRIGGER cost_of_new AFTER INSERT ON machine BEGIN INSERT OR IGNORE INTO cost_open (name) VALUES (new.name); END`,
  `CREATE TRIGGER cost_of_changed AFTER UPDATE OF price_micro, spent_micro, priced_at, held_at, released_at ON machine
    BEGIN INSERT OR IGNORE INTO cost_open (name) VALUES (new.name); END`,
  `CREATE TRIGGER cost_of_label AFTER UPDATE OF label ON job WHEN old.label IS NOT new.label
    BEGIN INSERT OR IGNORE INTO cost_open (name) SELECT name FROM machine WHERE job_id = new.id; END`,
];
