import { setFlagsFromString } from "node:v8";
import { runInThisContext } from "node:vm";
import { expect, test } from "vitest";
import { assign, initialTransition, setup, transition } from "xstate";
import { firstFold, fold } from "../../src/engine/fold.ts";
import { quicken } from "../../src/machines/quick-assign.ts";

interface Context {
  count: number;
  last: string | null;
  flags: readonly string[];
}
type Event = { type: "add"; by: number } | { type: "name"; name: string } | { type: "reset" };

const counter = () =>
  setup({
    types: { context: {} as Context, events: {} as Event },
    actions: {
      add: assign({ count: ({ context, event }) => context.count + (event.type === "add" ? event.by : 0) }),
      clear: assign({ last: null, flags: [] }),
      name: assign(({ context, event }) =>
        event.type === "name" ? { last: event.name, flags: [...context.flags, event.name] } : {},
      ),
    },
  }).createMachine({
    context: { count: 0, last: null, flags: [] },
    initial: "on",
    states: {
      on: { on: { add: { actions: ["add", "add"] }, name: { actions: ["name", "add"] }, reset: { actions: "clear" } } },
    },
  });

test("A machine with quick assigns has the same contexts as with xstate's own, in the same order of fields", () => {
  const [plain, quick] = [counter(), counter()];
  expect(quicken(quick.implementations.actions)).toBe(3);
  let [theirs] = initialTransition(plain);
  let [ours] = initialTransition(quick);
  const events: Event[] = [
    { type: "add", by: 2 },
    { type: "name", name: "a" },
    { type: "add", by: -1 },
    { type: "name", name: "b" },
    { type: "reset" },
  ];
  for (const event of events) {
    const before = ours;
    [theirs] = transition(plain, theirs, event);
    [ours] = transition(quick, ours, event);
    expect(JSON.stringify(ours.context)).toBe(JSON.stringify(theirs.context));
    expect(ours.value).toEqual(theirs.value);
    expect(ours.can({ type: "reset" })).toBe(theirs.can({ type: "reset" }));
    expect(ours).not.toBe(before);
  }
});

test("The context of a job stays a fast object through every transition", () => {
  setFlagsFromString("--allow-natives-syntax");
  const isFast: unknown = runInThisContext("(object) => %HasFastProperties(object)");
  if (typeof isFast !== "function") throw new Error("V8 gave no function");
  let { snapshot } = firstFold({ job_id: "j", nodes: 1, max_runtime_ms: null, at: 1 });
  for (const type of ["provision.done", "await_ssh.done", "sync.done", "install.done", "launch.done"] as const) {
    const before = snapshot;
    ({ snapshot } = fold(snapshot, { type, node: 0, at: 2 }));
    expect(snapshot, type).not.toBe(before);
    expect(isFast(snapshot.context), type).toBe(true);
  }
});
