// What the fifth schema adds: which files of the project a run was started without.

/** Never edited once released. */
export const SCHEMA_0005: readonly string[] = [
  // JSON of `LeftOut` with the id of the whole list; null where nothing was left out, or a version before this one did not say.
  `ALTER TABLE job ADD COLUMN left_out TEXT`,
];
