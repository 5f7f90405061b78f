// Schema 8 adds the memory of hosts: how each rented machine turned out.

/** Never edited once released. */
export const SCHEMA_0008: readonly string[] = [
  // One row per machine of the ledger. `host` is the provider's id of the hardware, `gpu_uuids` a JSON list; null where unknown.
  `CREATE TABLE host_verdict (
    machine TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    gpu TEXT NOT NULL,
    host TEXT,
    gpu_uuids TEXT,
    verdict TEXT NOT NULL CHECK (verdict IN ('good', 'bad')),
    reason TEXT,
    boot_seconds REAL,
    at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX host_verdict_host ON host_verdict (provider, host, at)`,
  `CREATE INDEX host_verdict_gpu ON host_verdict (provider, gpu, at)`,
];
