// Which runs of a home were removed, and when. The reads of a home use it for ids that name no run any more.

import { isoOrNull } from "./records.ts";
import { SvcError } from "../errors/index.ts";
import type { All } from "./tables.ts";

interface Removal {
  job_id: string;
  begun_at: number;
}

/** A home from an older version has no removals. */
const knowsRemovals = (all: All): boolean =>
  all<{ name: string }>("SELECT name FROM sqlite_schema WHERE name = 'removal'").length > 0;

/** When the run of this id was removed, as an ISO date; null where none was. */
export function removedAt(all: All, id: string): string | null {
  if (!knowsRemovals(all)) return null;
  const [found] = all<Removal>("SELECT job_id, begun_at FROM removal WHERE job_id = ?", id);
  return isoOrNull(found?.begun_at ?? null);
}

/** The error for a removed run that the beginning or the end of its id names; null where that names none, or several. */
export function removedLike(all: All, part: string): SvcError | null {
  if (!/^[a-z0-9]{3,64}$/.test(part) || !knowsRemovals(all)) return null;
  const [found, another] = all<Removal>(
    "SELECT job_id, begun_at FROM removal WHERE job_id LIKE ? OR job_id LIKE ? LIMIT 2",
    `${part}%`,
    `%${part}`,
  );
  return found && !another ? jobRemoved(found.job_id, new Date(found.begun_at).toISOString()) : null;
}

/** @param at when the run was removed: an ISO date. */
export const jobRemoved = (id: string, at: string): SvcError =>
  new SvcError("job_removed", { id, at: `${at.slice(0, 16).replace("T", " ")} UTC` });
