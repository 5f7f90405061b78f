// What a run resumes from, in words: in the list of runs and on the run's page.

import { stepInName } from "../../../src/domain/step-in-name.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { number } from "../format.ts";

/** `step 500`, else the checkpoint's path; empty as long as none is chosen. */
export function checkpointWords({ checkpoint }: NonNullable<JobRecord["resumed_from"]>): string {
  if (checkpoint === null) return "";
  const step = stepInName(checkpoint);
  return step === null ? inOrder(checkpoint) : `step ${number(step)}`;
}
