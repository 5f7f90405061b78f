import type { JobRecord } from "../../../src/schemas/job.ts";
import { store } from "../store.ts";

/** Makes one call for each run, and shows what those that succeeded have changed. Rejects with the first failure, once all are over. */
export async function changeAll(
  jobs: readonly JobRecord[],
  change: (job: JobRecord) => Promise<JobRecord>,
): Promise<void> {
  const done = await Promise.allSettled(jobs.map(change));
  store.trigger.jobsLoaded({ found: done.flatMap((each) => (each.status === "fulfilled" ? [each.value] : [])) });
  const failed = done.find((each) => each.status === "rejected");
  if (failed) throw failed.reason;
}
