// The job machine as the engine and the journal fold it: pure, event by event.

import { initialTransition, transition } from "xstate";
import type { JobEvent, JobInput } from "../machines/job-context.ts";
import { jobMachine } from "../machines/job-machine.ts";

export type Snapshot = ReturnType<typeof jobMachine.resolveState>;
export interface Folded {
  snapshot: Snapshot;
  /** What the machine asks for, by name. xstate hands params back untyped. */
  actions: readonly { type: string; params?: unknown }[];
}

// For each call xstate makes an actor that is never started, and asks for its first snapshot, without input, only to throw it
// away: for a machine with input that ends in an exception, which costs more than a transition. This snapshot stands in;
// nobody reads it.
const [unread] = initialTransition(jobMachine, { job_id: "", nodes: 1, max_runtime_ms: null, at: 0 });
type First = typeof jobMachine.getInitialSnapshot;
const first: First = (scope, input) => (input === undefined ? unread : jobMachine.getInitialSnapshot(scope, input));
const foldable = Object.create(jobMachine, { getInitialSnapshot: { value: first } }) as typeof jobMachine;

/** The machine's first state. */
export function firstFold(input: JobInput): Folded {
  const [snapshot, actions] = initialTransition(foldable, input);
  return { snapshot, actions };
}

/** The very same snapshot and no action where the event means nothing. */
export function fold(before: Snapshot, event: JobEvent): Folded {
  const [snapshot, actions] = transition(foldable, before, event);
  return { snapshot, actions };
}
