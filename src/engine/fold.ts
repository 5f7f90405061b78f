// Folds events through the job machine for the engine and the journal: pure, event by event.

import { initialTransition, transition } from "xstate";
import type { JobEvent, JobInput } from "../machines/job-context.ts";
import { jobMachine } from "../machines/job-machine.ts";
import { quicken } from "../machines/quick-assign.ts";

export type Snapshot = ReturnType<typeof jobMachine.resolveState>;

/** A job in the state of its last commit, neither ended nor parked. Its row changes by compare-and-set on `seq`. */
export interface Live {
  id: string;
  seq: number;
  snapshot: Snapshot;
}
export interface Folded {
  snapshot: Snapshot;
  /** The requested actions, by name. xstate returns params untyped. */
  actions: readonly { type: string; params?: unknown }[];
}

quicken(jobMachine.implementations.actions);

// For each call xstate creates an actor that is never started, and computes its first snapshot, without input, only to
// discard it: for a machine with input that ends in an exception, which costs more than a transition. This unused
// snapshot replaces it.
const [unread] = initialTransition(jobMachine, { job_id: "", nodes: 1, max_runtime_ms: null, at: 0 });
type First = typeof jobMachine.getInitialSnapshot;
const first: First = (scope, input) => (input === undefined ? unread : jobMachine.getInitialSnapshot(scope, input));
const foldable = Object.create(jobMachine, { getInitialSnapshot: { value: first } }) as typeof jobMachine;

/** The machine's first state. */
export function firstFold(input: JobInput): Folded {
  const [snapshot, actions] = initialTransition(foldable, input);
  return { snapshot, actions };
}

/** Returns the same snapshot and no action if the event has no meaning in this state. */
export function fold(before: Snapshot, event: JobEvent): Folded {
  const [snapshot, actions] = transition(foldable, before, event);
  return { snapshot, actions };
}
