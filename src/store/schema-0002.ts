// Schema 2 adds machines whose price changes while they are held.

/** Never edited once released. */
export const SCHEMA_0002: readonly string[] = [
  // Micro-dollars owed up to `priced_at`; from then on `price_micro` counts. Null: since the order was made.
  `ALTER TABLE machine ADD COLUMN spent_micro INTEGER NOT NULL DEFAULT 0 CHECK (spent_micro >= 0)`,
  `ALTER TABLE machine ADD COLUMN priced_at INTEGER`,
];
