// Describes the result of a step's attempt.

import type { TimelineStep } from "../../../src/schemas/job.ts";
import { words } from "../format.ts";

/**
 * The exit code of a failed script. Following its output succeeded anyway, so the step's own status does not show the
 * failure.
 */
export function badExit({ step, status, detail }: TimelineStep): number | null {
  const code = detail?.["exit_code"];
  return step === "stream" && status === "succeeded" && typeof code === "number" && code !== 0 ? code : null;
}

export function attemptWords(attempt: TimelineStep): string {
  const code = badExit(attempt);
  return code === null ? words(attempt.status) : `ended, exit code ${code}`;
}

/** The last lines show why an attempt failed, or how far it has come. */
export const showsEnd = (attempt: TimelineStep): boolean => attempt.status !== "succeeded" || badExit(attempt) !== null;

/** Placements after the first begin to count attempts again. */
export const keyOf = ({ step, node, attempt, placement }: TimelineStep): string =>
  `${step}.${node}.${attempt}${placement !== null && placement > 1 ? `.p${placement}` : ""}`;
