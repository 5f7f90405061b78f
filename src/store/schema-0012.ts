// Schema 12 adds what an order without a machine may have cost (ADR 0035).

/** Never edited once released. */
export const SCHEMA_0012: readonly string[] = [
  // The highest price per hour that the order accepted, and the part of the budget that it was given, in micro-dollars; null for none.
  `ALTER TABLE machine ADD COLUMN order_micro INTEGER`,
  `ALTER TABLE machine ADD COLUMN most_micro INTEGER`,
  // From this instant on, the machine's own guard may have ended it; null for none.
  `ALTER TABLE machine ADD COLUMN ends_from INTEGER`,
  // A machine may have existed until this instant although no list showed it; null where an outcome is proven.
  `ALTER TABLE machine ADD COLUMN doubt_at INTEGER`,
];
