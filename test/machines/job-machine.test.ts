import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { getSimplePaths } from "xstate/graph";
import { assign, initialTransition, setup, transition } from "xstate";
import { jobMachine } from "../../src/machines/job-machine.ts";
import { COLLECT_LIMIT_MS, PHASE_LIMIT_MS } from "../../src/machines/job-rules.ts";
import type { JobContext } from "../../src/machines/job-context.ts";
import { ACTIVE_STATUSES } from "../../src/schemas/names.ts";
import {
  after,
  AT,
  errorOf,
  everyEvent,
  everything,
  first,
  happyWalk,
  inState,
  input,
  STATES,
  step,
  textOf,
} from "./walk.ts";
import type { Actions, Body, Snapshot, State } from "./walk.ts";

/** The states with a machine that may cost money, before its release. */
const BEFORE_THE_END = STATES.slice(1, 6);
const seed = Number(process.env["SVC_TEST_SEED"] ?? Math.trunc(performance.timeOrigin) % 2 ** 31);

/** The requested steps as `step:node`, and timers as `timer=ms`. */
function asked(actions: Actions): string[] {
  return actions.flatMap(({ type, params }) => {
    const p = params as { step: string; nodes: number[]; timer: string; after_ms: number };
    if (type === "startSteps") return p.nodes.map((node) => `${p.step}:${node}`);
    if (type === "setTimer") return p.after_ms > 0 ? [`${p.timer}=${p.after_ms}`] : [];
    return type === "cancelSteps" ? [`-${p.step}`] : [];
  });
}

const kill: Body = { type: "job.kill", error: errorOf("cancelled_by_user") };
const failed = (name: "install" | "collect" | "stream", node = 0): Body => ({
  type: "step.failed",
  step: name,
  node,
  error: errorOf(`${name}_failed`),
});
const exit = (node: number, exit_code: number): Body => ({
  type: "stream.done",
  node,
  exit_code,
  error: exit_code === 0 ? null : errorOf("script_failed"),
});
const collected = (node = 0, exit_code: number | null = null): Body => ({ type: "collect.done", node, exit_code });
const givenUp: Body = { type: "timer.collect", error: errorOf("step_timed_out") };
const released = (node = 0): Body => ({ type: "terminate.done", node });

describe("the states", () => {
  it("are exactly the contract's", () => {
    expect(Object.keys(jobMachine.states)).toEqual([...ACTIVE_STATUSES, "terminal"]);
    expect(STATES).toEqual([...ACTIVE_STATUSES, "terminal"]);
  });

  it.each(STATES)("%s has a description, and says whether money may flow in it", (name) => {
    const state = jobMachine.states[name];
    expect(state?.description?.length).toBeGreaterThan(20);
    expect(state?.tags.includes("billable")).toBe(name !== "waiting" && name !== "terminal");
  });

  it("are passed in order by a successful run, each requesting the next step", () => {
    const trail: [string, string[]][] = [];
    let snapshot = first();
    for (const body of happyWalk()) {
      const [next, actions] = step(snapshot, body);
      trail.push([next.value, asked(actions)]);
      snapshot = next;
    }
    expect(asked(initialTransition(jobMachine, input())[1] as unknown as Actions)).toEqual([
      "provision:0",
      `phase=${PHASE_LIMIT_MS.provisioning}`,
    ]);
    expect(trail).toEqual([
      ["awaiting_ssh", ["await_ssh:0", `phase=${PHASE_LIMIT_MS.awaiting_ssh}`]],
      ["syncing", ["sync:0", `phase=${PHASE_LIMIT_MS.syncing}`]],
      ["installing", ["install:0", `phase=${PHASE_LIMIT_MS.installing}`]],
      ["running", ["launch:0"]],
      ["running", ["stream:0"]],
      ["terminating", ["collect:0", `collect=${COLLECT_LIMIT_MS.ended}`]],
      ["terminating", ["terminate:0"]],
      ["terminal", []],
    ]);
    expect(snapshot.context).toMatchObject({
      outcome: "succeeded",
      exit_code: 0,
      error: null,
      started_at: AT,
      ended_at: AT,
    });
  });
});

