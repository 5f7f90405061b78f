// The rules of ADR 0027 in the pure machine: what may follow a placement, and what never follows.

import { describe, expect, it } from "vitest";
import type { Failure } from "../../src/domain/failure.ts";
import type { PlacementRules } from "../../src/machines/job-context.ts";
import type { ClosePlacement } from "../../src/machines/effects.ts";
import type { StepName } from "../../src/schemas/job.ts";
import { after, AT, errorOf, everything, first, happyWalk, input, step, type Body, type Snapshot } from "./walk.ts";

const RENTED: Partial<PlacementRules> = {
  retry_max: 2,
  retry_on: ["machine_unfit", "boot_failed"],
  recovers: true,
  max_preemptions: 10,
};
const kill: Body = { type: "job.kill", error: errorOf("cancelled_by_user") };
const failed = (name: StepName, failure: Failure, node = 0): Body => ({
  type: "step.failed",
  step: name,
  node,
  error: errorOf(failure),
  failure,
});
const released = (checkpoint: string | null = null): Body => ({ type: "terminate.done", node: 0, checkpoint });
const collected: Body = { type: "collect.done", node: 0, exit_code: null };
const toRunning = (nodes = 1): Body[] => happyWalk(nodes).slice(0, nodes * 5);
const begin = (rules: Partial<PlacementRules>, maxRuntimeMs: number | null = null): Snapshot =>
  first(input(1, maxRuntimeMs, rules));
const lostWhileRunning = (from: Snapshot, failure: Failure, checkpoint: string | null): Snapshot =>
  after(from, ...toRunning(), failed("stream", failure), collected, released(checkpoint));

describe("a job that searches", () => {
  it("first waits and requests a search, and orders no machine", () => {
    const [snapshot, actions] = step(begin({ searches: true }), { type: "place.done", node: 0, candidate: 2 });
    expect(begin({ searches: true }).value).toBe("waiting");
    expect(snapshot.value).toBe("provisioning");
    expect(snapshot.context).toMatchObject({ placement: 1, candidate: 2 });
    expect(actions.find(({ type }) => type === "openPlacement")?.params).toEqual({
      placement: 1,
      candidate: 2,
      on_demand: false,
    });
  });

  it("ends at once if it is killed while it waits, because no machine exists", () => {
    const over = after(begin({ searches: true }), kill);
    expect([over.value, over.context.outcome, over.context.ended_at]).toEqual(["terminal", "cancelled", AT]);
  });

  it("searches on when a candidate has no machine, and remembers the reason", () => {
    const placed = after(begin({ searches: true }), { type: "place.done", node: 0, candidate: 1 });
    const again = after(placed, failed("provision", "no_machine"), released());
    expect(again.value).toBe("waiting");
    expect(again.context).toMatchObject({
      placement: 1,
      candidate: null,
      outcome: null,
      error: null,
      retries: 0,
      searching_since: AT,
      refusals: [{ candidate: 1, at: AT, code: "no_machine" }],
    });
  });

  it("forgets the refusals once it has a machine", () => {
    const placed = after(begin({ searches: true }), { type: "place.done", node: 0, candidate: 1 });
    const again = after(placed, failed("provision", "no_machine"), released(), {
      type: "place.done",
      node: 0,
      candidate: 0,
    });
    const held = after(again, { type: "provision.done", node: 0 });
    expect(held.context).toMatchObject({ placement: 2, refusals: [], searching_since: null });
  });
});

