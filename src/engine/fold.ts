// Folds events through the job machine for the engine and the journal: pure, event by event.

import { createActor, type ExecutableActionObject } from "xstate";
import type { JobEvent, JobInput } from "../machines/job-context.ts";
import { jobMachine } from "../machines/job-machine.ts";
import { quicken } from "../machines/quick-assign.ts";

export type Snapshot = ReturnType<typeof jobMachine.resolveState>;
type Scope = Parameters<typeof jobMachine.transition>[2];

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

// xstate's `transition` and `initialTransition` create an actor and its system for each call, only to discard them: 5 KB
// that survive the first garbage collections. One actor serves all folds: it is never started, and has no children.
const actor = createActor(jobMachine, { input: { job_id: "", nodes: 1, max_runtime_ms: null, at: 0 } });
const ignore = (): void => {};
const inert = {
  self: actor,
  system: actor.system,
  id: actor.id,
  sessionId: actor.sessionId,
  logger: ignore,
  defer: ignore,
  emit: ignore,
  stopChild: ignore,
};

function recorded(step: (scope: Scope) => Snapshot): Folded {
  const actions: ExecutableActionObject[] = [];
  const snapshot = step({ ...inert, actionExecutor: (action) => actions.push(action) });
  return { snapshot, actions };
}

/** The machine's first state. */
export function firstFold(input: JobInput): Folded {
  return recorded((scope) => jobMachine.getInitialSnapshot(scope, input));
}

/** Returns the same snapshot and no action if the event has no meaning in this state. */
export function fold(before: Snapshot, event: JobEvent): Folded {
  return recorded((scope) => jobMachine.transition(before, event, scope));
}
