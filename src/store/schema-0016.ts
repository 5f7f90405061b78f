// Schema 16 adds the placement whose machine saved a checkpoint file.

/** Never edited once released. */
export const SCHEMA_0016: readonly string[] = [
  `ALTER TABLE checkpoint ADD COLUMN placement INTEGER NOT NULL DEFAULT 1`,
  // Until now only the times of this computer said it.
  `UPDATE checkpoint SET placement = p.n FROM (
     SELECT c.job_id, c.path, max(p.n) AS n FROM checkpoint c JOIN placement p ON p.job_id = c.job_id AND p.opened_at <= c.saved_at
     GROUP BY c.job_id, c.path
   ) AS p WHERE p.job_id = checkpoint.job_id AND p.path = checkpoint.path`,
];
