import type { JobRecord } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";

const RUNS_READ = 50;

/** The last runs, newest first, from which the form takes its suggestions. */
export const recentRuns = (): Promise<JobRecord[]> => api.jobs({ limit: RUNS_READ }).then(({ jobs }) => jobs);
