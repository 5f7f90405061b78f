import { describe, expect, it } from "vitest";
import { momentOf, moments } from "../../dashboard/src/run/replay.ts";
import { stepTicks } from "../../dashboard/src/run/step-ticks.ts";
import { timeScale } from "../../dashboard/src/run/time-scale.ts";
import type { FeedEvent, JobMachine, TimelineStep } from "../../src/schemas/job.ts";
import { fakeRun } from "./fake-world.ts";

const T0 = Date.parse("2026-01-01T00:00:00.000Z");
const iso = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();

describe("the axis of the steps", () => {
  it("shortens the one stretch that leaves no space for the rest, and maps back to the instants", () => {
    const day = 86_400_000;
    const instants = [0, 10_000, 40_000, day, day + 20_000];
    const scale = timeScale(instants, 0, day + 20_000, { collapse: true });
    expect(scale.gaps).toHaveLength(1);
    expect(scale.gaps[0]).toMatchObject({ from: 40_000, to: day });
    expect((scale.gaps[0]?.right ?? 0) - (scale.gaps[0]?.left ?? 0)).toBeCloseTo(0.5, 9);
    expect((scale.at(40_000) - scale.at(10_000)) / scale.at(10_000)).toBeCloseTo(3, 6);
    for (const at of [0, 5_000, 40_000, day / 2, day + 7_000]) expect(scale.when(scale.at(at))).toBeCloseTo(at, 3);
    expect(scale.at(-5)).toBe(0);
    expect(scale.at(2 * day)).toBeCloseTo(1, 9);
  });
  it("keeps true lengths in every other case, and on request", () => {
    const stream = timeScale([0, 6_000, 100_000, 106_000], 0, 106_000, { collapse: true });
    expect([stream.gaps.length, stream.at(53_000)]).toEqual([0, 0.5]);
    expect(timeScale([0, 10_000], 0, 15_000, { collapse: true }).gaps).toEqual([]);
    const plain = timeScale([0, 1_000], 0, 100_000, { collapse: false });
    expect([plain.gaps.length, plain.at(50_000)]).toEqual([0, 0.5]);
  });
  it("has distinct marks at round times, also around a shortened stretch", () => {
    const words = (instants: number[]) =>
      stepTicks(timeScale(instants, 0, instants.at(-1) ?? 0, { collapse: true })).map((tick) => tick.words);
    expect(words([0, 300, 2_375])).toEqual(["0", "500 ms", "1 s", "1.5 s", "2 s"]);
    expect(words([0, 5_000, 20_000])).toEqual(["0", "5 s", "10 s", "15 s"]);
    expect(words([0, 4_000, 75_000, 106_000])).toEqual(["0", "20 s", "40 s", "60 s", "80 s"]);
    expect(words([0, 240_000, 660_000])).toEqual(["0", "2 min", "4 min", "6 min", "8 min", "10 min"]);
    const day = 86_400_000;
    expect(words([0, 10_000, 3 * day, 3 * day + 5_000])).toEqual(["0", "5 s", "1 d", "2 d", "3 d"]);
    expect(words([0, 9 * day])).toEqual(["0", "2 d", "4 d", "6 d", "8 d"]);
  });
});

describe("replay", () => {
  const step = (name: TimelineStep["step"], from: number, to: number | null, rest: Partial<TimelineStep> = {}) => ({
    step: name,
    node: 0,
    attempt: 1,
    status: to === null ? ("running" as const) : ("succeeded" as const),
    started_at: iso(from),
    ended_at: to === null ? null : iso(to),
    error: null,
    detail: null,
    next_attempt_at: null,
    placement: 1,
    ...rest,
  });
  const error = { code: "provider_unavailable", message: "503", hint: "" };
  const timeline = {
    steps: [
      step("provision", 0, 10, { status: "failed", error }),
      step("provision", 30, 40, { attempt: 2 }),
      step("await_ssh", 40, null),
    ],
    transitions: [
      { seq: 1, from: null, to: "provisioning", event: "job.submitted", at: iso(0), placement: 1 },
      { seq: 2, from: "provisioning", to: "awaiting_ssh", event: "provision.done", at: iso(40), placement: 1 },
    ],
  };
  const machine: JobMachine = {
    id: "m",
    name: "m",
    node: 0,
    address: null,
    state: "held",
    price_per_hour_usd: 3.6,
    created_at: iso(30),
    terminated_at: iso(130),
  };
  const job = { ...fakeRun("r", 60).record, machines: [machine] };
  const events: FeedEvent[] = [{ seq: 5, job_id: "r", at: iso(35), type: "notice", data: { message: "hello" } }];
  const at = (seconds: number) => momentOf(job, timeline, events, T0 + seconds * 1000);

  it("stops at every instant at which something changed, once", () => {
    expect(moments(timeline, events).map((ms) => (ms - T0) / 1000)).toEqual([0, 10, 30, 35, 40]);
  });
  it("shows the state, the running and the waiting steps, also at the edges", () => {
    expect(at(5)).toMatchObject({ state: "provisioning", running: [{ attempt: 1 }], retrying: [], machines: [] });
    expect(at(20)).toMatchObject({ running: [], retrying: [{ step: "provision", attempt: 1 }] });
    expect(at(30)).toMatchObject({ running: [{ attempt: 2 }], retrying: [], machines: [{ name: "m" }], events: [] });
    expect(at(40)).toMatchObject({ state: "awaiting_ssh", running: [{ step: "await_ssh" }], events: [{ seq: 5 }] });
  });
  it("shows the waiting steps of a second machine, whose attempts are counted from 1 again", () => {
    const second = [
      step("provision", 100, 110, { placement: 2, status: "failed", error }),
      step("provision", 130, null, { placement: 2, attempt: 2 }),
    ];
    const both = { ...timeline, steps: [...timeline.steps, ...second] };
    const { retrying } = momentOf(job, both, events, T0 + 120_000);
    expect(retrying).toMatchObject([{ step: "provision", attempt: 1, placement: 2 }]);
  });
  it("counts the money up to that moment, and no longer than a machine was held", () => {
    expect([at(10), at(80), at(500)].map(({ spent }) => spent)).toEqual(["$0.00", "$0.05", "$0.10"]);
    expect(at(500).machines).toEqual([]);
  });
  it("shows the money as a part of it from the order of a machine of unknown price on", () => {
    const unknown = { ...machine, id: "u", price_per_hour_usd: null, created_at: iso(80), terminated_at: null };
    const spentAt = (machines: JobMachine[]) => (seconds: number) =>
      momentOf({ ...job, machines }, timeline, events, T0 + seconds * 1000).spent;
    expect([79, 80, 500].map(spentAt([machine, unknown]))).toEqual(["$0.05", "> $0.05", "> $0.10"]);
    const first = { ...unknown, created_at: iso(20) };
    expect([10, 25, 80].map(spentAt([first, machine]))).toEqual(["$0.00", "unknown", "> $0.05"]);
    expect([[first], []].map((machines) => spentAt(machines)(80))).toEqual([null, null]);
  });
});
