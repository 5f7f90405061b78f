import { describe, expect, it } from "vitest";
import { momentOf, moments } from "../../dashboard/src/run/replay.ts";
import { stepTicks } from "../../dashboard/src/run/step-ticks.ts";
import { timeScale } from "../../dashboard/src/run/time-scale.ts";
import type { FeedEvent, JobMachine, TimelineStep } from "../../src/schemas/job.ts";
import { fakeRun } from "./fake-world.ts";

const T0 = Date.parse("2026-01-01T00:00:00.000Z");
const iso = (seconds: number) => new Date(T0 + seconds * 1000).toISOString();

describe("the axis of the steps", () => {
  it("draws a long quiet stretch short, leaves all else in proportion, and leads back to the instants", () => {
    const day = 86_400_000;
    const instants = [0, 10_000, 40_000, day, day + 20_000];
    const scale = timeScale(instants, 0, day + 20_000, { collapse: true });
    expect(scale.gaps).toHaveLength(1);
    expect(scale.gaps[0]).toMatchObject({ from: 40_000, to: day });
    expect((scale.gaps[0]?.right ?? 0) - (scale.gaps[0]?.left ?? 0)).toBeLessThan(0.1);
    expect((scale.at(40_000) - scale.at(10_000)) / scale.at(10_000)).toBeCloseTo(3, 6);
    for (const at of [0, 5_000, 40_000, day / 2, day + 7_000]) expect(scale.when(scale.at(at))).toBeCloseTo(at, 3);
    expect(scale.at(-5)).toBe(0);
    expect(scale.at(2 * day)).toBeCloseTo(1, 9);
  });
  it("leaves room for the stretch that still goes on, however short all else was", () => {
    const day = 86_400_000;
    const scale = timeScale([0, 300, day], 0, 2 * day, { collapse: true, open: true });
    expect(scale.gaps.map((gap) => Math.round((gap.right - gap.left) * 100))).toEqual([7, 40]);
    for (const at of [100, day / 2, 1.5 * day]) expect(scale.when(scale.at(at))).toBeCloseTo(at, 3);
  });
  it("has marks that all say another time, also behind a stretch drawn short", () => {
    const words = (instants: number[], collapse = true) =>
      stepTicks(timeScale(instants, 0, instants.at(-1) ?? 0, { collapse })).map((tick) => tick.words);
    expect(words([0, 300, 34_300, 34_700, 35_100])).toEqual(["0", "237 ms", "34.4 s", "34.6 s", "34.9 s"]);
    expect(words([0, 4_000, 75_000, 81_000])).toEqual(["0", "2.15 s", "32.4 s", "1 m 16 s", "1 m 18 s"]);
    expect(words([0, 5_000, 20_000], false)).toEqual(["0", "5 s", "10 s", "15 s"]);
    const day = 86_400_000;
    const days = words([0, 10_000, 3 * day, 3 * day + 5_000]);
    expect(new Set(days).size).toBe(days.length);
  });
  it("is plain where nothing is long, or where true lengths are asked for", () => {
    expect(timeScale([0, 10_000], 0, 15_000, { collapse: true }).gaps).toEqual([]);
    const plain = timeScale([0, 1_000], 0, 100_000, { collapse: false });
    expect([plain.gaps.length, plain.at(50_000)]).toEqual([0, 0.5]);
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
      { seq: 1, from: null, to: "provisioning", event: "job.submitted", at: iso(0) },
      { seq: 2, from: "provisioning", to: "awaiting_ssh", event: "provision.done", at: iso(40) },
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
  it("tells the state, what was under way and what waited, at the edges too", () => {
    expect(at(5)).toMatchObject({ state: "provisioning", running: [{ attempt: 1 }], retrying: [], machines: [] });
    expect(at(20)).toMatchObject({ running: [], retrying: [{ step: "provision", attempt: 1 }] });
    expect(at(30)).toMatchObject({ running: [{ attempt: 2 }], retrying: [], machines: [{ name: "m" }], events: [] });
    expect(at(40)).toMatchObject({ state: "awaiting_ssh", running: [{ step: "await_ssh" }], events: [{ seq: 5 }] });
  });
  it("counts the money up to then, and no further than a machine was held", () => {
    expect(at(10).spentUsd).toBe(0);
    expect(at(80).spentUsd).toBeCloseTo(0.05, 9);
    expect(at(500).spentUsd).toBeCloseTo(0.1, 9);
    expect(at(500).machines).toEqual([]);
  });
});
