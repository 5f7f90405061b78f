// Reads the removed runs of a home and the times of their removal, for ids that no longer name a run.

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

/** The ISO date of the run's removal; null if no run with this id was removed. */
export function removedAt(all: All, id: string): string | null {
  if (!knowsRemovals(all)) return null;
  const [found] = all<Removal>("SELECT job_id, begun_at FROM removal WHERE job_id = ?", id);
  return isoOrNull(found?.begun_at ?? null);
}

/** The error for a removed run, found by the beginning or the end of its id; null if no or several runs match. */
export function removedLike(all: All, part: string): SvcError | null {
  if (!/^[a-z0-9]{3,64}$/.test(part) || !knowsRemovals(all)) return null;
  const [found, another] = all<Removal>(
    "SELECT job_id, begun_at FROM removal WHERE job_id LIKE ? OR job_id LIKE ? LIMIT 2",
    `${part}%`,
    `%${part}`,
  );
  return found && !another ? jobRemoved(found.job_id, new Date(found.begun_at).toISOString()) : null;
}

/** @param at the ISO date of the removal. */
export const jobRemoved = (id: string, at: string): SvcError =>
  new SvcError("job_removed", { id, at: `${at.slice(0, 16).replace("T", " ")} UTC` });
