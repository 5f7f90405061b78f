// `fold` skips work of xstate that has no effect. It must produce exactly the states and actions of xstate's own
// functions.

import { expect, test } from "vitest";
import { initialTransition, transition } from "xstate";
import { firstFold, fold, type Folded, type Snapshot } from "../../src/engine/fold.ts";
import type { JobEvent } from "../../src/machines/job-context.ts";
import { jobMachine } from "../../src/machines/job-machine.ts";

const WALKS = 200;
const STEPS = 40;
const error = { code: "internal_error", message: "m", hint: "h" };
const EVENTS: ((node: number) => JobEvent)[] = [
  ...(["provision.done", "await_ssh.done", "sync.done", "install.done", "launch.done", "terminate.done"] as const).map(
    (type) =>
      (node: number): JobEvent => ({ type, node, at: 9 }),
  ),
  (node) => ({ type: "stream.done", node, exit_code: node, error: null, at: 9 }),
  (node) => ({ type: "collect.done", node, exit_code: 0, at: 9 }),
  (node) => ({ type: "step.failed", step: "collect", node, error, at: 9 }),
  (node) => ({ type: "watchdog.idle", node, error, at: 9 }),
  () => ({ type: "job.kill", error, at: 9 }),
  () => ({ type: "timer.collect", error, at: 9 }),
  () => ({ type: "timer.max_runtime", error, at: 9 }),
];

const told = (snapshot: Snapshot, actions: Folded["actions"]) => ({
  value: snapshot.value,
  context: snapshot.context,
  status: snapshot.status,
  actions: actions.map((a) => [a.type, a.params]),
});

test("The engine folds as xstate does, and recognises a meaningless event the same way", () => {
  const seed = Number(process.env["SVC_TEST_SEED"] ?? Date.now() % 1_000_000);
  console.log(`fold: SVC_TEST_SEED=${seed}`);
  let state = seed;
  const below = (n: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * n);
  };
  const reached = new Set<unknown>();
  for (let walk = 0; walk < WALKS; walk++) {
    const input = { job_id: "j", nodes: 1 + below(3), max_runtime_ms: below(2) ? 60_000 : null, at: 1 };
    const [first, actions] = initialTransition(jobMachine, input);
    let ours = firstFold(input);
    let theirs: Folded = { snapshot: first, actions };
    for (let step = 0; step < STEPS; step++) {
      expect(told(ours.snapshot, ours.actions)).toEqual(told(theirs.snapshot, theirs.actions));
      reached.add(ours.snapshot.value);
      const event = EVENTS[below(EVENTS.length)]!(below(input.nodes));
      const [next, wanted] = transition(jobMachine, theirs.snapshot, event);
      const folded = fold(ours.snapshot, event);
      expect(folded.snapshot === ours.snapshot).toBe(next === theirs.snapshot);
      ours = folded;
      theirs = { snapshot: next, actions: wanted };
    }
  }
  expect(reached).toContain("terminal");
});
