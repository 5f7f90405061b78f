// Schema 14 adds archived runs and the retention rule of a home (ADR 0037).

/** Never edited once released. */
export const SCHEMA_0014: readonly string[] = [
  // When an ended run was archived; null for a run of the default list.
  `ALTER TABLE job ADD COLUMN archived_at INTEGER`,
  // One row while a rule is set. `rule` is JSON. `seen_at` is the newest time at which svc has looked; `gaps` is JSON: the times for which no control plane
  // ran, and which are not trusted yet.
  `CREATE TABLE retention (
     one INTEGER PRIMARY KEY CHECK (one = 1), rule TEXT NOT NULL, set_at INTEGER NOT NULL, seen_at INTEGER NOT NULL,
     looked_at INTEGER, gaps TEXT NOT NULL) STRICT`,
  // For a removal by the rule: what the run was called, its size, and whether a notice reports it. Null for a removal that somebody asked for.
  `ALTER TABLE removal ADD COLUMN rule TEXT`,
  `ALTER TABLE removal ADD COLUMN label TEXT`,
  `ALTER TABLE removal ADD COLUMN bytes INTEGER`,
  `ALTER TABLE removal ADD COLUMN told INTEGER NOT NULL DEFAULT 0`,
  `CREATE INDEX removal_by_rule ON removal (begun_at) WHERE rule IS NOT NULL`,
];
