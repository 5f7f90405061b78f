// The condition of a list of runs: `jobs` and `countByStatus` select by it.

import type { JobsFilter, JobsQuery } from "../schemas/job.ts";
import { knowsColumn } from "./retention-reads.ts";
import type { All } from "./tables.ts";

/** The columns in which a text search looks. */
const HOLDS_TEXT = `(id || ' ' || coalesce(label, '') || ' ' || provider || ' ' || gpus || ' ' || (spec ->> 'entrypoint') || ' ' || coalesce(error, '')) LIKE ? ESCAPE '\\'`;

/** A home that an older version wrote, and no control plane opened since, has no archived runs. */
const knowsArchive = (all: All): boolean => knowsColumn(all, "archived_at");

/** The WHERE clause, empty for all runs, and its arguments. */
export function whereOf(
  all: All,
  query: JobsFilter & Partial<Pick<JobsQuery, "status" | "ids" | "cursor">>,
): { sql: string; args: unknown[] } {
  const conditions: string[] = [];
  const args: unknown[] = [];
  const where = (condition: string, value: unknown): void => {
    conditions.push(condition);
    args.push(value);
  };
  if (query.status !== undefined) where("status IN (SELECT value FROM json_each(?))", JSON.stringify(query.status));
  if (query.ids !== undefined) where("id IN (SELECT value FROM json_each(?))", JSON.stringify(query.ids));
  if (query.q !== undefined) where(HOLDS_TEXT, `%${query.q.replace(/[\\%_]/g, "\\$&")}%`);
  if (query.provider !== undefined) where("provider = ?", query.provider);
  if (query.label !== undefined) where("label = ?", query.label);
  if (query.created_from !== undefined) where("created_at >= ?", Date.parse(query.created_from));
  if (query.created_until !== undefined) where("created_at < ?", Date.parse(query.created_until));
  if (query.cursor !== undefined) where("id < ?", query.cursor);
  const archived = query.archived ?? (query.ids === undefined ? "hidden" : "all");
  if (archived !== "all") {
    const is = knowsArchive(all) ? "archived_at IS NOT NULL" : "0";
    conditions.push(archived === "only" ? is : `NOT (${is})`);
  }
  return { sql: conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "", args };
}
