// What came of an attempt of a step, in words.

import type { TimelineStep } from "../../../src/schemas/job.ts";
import { words } from "../format.ts";

/** The exit code of a script that failed. Following its output succeeded all the same, so the step's own status does not tell. */
export function badExit({ step, status, detail }: TimelineStep): number | null {
  const code = detail?.["exit_code"];
  return step === "stream" && status === "succeeded" && typeof code === "number" && code !== 0 ? code : null;
}

export function attemptWords(attempt: TimelineStep): string {
  const code = badExit(attempt);
  return code === null ? words(attempt.status) : `ended, exit code ${code}`;
}

/** What was written last tells why something went wrong, and how far something has come. */
export const showsEnd = (attempt: TimelineStep): boolean => attempt.status !== "succeeded" || badExit(attempt) !== null;
