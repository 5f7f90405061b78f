// The additions of the seventh schema: placements, each one a machine or gang that a job used or tried to get.

/** Never edited once released. */
export const SCHEMA_0007: readonly string[] = [
  // `seq`: of the journal entry that opened it. `provider`, `gpus`, `region` and `spot` are its candidate's. `error` is JSON of `JobError`,
  // `resumed_from` JSON of the checkpoint that its script was given. `goes_on`: 1 where another placement followed.
  `CREATE TABLE placement (
    job_id TEXT NOT NULL, n INTEGER NOT NULL, candidate INTEGER NOT NULL, seq INTEGER NOT NULL, provider TEXT NOT NULL, gpus TEXT NOT NULL,
    region TEXT, spot TEXT NOT NULL CHECK (spot IN ('never','prefer','only')), opened_at INTEGER NOT NULL, closed_at INTEGER, outcome TEXT,
    failure TEXT, step TEXT, error TEXT, exit_code INTEGER, checkpoint TEXT, resumed_from TEXT, goes_on INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, n)) STRICT, WITHOUT ROWID`,
  // Earlier jobs have one placement, which begins with the job's first journal entry.
  `INSERT INTO placement (job_id, n, candidate, seq, provider, gpus, spot, opened_at, closed_at, outcome, error, exit_code)
    SELECT id, 1, 0, 1, provider, gpus, 'never', created_at, ended_at, CASE WHEN state = 'terminal' THEN status END, error, exit_code FROM job`,
  // The placement that ordered a machine.
  `ALTER TABLE machine ADD COLUMN placement INTEGER NOT NULL DEFAULT 1`,
  // Whether the provider may take it back.
  `ALTER TABLE machine ADD COLUMN spot INTEGER NOT NULL DEFAULT 0`,
];
