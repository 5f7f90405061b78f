// Drives the job machine by hand: every event that it knows, in every relevant form, and a walk over all possible
// sequences.

import { initialTransition, transition, type SnapshotFrom } from "xstate";
import { jobMachine } from "../../src/machines/job-machine.ts";
import {
  NO_FURTHER_PLACEMENTS,
  type JobEvent,
  type JobEventType,
  type JobInput,
  type PlacementRules,
} from "../../src/machines/job-context.ts";
import { ACTIVE_STATUSES, STEP_NAMES } from "../../src/schemas/names.ts";

export type Snapshot = SnapshotFrom<typeof jobMachine>;
export type Actions = { type: string; params?: unknown }[];

export const AT = 1_800_000_000_000;

/** An event without its time. */
type Distribute<E> = E extends unknown ? Omit<E, "at"> : never;
export type Body = Distribute<JobEvent>;

export const errorOf = (code: string) => ({ code, message: `${code} happened`, hint: "nothing to do" });

export function input(
  nodes = 1,
  maxRuntimeMs: number | null = null,
  rules: Partial<PlacementRules> | null = null,
): JobInput {
  const given = rules === null ? {} : { rules: { ...NO_FURTHER_PLACEMENTS, ...rules } };
  return { job_id: "job1", nodes, max_runtime_ms: maxRuntimeMs, ...given, at: AT };
}

export function first(of: JobInput = input()): Snapshot {
  return initialTransition(jobMachine, of)[0];
}

export function step(from: Snapshot, body: Body, at = AT): [Snapshot, Actions] {
  const [next, actions] = transition(jobMachine, from, { ...body, at });
  // xstate also returns the place where it computed an action; only the request counts.
  return [next, actions.map(({ type, params }) => ({ type, params }))];
}

export function after(from: Snapshot, ...bodies: Body[]): Snapshot {
  return bodies.reduce((snapshot, body) => step(snapshot, body)[0], from);
}

/** Each kind of event; a missing kind does not compile. */
const KINDS: Record<JobEventType, (node: number) => Body[]> = {
  "job.admitted": () => [{ type: "job.admitted" }],
  "place.done": (node) => (node === 0 ? [{ type: "place.done", node, candidate: 1 }] : []),
  "provision.done": (node) => [{ type: "provision.done", node }],
  "await_ssh.done": (node) => [{ type: "await_ssh.done", node }],
  "sync.done": (node) => [{ type: "sync.done", node }],
  "install.done": (node) => [{ type: "install.done", node }],
  "launch.done": (node) => [{ type: "launch.done", node }],
  "stream.done": (node) => [
    { type: "stream.done", node, exit_code: 0, error: null },
    { type: "stream.done", node, exit_code: 3, error: errorOf("script_failed") },
    { type: "stream.done", node, exit_code: 0, error: errorOf("script_stopped") },
    { type: "stream.done", node, exit_code: null, error: errorOf("run_lost") },
  ],
  "collect.done": (node) => [
    { type: "collect.done", node, exit_code: null },
    { type: "collect.done", node, exit_code: 143 },
  ],
  "terminate.done": (node) => [
    { type: "terminate.done", node },
    ...(node === 0 ? [{ type: "terminate.done", node, checkpoint: "step_10@1" } as const] : []),
    { type: "terminate.done", node, checkpoint: "step_10@1", lack: errorOf("budget_reached") },
  ],
  "step.failed": (node) => [
    ...STEP_NAMES.map((name): Body => ({
      type: "step.failed",
      step: name,
      node,
      error: errorOf(`${name}_failed`),
      failure: "other",
    })),
    { type: "step.failed", step: "provision", node, error: errorOf("no_offer"), failure: "no_machine" },
    { type: "step.failed", step: "await_ssh", node, error: errorOf("machine_unfit"), failure: "machine_unfit" },
    { type: "step.failed", step: "stream", node, error: errorOf("machine_preempted"), failure: "preempted" },
    { type: "step.failed", step: "stream", node, error: errorOf("machine_lost"), failure: "machine_lost" },
  ],
  "job.kill": () => [{ type: "job.kill", error: errorOf("cancelled_by_user") }],
  "control.end": () => [{ type: "control.end", error: errorOf("control_plane_ended") }],
  "budget.warned": () => [{ type: "budget.warned", percent: 75 }],
  "budget.reached": () => [{ type: "budget.reached", error: errorOf("budget_reached") }],
  "budget.spent": () => [{ type: "budget.spent", error: errorOf("budget_reached") }],
  "job.changed": () => [{ type: "job.changed", max_runtime_ms: 7_200_000 }],
  "watchdog.idle": (node) => [{ type: "watchdog.idle", node, error: errorOf("run_idle") }],
  "timer.phase": () => [{ type: "timer.phase", error: errorOf("step_timed_out") }],
  "timer.max_runtime": () => [{ type: "timer.max_runtime", error: errorOf("run_timed_out") }],
  "timer.collect": () => [{ type: "timer.collect", error: errorOf("step_timed_out") }],
};

