import { runPath } from "../router.tsx";

/** A chart with more runs cannot be read. */
export const COMPARED_MAX = 8;

/** The page that compares the metrics and specs of these runs; null for fewer than two, or too many. */
export function comparePath(ids: readonly string[]): string | null {
  const [first, ...others] = ids;
  if (first === undefined || others.length === 0 || ids.length > COMPARED_MAX) return null;
  return `${runPath(first, "metrics")}&with=${others.map(encodeURIComponent).join(",")}`;
}
