/**
 * The value of a table for a word from elsewhere: a metric, an argument, an id in an address, a GPU's name. A plain `table[key]`
 * answers `constructor` and `__proto__` with what every object inherits.
 */
export const ownValue = <T>(table: Readonly<Record<string, T>>, key: string): T | undefined =>
  Object.hasOwn(table, key) ? table[key] : undefined;
