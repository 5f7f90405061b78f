// Columns that hold JSON which svc itself wrote, read as what was written.

import type { JobError, StoredLeftOut } from "../schemas/job.ts";

export const storedError = (json: string): JobError => JSON.parse(json) as JobError;
export const storedSource = (json: string) => JSON.parse(json) as { job: string; checkpoint: string };
export const storedLeftOut = (json: string): StoredLeftOut => JSON.parse(json) as StoredLeftOut;
