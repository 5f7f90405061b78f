// Archives runs, and reads and sets the rule by which a home removes old runs. None of it starts a control plane: without a running one, the
// command does it (command.ts).

import type { JobRecord } from "../src/schemas/job.ts";
import type { HomeRetention, RetentionRule } from "../src/schemas/retention.ts";
import { asked } from "./command.ts";
import { isThere } from "./control-planes.ts";
import { ownHome } from "./own-home.ts";
import { call, checkId, refused } from "./calls.ts";
import { job, only } from "./runs.ts";

async function setArchived(jobId: string, isArchived: boolean): Promise<JobRecord> {
  checkId(jobId);
  if (await isThere(ownHome())) return call((client) => client.archive(jobId, isArchived));
  await job(jobId);
  return only(jobId, await asked(ownHome(), ["archive", ...(isArchived ? [] : ["--undo"]), "--", jobId]));
}

/**
 * Archives an ended run: lists leave it out, and nothing removes it by age. Its files stay. Rejects with `job_not_archivable` if it has not
 * ended. Starts no control plane.
 */
export const archive = (jobId: string): Promise<JobRecord> => setArchived(jobId, true);

/** Lists an archived run again; the retention rule may remove it again. Starts no control plane. */
export const unarchive = (jobId: string): Promise<JobRecord> => setArchived(jobId, false);

/** Returns the rule that removes ended runs by age (null by default), what it has removed and what it would remove now. */
export async function retention(): Promise<HomeRetention> {
  return (await isThere(ownHome())) ? call((client) => client.retention()) : asked(ownHome(), ["prune", "rule"]);
}

/**
 * Sets the rule by which the control plane removes ended runs once an hour and at each start, or removes it with null. Archived runs and runs in use stay. This
 * cannot be undone for runs that are removed. Rejects with `invalid_request`, which names the field. Starts no control plane.
 */
export async function setRetention(
  rule: (Pick<RetentionRule, "older_than"> & Partial<RetentionRule>) | null,
): Promise<HomeRetention> {
  if (rule === null) {
    if (await isThere(ownHome())) return call((client) => client.setRetention({ rule }));
    return asked(ownHome(), ["prune", "rule", "clear"]);
  }
  const older: unknown = (rule as typeof rule | undefined)?.older_than;
  if (typeof older !== "string") throw refused("older_than", "must be an age such as 30d; without a rule write null");
  const { older_than, keep_best = null, keep_newest = null, ...others } = rule;
  // JSON has no NaN: it would become null, and the rule would keep nothing.
  if (typeof keep_newest === "number" && !Number.isFinite(keep_newest))
    throw refused("keep_newest", "must be a whole number of at least 1, or null");
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw refused(unknown, "is not known; a rule has older_than, keep_best and keep_newest");
  const whole = { older_than, keep_best, keep_newest };
  if (await isThere(ownHome())) return call((client) => client.setRetention({ rule: whole }));
  const words = [
    `--older-than=${older_than}`,
    ...(keep_best === null ? [] : [`--keep-best=${keep_best}`]),
    ...(keep_newest === null ? [] : [`--keep-newest=${keep_newest}`]),
  ];
  return asked(ownHome(), ["prune", "rule", ...words]);
}
