// Schema 5 adds the project files that were excluded from a run.

/** Never edited once released. */
export const SCHEMA_0005: readonly string[] = [
  // JSON of `LeftOut` with the id of the whole list; null if nothing was excluded, or if a version before this one did
  // not record it.
  `ALTER TABLE job ADD COLUMN left_out TEXT`,
];