/** Every event that a job with so many nodes could receive, whether or not it makes sense. */
export function everyEvent(nodes: number): Body[] {
  const all = Object.values(KINDS).flatMap((make) => Array.from({ length: nodes }, (_, node) => make(node)).flat());
  return [...new Map(all.map((body) => [JSON.stringify(body), body])).values()];
}

export const textOf = ({ value, context }: Snapshot): string => JSON.stringify({ value, context });

export interface Visit {
  from: Snapshot;
  event: Body;
  to: Snapshot;
  actions: Actions;
}

/** Only the clock of its step ends a search that is refused again and again, so the walk stops after so many placements. */
const PLACEMENTS_MAX = 1;

const visited = new Map<string, Visit[]>();

/** Everything that can happen to a job; each state is visited once. With several nodes, one event for each effect. */
export function everything(of: JobInput): Visit[] {
  const name = JSON.stringify(of);
  let visits = visited.get(name);
  if (!visits) visited.set(name, (visits = [...walk(of)]));
  return visits;
}

/** Events that have the same effect as others: left out where every combination counts. */
const twin = (body: Body): boolean =>
  (body.type === "step.failed" && body.step !== "collect" && body.step !== "install") ||
  (body.type === "terminate.done" && body.checkpoint !== undefined) ||
  (body.type === "stream.done" && body.exit_code === 0 && body.error !== null) ||
  (body.type === "collect.done" && body.exit_code === null) ||
  body.type === "control.end" ||
  body.type === "budget.warned" ||
  body.type === "job.changed" ||
  body.type === "timer.phase";

function* walk(of: JobInput): Generator<Visit> {
  const events = everyEvent(of.nodes).filter((body) => of.nodes === 1 || !twin(body));
  const start = first(of);
  const seen = new Set([textOf(start)]);
  const open = [start];
  for (let from = open.pop(); from !== undefined; from = open.pop()) {
    for (const event of events) {
      const [to, actions] = step(from, event);
      yield { from, event, to, actions };
      const text = textOf(to);
      // The engine sends nothing to a job that has ended.
      if (seen.has(text) || to.value === "terminal" || to.context.placement > PLACEMENTS_MAX) continue;
      seen.add(text);
      open.push(to);
    }
  }
}

/** The events of a successful job with so many nodes. */
export function happyWalk(nodes = 1): Body[] {
  const of = (make: (node: number) => Body): Body[] => Array.from({ length: nodes }, (_, node) => make(node));
  return [
    ...of((node) => ({ type: "provision.done", node })),
    ...of((node) => ({ type: "await_ssh.done", node })),
    ...of((node) => ({ type: "sync.done", node })),
    ...of((node) => ({ type: "install.done", node })),
    ...of((node) => ({ type: "launch.done", node })),
    ...of((node) => ({ type: "stream.done", node, exit_code: 0, error: null })),
    ...of((node) => ({ type: "collect.done", node, exit_code: 0 })),
    ...of((node) => ({ type: "terminate.done", node })),
  ];
}

export const STATES = [...ACTIVE_STATUSES, "terminal"] as const;
export type State = (typeof STATES)[number];

/** A job in the named state, on its way to success. */
export function inState(state: State, nodes = 1, maxRuntimeMs: number | null = null): Snapshot {
  if (state === "waiting") return first(input(nodes, maxRuntimeMs, { searches: true }));
  let snapshot = first(input(nodes, maxRuntimeMs));
  for (const body of happyWalk(nodes)) {
    if (snapshot.value === state) return snapshot;
    snapshot = after(snapshot, body);
  }
  return snapshot;
}