describe("the way to the end", () => {
  it("leads from every billable state through `terminating`, on every simple path", () => {
    const paths = getSimplePaths(jobMachine, {
      input: input(),
      events: everyEvent(1).map((body) => ({ ...body, at: AT })),
      serializeState: (snapshot) => JSON.stringify(snapshot.value),
      stopWhen: (snapshot) => snapshot.matches("terminal"),
      toState: (snapshot) => snapshot.matches("terminal"),
    });
    expect(paths.length).toBeGreaterThan(0);
    for (const path of paths) {
      const states = path.steps.map((s) => s.state.value);
      const trail = [...new Set([...states, path.state.value])];
      expect(trail.slice(-2), JSON.stringify(trail)).toEqual(["terminating", "terminal"]);
    }
  });

  it.each([1, 2])("is proven for every possible history of a job of %i node(s)", (nodes) => {
    let ends = 0;
    let visits = 0;
    for (const { from, event, to } of everything(input(nodes, 60_000))) {
      visits++;
      if (from.value === to.value) continue;
      const order: readonly string[] = STATES;
      expect(order.indexOf(to.value), `${from.value} ─${event.type}→ ${to.value}`).toBeGreaterThan(
        order.indexOf(from.value),
      );
      if (to.value === "terminal") {
        ends++;
        expect([from.value, event.type]).toEqual(["terminating", "terminate.done"]);
        expect(to.context.nodes.every((n) => n.phase === "released")).toBe(true);
        expect(to.context.outcome).not.toBeNull();
      }
      if (to.value === "terminating") expect(to.context.outcome).not.toBeNull();
    }
    expect(ends).toBeGreaterThan(0);
    expect(visits).toBeGreaterThan(1_000);
  });

  it.each([1, 2])(
    "can be gone from wherever a job of %i node(s) is: what was asked for, answered, ends it",
    (nodes) => {
      // Each start carries the open steps; the walk answers in the requested order, so a step that is never requested
      // hangs.
      const stuck: string[] = [];
      const seen = new Set<string>();
      const finish = (snapshot: Snapshot, open: string[], trail: string[]): void => {
        const name = `${textOf(snapshot)} ${open.toSorted().join()}`;
        if (seen.has(name) || snapshot.value === "terminal") return;
        seen.add(name);
        if (open.length === 0) return void stuck.push(trail.join(" "));
        for (const wanted of new Set(open)) {
          const [what = "", node = "0"] = wanted.split(":");
          const answers: Body[] =
            what === "stream"
              ? [exit(Number(node), 0), exit(Number(node), 1)]
              : [
                  {
                    type: `${what}.done`,
                    node: Number(node),
                    ...(what === "collect" ? { exit_code: null } : {}),
                  } as Body,
                ];
          if (what !== "terminate")
            answers.push({ type: "step.failed", step: what as "install", node: Number(node), error: errorOf("x") });
          if (snapshot.value === "terminating") answers.push(givenUp);
          else answers.push(kill);
          for (const answer of answers) {
            const [next, actions] = step(snapshot, answer);
            const mine = "node" in answer ? open.toSpliced(open.indexOf(wanted), 1) : open;
            const steps = actions.filter((a) => a.type === "startSteps");
            const cut = actions.some((a) => a.type === "cancelSteps")
              ? mine.filter((o) => !o.startsWith("collect"))
              : mine;
            finish(next, [...(next.value === snapshot.value ? cut : []), ...asked(steps)], [...trail, answer.type]);
          }
        }
      };
      finish(
        first(input(nodes)),
        Array.from({ length: nodes }, (_, node) => `provision:${node}`),
        [],
      );
      expect(stuck).toEqual([]);
      expect(seen.size).toBeGreaterThan(20);
    },
  );

  it("requests a machine's end once for each node, whatever collection does", () => {
    const start = after(inState("running", 2), kill);
    const [one, a] = step(start, collected(0));
    const [two, b] = step(one, givenUp);
    expect([asked(a), asked(b)]).toEqual([["terminate:0"], ["-collect", "terminate:1"]]);
    expect(after(two, released(0), released(1)).value).toBe("terminal");
  });

  it("stays open for the node that still collects when another is already released", () => {
    const start = after(inState("running", 2), kill, collected(0), released(0));
    const [late, actions] = step(start, givenUp);
    expect(asked(actions)).toEqual(["-collect", "terminate:1"]);
    expect(late.context.nodes.map((n) => n.phase)).toEqual(["released", "collected"]);
    expect(after(late, released(1)).value).toBe("terminal");
  });

  it("collects only if something was started", () => {
    for (const state of BEFORE_THE_END) {
      const occupied = state === "installing" || state === "running";
      const [, actions] = step(inState(state), kill);
      expect(asked(actions)).toEqual(occupied ? ["collect:0", `collect=${COLLECT_LIMIT_MS.asked}`] : ["terminate:0"]);
    }
  });
});

