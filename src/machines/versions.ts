// Stored snapshots outlive the program. Each carries the version of the machine that wrote it; this file migrates an
// older one to today's, and refuses anything else before xstate could guess.
//
// V1. A snapshot of today's version loads when its value is one of today's states and its context has today's keys.
// V2. An older version goes through one migration per step, each pure. The engine journals the new base; folds start there.
// V3. Everything else (newer, unknown state, broken JSON) is refused with a reason; the engine parks the job, it never guesses.

import { initialTransition } from "xstate";
import { messageOf } from "../errors/index.ts";
import { NO_FURTHER_PLACEMENTS, type JobContext } from "./job-context.ts";
import { JOB_MACHINE_VERSION, jobMachine } from "./job-machine.ts";

/** The stored part: only values that cannot be derived. */
export interface StoredSnapshot {
  value: string;
  context: JobContext;
}

type Migration = (old: { value: unknown; context: Record<string, unknown> }) => {
  value: unknown;
  context: Record<string, unknown>;
};

/** `migrations[n]` turns version n into n + 1. */
const migrations: Readonly<Record<number, Migration>> = {
  // Since 2, a kill shortens the time for collecting: the stored form is the same.
  1: (old) => old,
  // Since version 3, a job is a list of placements. An older job has a single placement, and no rules for another.
  2: (old) => ({
    ...old,
    context: old?.context && {
      ...old.context,
      rules: NO_FURTHER_PLACEMENTS,
      placement: 1,
      candidate: 0,
      on_demand: false,
      searching_since: null,
      refusals: [],
      failure: null,
      checkpoint: null,
      retries: 0,
      preemptions: 0,
      seen: {},
      ran_ms: 0,
      running_since: old.value === "running" ? old.context["started_at"] : null,
    },
  }),
  // Since version 4, a job may have a budget. An older job has none.
  3: (old) => ({ ...old, context: old?.context && { ...old.context, budget_micro: null, warned: 0 } }),
  // Since version 5, a candidate whose image cannot start is left out. An older job ends at the first one.
  4: (old) => ({ ...old, context: old?.context && { ...old.context, bad_images: [] } }),
  // Since version 6, limits of the home may hold a job back. An older job was never held.
  5: (old) => ({ ...old, context: old?.context && { ...old.context, held: false } }),
};

const STATES = new Set(Object.keys(jobMachine.states));
const CONTEXT_KEYS = Object.keys(
  initialTransition(jobMachine, {
    job_id: "probe",
    nodes: 1,
    max_runtime_ms: null,
    rules: NO_FURTHER_PLACEMENTS,
    at: 0,
  })[0].context,
)
  .toSorted()
  .join();

export type Loaded = { ok: true; snapshot: StoredSnapshot; migrated: boolean } | { ok: false; why: string };

/** A test may replace `chain` and `latest` to try a later version. */
export function loadStored(
  version: number,
  text: string,
  chain: Readonly<Record<number, Migration>> = migrations,
  latest = JOB_MACHINE_VERSION,
): Loaded {
  if (version > latest)
    return { ok: false, why: `it was written by machine version ${version}, this program knows ${latest}` };
  let shape: { value: unknown; context: Record<string, unknown> };
  try {
    shape = JSON.parse(text) as typeof shape;
  } catch {
    return { ok: false, why: "its snapshot is not JSON" };
  }
  for (let v = version; v < latest; v++) {
    const migrate = chain[v];
    if (!migrate) return { ok: false, why: `there is no migration from machine version ${v} to ${v + 1}` };
    try {
      shape = migrate(shape);
    } catch (e) {
      return {
        ok: false,
        why: `it could not be brought from machine version ${v} to ${v + 1} (${messageOf(e)})`,
      };
    }
  }
  if (typeof shape?.value !== "string" || !STATES.has(shape.value))
    return { ok: false, why: `its state ${JSON.stringify(shape?.value)} does not exist` };
  const keys = Object.keys(shape.context ?? {})
    .toSorted()
    .join();
  if (keys !== CONTEXT_KEYS) return { ok: false, why: "its context does not have today's keys" };
  // Checked above: a known state and exactly today's context keys.
  return { ok: true, snapshot: shape as unknown as StoredSnapshot, migrated: version !== latest };
}
