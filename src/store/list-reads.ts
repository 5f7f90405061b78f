// The condition of a list of runs: `jobs` and `countByStatus` select by it.

import type { JobsFilter, JobsQuery } from "../schemas/job.ts";
import { knowsColumn } from "./known-columns.ts";
import type { All } from "./tables.ts";

/** The columns in which a text search looks. */
const holdsText = (tags: string): string =>
  `(id || ' ' || coalesce(label, '') || ' ' || ${tags} || ' ' || provider || ' ' || gpus || ' ' || (spec ->> 'entrypoint') || ' ' || coalesce(error, '')) LIKE ? ESCAPE '\\'`;

/** A home that an older version wrote, and no control plane opened since, has no tags. */
const tagsIn = (all: All): string => (knowsColumn(all, "tags") ? "tags" : "'[]'");
/** Nor archived runs. */
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
  if (query.q !== undefined) where(holdsText(tagsIn(all)), `%${query.q.replace(/[\\%_]/g, "\\$&")}%`);
  if (query.provider !== undefined) where("provider = ?", query.provider);
  if (query.label !== undefined) where("label = ?", query.label);
  if (query.tag !== undefined) {
    // Tags hold no quotes, so the JSON text of one is nowhere but where it is meant. The inner query reads only the index `job_tags`.
    const tags = tagsIn(all);
    const has = query.tag.map(() => `AND instr(${tags}, ?) > 0`).join(" ");
    conditions.push(`id IN (SELECT id FROM job WHERE ${tags} <> '[]' ${has})`);
    args.push(...query.tag.map((tag) => JSON.stringify(tag)));
  }
  if (query.created_from !== undefined) where("created_at >= ?", Date.parse(query.created_from));
  if (query.created_until !== undefined) where("created_at < ?", Date.parse(query.created_until));
  if (query.cursor !== undefined) where("id < ?", query.cursor);
  const archived = query.archived ?? (query.ids === undefined ? "hidden" : "all");
  if (archived !== "all") {
    // The words of the index `job_shown`.
    const [only, hidden] = knowsArchive(all) ? ["archived_at IS NOT NULL", "archived_at IS NULL"] : ["0", "1"];
    conditions.push(archived === "only" ? only : hidden);
  }
  return { sql: conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "", args };
}