describe("the outcome", () => {
  it.each(BEFORE_THE_END)("is `cancelled` for a kill in %s, and a second kill changes nothing", (state) => {
    const once = after(inState(state), kill);
    expect(once.value).toBe("terminating");
    expect(once.context).toMatchObject({ outcome: "cancelled", error: errorOf("cancelled_by_user") });
    const [twice, actions] = step(once, { type: "job.kill", error: errorOf("another") });
    expect(textOf(twice)).toBe(textOf(once));
    expect(actions).toEqual([]);
  });

  it.each(["job.kill", "control.end"] as const)("stays when %s comes late; collecting gets shorter", (type) => {
    const ended = after(inState("running"), exit(0, 0));
    const [hurried, actions] = step(ended, { type, error: errorOf("cancelled_by_user") });
    expect(textOf(hurried)).toBe(textOf(ended));
    expect(actions).toMatchObject([{ params: { timer: "collect", after_ms: COLLECT_LIMIT_MS.asked, at_most: true } }]);
    const [over, none] = step(after(ended, collected()), { type, error: errorOf("cancelled_by_user") });
    expect([over.context.outcome, none]).toEqual(["succeeded", []]);
  });

  it.each(BEFORE_THE_END)("is `interrupted` when the control plane ends in %s", (state) => {
    const ended = after(inState(state), { type: "control.end", error: errorOf("control_plane_ended") });
    expect([ended.value, ended.context.outcome]).toEqual(["terminating", "interrupted"]);
  });

  it.each(BEFORE_THE_END)("is `failed` when a step fails in %s", (state) => {
    const ended = after(inState(state), failed("install"));
    expect([ended.value, ended.context.outcome, ended.context.error?.code]).toEqual([
      "terminating",
      "failed",
      "install_failed",
    ]);
  });

  it("is decided once: nothing in `terminating` turns one outcome into another, except a success whose collection failed, was given up, or cost the rest of its budget", () => {
    for (const { from, event, to } of everything(input(2))) {
      if (from.value !== "terminating" || from.context.outcome === to.context.outcome) continue;
      const by = event.type === "step.failed" ? `${event.step} failed` : event.type;
      expect(["timer.collect", "collect failed", "budget.spent"]).toContain(by);
      const cut = by === "budget.spent" ? "timed_out" : "failed";
      expect([from.context.outcome, to.context.outcome]).toEqual(["succeeded", cut]);
    }
  });

  it("is `failed` with exit code 0 when a good run's collection fails", () => {
    const spoiled = after(inState("running"), exit(0, 0), failed("collect"), released());
    expect(spoiled.value).toBe("terminal");
    expect(spoiled.context).toMatchObject({ outcome: "failed", exit_code: 0, error: errorOf("collect_failed") });
  });

  it("is `failed` with exit code 0 when a good run's collection is given up: its files were not downloaded", () => {
    const spoiled = after(inState("running"), exit(0, 0), givenUp, released());
    expect(spoiled.context).toMatchObject({ outcome: "failed", exit_code: 0, error: errorOf("step_timed_out") });
  });

  it("stays a success when the limit of collection passes after all downloads, however long the release takes", () => {
    const home = after(inState("running"), exit(0, 0), collected());
    const [late, actions] = step(home, givenUp);
    expect([late, actions]).toEqual([home, []]);
  });

  it("stays `cancelled` when collection fails after a kill, and keeps the kill's message", () => {
    const ended = after(inState("running"), kill, failed("collect"), released());
    expect(ended.context).toMatchObject({ outcome: "cancelled", error: errorOf("cancelled_by_user") });
  });

  it("gets the exit code that collection finds after a kill, but never replaces a known one", () => {
    expect(after(inState("running"), kill, collected(0, 143)).context.exit_code).toBe(143);
    expect(after(inState("running"), exit(0, 3), collected(0, 0)).context.exit_code).toBe(3);
  });

  it("has no exit code for a run whose end was not observed, whatever another node ends with", () => {
    const lost = { type: "stream.done", node: 0, exit_code: null, error: errorOf("run_lost") } as const;
    const ended = after(inState("running", 2), lost, collected(1, 143));
    expect(ended.context).toMatchObject({ outcome: "failed", exit_code: null, error: { code: "run_lost" } });
  });

  it("is `failed` for exit code 0 when the run was stopped from outside", () => {
    const ended = after(inState("running"), { type: "stream.done", node: 0, exit_code: 0, error: errorOf("stopped") });
    expect(ended.context).toMatchObject({ outcome: "failed", exit_code: 0 });
  });
});

