// Decides which runs are active, which actions they allow, and which one line explains their end.

import { endedWith, THE_SCRIPT } from "../../src/errors/script-ended.ts";
import { inOrder } from "../../src/domain/terminal-text.ts";
import type { JobRecord } from "../../src/schemas/job.ts";
import { hasEnded } from "../../src/schemas/names.ts";

export const isActive = (job: Pick<JobRecord, "status">): boolean => !hasEnded(job.status);
/** It ended because a user cancelled it: nothing went wrong. */
export const isAsked = (job: Pick<JobRecord, "error">): boolean => job.error?.code === "cancelled_by_user";
export const isKillable = (job: Pick<JobRecord, "status">): boolean => isActive(job) && job.status !== "terminating";
/** Runs that can be selected in a list: to be killed, or to be deleted. */
export const isSelectable = (job: Pick<JobRecord, "status">): boolean => isKillable(job) || !isActive(job);
export const titleOf = (job: Pick<JobRecord, "label" | "entrypoint">): string => inOrder(job.label ?? job.entrypoint);

/**
 * Why a run ended in this way, or a note on its current state, for one line of a list: the distinguishing words come
 * first, because the end of the line may be cut off.
 */
export function shortReason(job: Pick<JobRecord, "note" | "error" | "status" | "exit_code">): string | null {
  const { note, error, status, exit_code } = job;
  if (note) return note.message;
  const usual = endedWith(THE_SCRIPT);
  if (error?.message.startsWith(usual)) return error.message.slice(usual.length);
  if (error) return error.message;
  return status === "failed" && exit_code !== null ? `exit code ${exit_code}` : null;
}
