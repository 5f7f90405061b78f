// What the fourth schema adds: with whose account a machine was ordered.

/** Never edited once released. */
export const SCHEMA_0004: readonly string[] = [
  // As the provider calls it, or a fingerprint of the key; null where that was not known.
  `ALTER TABLE machine ADD COLUMN account TEXT`,
];