describe("the gang", () => {
  it.each([2, 3])("with %i nodes continues only when every node is ready", (nodes) => {
    let snapshot = first(input(nodes));
    for (let node = nodes - 1; node > 0; node--) {
      const [next, actions] = step(snapshot, { type: "provision.done", node });
      expect([next.value, actions]).toEqual(["provisioning", []]);
      snapshot = next;
    }
    const [next, actions] = step(snapshot, { type: "provision.done", node: 0 });
    expect(next.value).toBe("awaiting_ssh");
    expect(asked(actions).slice(0, nodes)).toEqual(Array.from({ length: nodes }, (_, node) => `await_ssh:${node}`));
  });

  it("does not count one node's event twice", () => {
    expect(after(first(input(2)), { type: "provision.done", node: 1 }, { type: "provision.done", node: 1 }).value).toBe(
      "provisioning",
    );
  });

  it.each([2, 3])("with %i nodes succeeds only when every node has succeeded", (nodes) => {
    let snapshot = inState("running", nodes);
    for (let node = 0; node < nodes; node++) {
      expect(snapshot.value).toBe("running");
      snapshot = after(snapshot, exit(node, 0));
    }
    expect([snapshot.value, snapshot.context.outcome]).toEqual(["terminating", "succeeded"]);
  });

  it("ends with the first node that fails, and has its exit code", () => {
    const ended = after(inState("running", 3), exit(1, 0), exit(2, 7));
    expect([ended.value, ended.context.outcome, ended.context.exit_code]).toEqual(["terminating", "failed", 7]);
    expect(ended.context.nodes.map((n) => n.exit_code)).toEqual([null, 0, 7]);
  });

  it("is released node by node", () => {
    const ending = after(
      inState("running", 3),
      kill,
      collected(0),
      collected(1),
      collected(2),
      released(2),
      released(0),
    );
    expect(ending.value).toBe("terminating");
    expect(after(ending, released(1)).value).toBe("terminal");
  });
});

describe("timers", () => {
  it.each(BEFORE_THE_END.slice(0, 4))("release the machine when %s takes too long", (state) => {
    const late = after(inState(state), { type: "timer.phase", error: errorOf("step_timed_out") });
    expect([late.value, late.context.outcome, late.context.error?.code]).toEqual([
      "terminating",
      "failed",
      "step_timed_out",
    ]);
  });

  it("end a run at its limit, and only a run that has one", () => {
    const over: Body = { type: "timer.max_runtime", error: errorOf("run_timed_out") };
    const [limited, actions] = step(inState("installing", 1, 90_000), { type: "install.done", node: 0 });
    expect(asked(actions)).toEqual(["launch:0", "max_runtime=90000"]);
    expect(after(limited, over).context.outcome).toBe("timed_out");
    expect(after(inState("running"), over).value).toBe("running");
  });

  it("end an idle run, and only a run", () => {
    const idle: Body = { type: "watchdog.idle", node: 0, error: errorOf("run_idle") };
    for (const state of STATES) {
      const next = after(inState(state), idle);
      expect(next.value, state).toBe(state === "running" ? "terminating" : state);
    }
    expect(after(inState("running"), idle).context.outcome).toBe("timed_out");
  });

  it("do nothing in `terminating` except end the collection", () => {
    const ending = after(inState("running", 1, 90_000), kill);
    for (const type of ["timer.phase", "timer.max_runtime"] as const) {
      const [next, actions] = step(ending, { type, error: errorOf("late") });
      expect([textOf(next), actions]).toEqual([textOf(ending), []]);
    }
    expect(asked(step(ending, givenUp)[1])).toEqual(["-collect", "terminate:0"]);
  });
});

