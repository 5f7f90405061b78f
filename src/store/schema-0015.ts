// Schema 15 adds the tags of runs, and an index of the runs that lists show.

/** Never edited once released. */
export const SCHEMA_0015: readonly string[] = [
  // A JSON list of words without quotes (src/schemas/tags.ts), so a tag is found as its JSON text.
  `ALTER TABLE job ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'`,
  // A search by tag reads this index alone: the rows of runs are long.
  `CREATE INDEX job_tags ON job (id, tags) WHERE tags <> '[]'`,
  // The counts by status leave archived runs out, and would read every row without it.
  `CREATE INDEX job_shown ON job (status, id, archived_at) WHERE archived_at IS NULL`,
];
