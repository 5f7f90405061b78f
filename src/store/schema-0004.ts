// Schema 4 adds the account on which a machine was ordered.

/** Never edited once released. */
export const SCHEMA_0004: readonly string[] = [
  // The provider's name of it, or a fingerprint of the key; null if it was unknown.
  `ALTER TABLE machine ADD COLUMN account TEXT`,
];
