import type { All } from "./tables.ts";

/** The columns that were seen through each connection: a column stays once it is there. */
const seenThrough = new WeakMap<All, Set<string>>();

/** Whether runs have this column: a home of an older version lacks some. */
export function knowsColumn(all: All, name: string): boolean {
  const seen = seenThrough.get(all) ?? new Set();
  if (seen.has(name)) return true;
  const isThere = all("SELECT 1 FROM pragma_table_info('job') WHERE name = ?", name).length > 0;
  if (isThere) seenThrough.set(all, seen.add(name));
  return isThere;
}
