// Columns that hold JSON which svc itself wrote, read as what was written.

import type { JobError, StoredLeftOut } from "../schemas/job.ts";

/** The commands in its texts name the run: versions before 0.2.0 stored JOB in place of the id. */
export const storedError = (jobId: string, json: string): JobError => naming(jobId, JSON.parse(json) as JobError);

/** The error, with the run's id in place of JOB in the commands that its texts quote. */
export function naming(jobId: string, error: JobError): JobError {
  const named = (text: string): string => text.replace(/`[^`]*`/g, (command) => command.replace(/\bJOB\b/g, jobId));
  return { ...error, message: named(error.message), hint: named(error.hint) };
}

export const storedSource = (json: string) => JSON.parse(json) as { job: string; checkpoint: string };
export const storedLeftOut = (json: string): StoredLeftOut => JSON.parse(json) as StoredLeftOut;