describe("a plain job", () => {
  it("ends if the order finds no machine", () => {
    const over = after(begin(RENTED), failed("provision", "no_machine"), released());
    expect([over.value, over.context.outcome]).toEqual(["terminal", "failed"]);
  });

  it("continues at once on another machine if the first was unfit, and ends after the third", () => {
    let snapshot = begin(RENTED);
    for (const placement of [1, 2, 3]) {
      expect([snapshot.value, snapshot.context.placement]).toEqual(["provisioning", placement]);
      snapshot = after(snapshot, { type: "provision.done", node: 0 }, failed("await_ssh", "machine_unfit"), released());
    }
    expect([snapshot.value, snapshot.context.outcome, snapshot.context.error?.code]).toEqual([
      "terminal",
      "failed",
      "machine_unfit",
    ]);
  });

  it.each<[Failure, string | null, string]>([
    ["machine_lost", "step_10@1", "provisioning"],
    ["machine_lost", null, "terminal"],
    ["preempted", "step_10@1", "provisioning"],
    ["preempted", null, "terminal"],
    ["install_failed", "step_10@1", "terminal"],
    ["exit:1", "step_10@1", "terminal"],
    ["oom", "step_10@1", "terminal"],
    ["other", "step_10@1", "terminal"],
  ])("changes, when it ends by %s with the downloaded checkpoint %s, to %s", (failure, checkpoint, state) => {
    expect(lostWhileRunning(begin(RENTED), failure, checkpoint).value).toBe(state);
  });

  it("ends with no_progress when it is lost twice at the same step without a new checkpoint", () => {
    const second = lostWhileRunning(begin(RENTED), "machine_lost", "step_10@1");
    const over = lostWhileRunning(second, "machine_lost", "step_10@1");
    expect([over.value, over.context.error?.code]).toEqual(["terminal", "no_progress"]);
    expect(lostWhileRunning(second, "machine_lost", "step_20@2").value).toBe("provisioning");
  });

  it("continues after preemptions without a new checkpoint, up to their maximum", () => {
    let snapshot = begin({ ...RENTED, max_preemptions: 3 });
    for (const preemptions of [1, 2, 3]) {
      snapshot = lostWhileRunning(snapshot, "preempted", "step_10@1");
      expect([snapshot.value, snapshot.context.preemptions]).toEqual(["provisioning", preemptions]);
    }
    const over = lostWhileRunning(snapshot, "preempted", "step_10@1");
    expect([over.value, over.context.error?.code]).toEqual(["terminal", "preempted"]);
  });

  it("continues from the beginning after each preemption, if retry names them and nothing was saved", () => {
    const rules = { ...RENTED, recovers: false, retry_on: ["preempted"], max_preemptions: 2 };
    const second = lostWhileRunning(begin(rules), "preempted", null);
    const third = lostWhileRunning(second, "preempted", null);
    expect([second.value, third.value]).toEqual(["provisioning", "provisioning"]);
    expect(lostWhileRunning(third, "preempted", null).value).toBe("terminal");
  });

  it("uses another machine when one is taken back before the script ran, though nothing is saved", () => {
    let snapshot = begin({ ...RENTED, max_preemptions: 3 });
    for (const preemptions of [0, 1, 2]) {
      expect(snapshot.context).toMatchObject({ preemptions, retries: 0 });
      snapshot = after(snapshot, ...toRunning().slice(0, 2), failed("sync", "preempted"), released());
      expect(snapshot.value).toBe("provisioning");
    }
    const over = after(snapshot, ...toRunning().slice(0, 2), failed("sync", "preempted"), released());
    expect([over.value, over.context.error?.code]).toEqual(["terminal", "preempted"]);
  });

  it("counts preemptions apart from retries, and may fall back to machines on demand", () => {
    const rules = { ...RENTED, retry_max: 0, max_preemptions: 1 };
    const second = lostWhileRunning(begin(rules), "preempted", "a@1");
    expect(second.context).toMatchObject({ placement: 2, preemptions: 1, retries: 0, on_demand: false });
    expect(lostWhileRunning(second, "preempted", "b@2").value).toBe("terminal");
    const falling = lostWhileRunning(begin({ ...rules, falls_back: true }), "preempted", "a@1");
    expect(falling.context).toMatchObject({ placement: 2, on_demand: true });
    expect(lostWhileRunning(falling, "preempted", "b@2").value).toBe("terminal");
  });

  it("continues if the script fails because another machine of the gang was lost", () => {
    const ended = (node: number, code: number): Body => ({
      type: "stream.done",
      node,
      exit_code: code,
      error: errorOf("script_failed"),
      failure: `exit:${code}`,
    });
    const of = (node: number, checkpoint: string | null): Body => ({ type: "terminate.done", node, checkpoint });
    const gang = after(first(input(2, null, RENTED)), ...toRunning(2), ended(1, 1));
    const isCollected: Body = { type: "collect.done", node: 1, exit_code: 1 };
    const lost = after(gang, isCollected, of(1, null), failed("collect", "machine_lost", 0));
    expect(lost.context).toMatchObject({
      failure: { kind: "machine_lost", step: "stream" },
      error: { code: "machine_lost" },
    });
    // The checkpoint counts that the last node reports, for by then every shard is at home.
    expect(after(lost, of(0, "step_10@1")).context).toMatchObject({ placement: 2, retries: 1 });
    expect(after(lost, of(0, null)).value).toBe("terminal");
    // The machine of the script that failed says nothing about its exit code, unless a signal ended it.
    const own = (code: number) =>
      after(begin(RENTED), ...toRunning(), ended(0, code), failed("collect", "preempted"), released("a@1")).value;
    expect([own(1), own(143)]).toEqual(["terminal", "provisioning"]);
  });

  it("counts its time limit over all placements", () => {
    let snapshot = begin(RENTED, 90_000);
    const at = (body: Body, ms: number) => step(snapshot, body, AT + ms);
    for (const body of toRunning().slice(0, 4)) snapshot = at(body, 0)[0];
    [snapshot] = at({ type: "launch.done", node: 0 }, 0);
    [snapshot] = at(failed("stream", "machine_lost"), 60_000);
    [snapshot] = at(collected, 61_000);
    [snapshot] = at(released("a@1"), 62_000);
    let actions: ReturnType<typeof step>[1] = [];
    for (const body of toRunning().slice(0, 4)) [snapshot, actions] = at(body, 70_000);
    expect(actions.find(({ type }) => type === "setTimer")?.params).toEqual({
      timer: "max_runtime",
      after_ms: 30_000,
      limit_ms: 90_000,
    });
  });
});