describe("a stored job", () => {
  it("is plain JSON: every context equals its own round trip", () => {
    for (const { to } of everything(input(2, 60_000))) {
      expect(JSON.parse(JSON.stringify(to.context))).toStrictEqual(to.context);
    }
  });

  it(`continues as if it had never been away, whatever happened before and after (seed ${seed})`, () => {
    const events = everyEvent(3);
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3 }),
        fc.array(fc.nat({ max: events.length - 1 }), { maxLength: 40 }),
        (nodes, picks) => {
          let kept = first(input(nodes, 60_000));
          let stored = JSON.parse(textOf(kept)) as { value: State; context: JobContext };
          for (const pick of picks) {
            const body = events[pick] as Body;
            if ("node" in body && body.node >= nodes) continue;
            const [next, actions] = step(kept, body);
            const [again, sameActions] = step(jobMachine.resolveState(stored), body);
            expect(textOf(again)).toBe(textOf(next));
            expect(JSON.stringify(sameActions)).toBe(JSON.stringify(actions));
            // The same event from the same snapshot again: a transition is a function.
            expect(textOf(step(kept, body)[0])).toBe(textOf(next));
            kept = next;
            stored = JSON.parse(textOf(next)) as typeof stored;
          }
        },
      ),
      { seed, numRuns: 150 },
    );
  });

  it("tells whether it has ended, and the engine must check that: xstate's pure transition would continue from it", () => {
    const over = inState("terminal");
    expect([over.status, after(over, kill).value]).toEqual(["done", "terminating"]);
    expect(jobMachine.resolveState(JSON.parse(textOf(over)) as { value: "terminal"; context: JobContext }).status).toBe(
      "done",
    );
  });
});

describe("guarantees of xstate that the engine relies on", () => {
  const ran: string[] = [];
  const probe = setup({
    types: {
      context: {} as { n: number },
      events: {} as { type: "go"; n: number } | { type: "throw in guard" } | { type: "throw in assign" },
    },
    guards: {
      bad: () => {
        throw new Error("guard");
      },
    },
    actions: {
      effect: (_, params: { n: number }) => void ran.push(`effect ${params.n}`),
      bad: assign(() => {
        throw new Error("assign");
      }),
      count: assign({ n: ({ context }) => context.n + 1 }),
    },
  }).createMachine({
    context: { n: 0 },
    initial: "a",
    entry: { type: "effect", params: { n: 1 } },
    states: {
      a: {
        on: {
          go: [
            {
              target: "b",
              actions: ["count", { type: "effect", params: ({ context, event }) => ({ n: context.n * 10 + event.n }) }],
            },
          ],
          "throw in guard": { guard: "bad", target: "b" },
          "throw in assign": { actions: "bad", target: "b" },
        },
      },
      b: { entry: { type: "effect", params: { n: 3 } } },
    },
  });

  it("returns custom actions as data, in order and with their params, and runs none", () => {
    const [start, entry] = initialTransition(probe, undefined);
    const [, actions] = transition(probe, start, { type: "go", n: 2 });
    expect([...entry, ...actions].map(({ type, params }) => ({ type, params }))).toEqual([
      { type: "effect", params: { n: 1 } },
      { type: "effect", params: { n: 12 } },
      { type: "effect", params: { n: 3 } },
    ]);
    expect(ran).toEqual([]);
  });

  it("returns the same snapshot, and no action, for an event without meaning", () => {
    const [start] = initialTransition(probe, undefined);
    const [next, actions] = transition(probe, start, { type: "unheard of" } as never);
    expect(next).toBe(start);
    expect(actions).toEqual([]);
  });

  it("leaves the given snapshot unchanged", () => {
    const before = inState("running", 2);
    const text = textOf(before);
    for (const body of everyEvent(2)) step(before, body);
    expect(textOf(before)).toBe(text);
  });

  it.each(["guard", "assign"] as const)("throws out of the transition when a %s throws", (where) => {
    const [start] = initialTransition(probe, undefined);
    expect(() => transition(probe, start, { type: `throw in ${where}` })).toThrow(where);
  });

  it("ignores an accepted event without effect: a second kill writes no journal", () => {
    const ending = after(inState("running"), kill);
    expect(step(ending, kill)[0]).toBe(ending);
  });
});
