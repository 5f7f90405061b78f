// The content of a journal: events of timers, and the check that the recorded events lead to the stored snapshot.

import { describeError } from "../errors/index.ts";
import { jobMachine } from "../machines/job-machine.ts";
import type { JobEvent, JobInput, TimerName } from "../machines/job-context.ts";
import type { StoredSnapshot } from "../machines/versions.ts";
import type { EngineStore } from "../store/engine-store.ts";
import type { JournalRow } from "../store/tables.ts";
import type { EventBody } from "./engine-options.ts";
import { hash as digest } from "node:crypto";
import { firstFold, fold, type Snapshot } from "./fold.ts";
import { storedError } from "../store/stored-json.ts";

/** Maximum length of a quoted message from a provider or SSH in the error of a deadline. */
const WORDS_MAX = 600;

/** The stored text of a snapshot and its hash. */
export function fingerprint(snapshot: { value: unknown; context: unknown }): { text: string; hash: string } {
  const text = JSON.stringify({ value: snapshot.value, context: snapshot.context });
  return { text, hash: digest("sha256", text, "hex").slice(0, 32) };
}

/** The event that a timer will send, complete when it is set: its content does not depend on when it fires. */
export function timerEvent(timer: TimerName, afterMs: number, state: string): object {
  const error =
    timer === "max_runtime"
      ? describeError("run_timed_out", { minutes: Math.round(afterMs / 600) / 100 })
      : describeError("step_timed_out", {
          step: timer === "collect" ? "collect" : state,
          seconds: Math.round(afterMs / 1000),
        });
  return { type: `timer.${timer}`, error };
}

/** The event; a `step_timed_out` includes the last wait or failure of a step that is still open. */
export function withLastSeen(store: EngineStore, jobId: string, event: EventBody): EventBody {
  if (!("error" in event) || event.error?.code !== "step_timed_out") return event;
  const words = lastSeen(store, jobId);
  if (words === null) return event;
  const { error } = event;
  return { ...event, error: { ...error, message: `${error.message} Seen last: ${words}` } };
}

function lastSeen(store: EngineStore, jobId: string): string | null {
  // Newest attempt first: one that has just begun has no details yet.
  for (const { detail, error } of store.openAttempts(jobId)) {
    const waited = detail === null ? undefined : (JSON.parse(detail) as { waiting_for?: string }).waiting_for;
    const failed = error === null ? undefined : storedError(jobId, error).message;
    const words = waited ?? failed;
    if (words) return `${words.slice(0, WORDS_MAX).replace(/[.\s]+$/, "")}.`;
  }
  return null;
}

/**
 * Folds a journal and compares each hash.
 * @returns the last text, and the first seq at which the fold and the record differ (null when they agree).
 */
export function refold(rows: readonly JournalRow[]): { text: string | null; differsAt: number | null } {
  let snapshot: Snapshot | null = null;
  let text: string | null = null;
  // Another version of the machine folded the rows before the last base.
  for (const row of rows.slice(
    Math.max(
      0,
      rows.findLastIndex((r) => r.type === "machine.rebased"),
    ),
  )) {
    try {
      snapshot = next(snapshot, JSON.parse(row.event) as object);
    } catch {
      // The engine writes only rows that can be read and folded: this row is damaged.
      snapshot = null;
    }
    if (snapshot === null) return { text: null, differsAt: row.seq };
    const now = fingerprint(snapshot);
    if (now.hash !== row.hash) return { text: now.text, differsAt: row.seq };
    text = now.text;
  }
  return { text, differsAt: null };
}

/** Journal rows contain what the engine wrote; a damaged row fails its hash, or throws here. */
function next(
  before: Snapshot | null,
  event: { type?: string; input?: JobInput; snapshot?: StoredSnapshot },
): Snapshot | null {
  if (event.type === "job.created" && event.input) return firstFold(event.input).snapshot;
  if (event.type === "machine.rebased" && event.snapshot) return jobMachine.resolveState(event.snapshot);
  return before && fold(before, event as JobEvent).snapshot;
}