describe("a kill while a failed placement is released", () => {
  it.each(["job.kill", "control.end"] as const)("by %s decides the outcome, and no other placement follows", (type) => {
    const ending = after(begin(RENTED), ...toRunning(), failed("stream", "machine_lost"));
    const told = after(ending, { type, error: errorOf("asked") });
    const over = after(told, collected, released("step_10@1"));
    expect([over.value, over.context.outcome, over.context.error?.code]).toEqual([
      "terminal",
      type === "job.kill" ? "cancelled" : "interrupted",
      "asked",
    ]);
  });

  it("does not change the outcome of a failure without a further placement", () => {
    const ending = after(begin(RENTED), ...toRunning(), failed("stream", "other"), kill);
    expect(ending.context.outcome).toBe("failed");
  });
});

describe("everything that can happen to a job with further placements", () => {
  const rules = { ...RENTED, searches: true, max_preemptions: 1, falls_back: true };

  it("opens a placement only after the last one is closed, with every node released", () => {
    let opened = 0;
    for (const { from, to, actions } of everything(input(1, null, rules))) {
      if (actions.some(({ type }) => type === "openPlacement")) {
        opened++;
        expect(["waiting", "terminating"]).toContain(from.value);
        expect(to.context.placement).toBe(from.context.placement + 1);
      }
      if (from.value === "terminating" && to.value !== "terminating") {
        const close = actions.find(({ type }) => type === "closePlacement")?.params as ClosePlacement | undefined;
        expect(close).toMatchObject({ placement: from.context.placement, goes_on: to.value !== "terminal" });
      }
      if (to.value === "waiting") expect(to.context.nodes.every(({ phase }) => phase === "waiting")).toBe(true);
    }
    expect(opened).toBeGreaterThan(10);
  });

  it("leaves a state in which money may flow only by `terminating`", () => {
    for (const { from, to } of everything(input(1, null, rules))) {
      if (!from.hasTag("billable") || to.hasTag("billable")) continue;
      expect(from.value).toBe("terminating");
    }
  });
});
