import { expect, it } from "vitest";
import { startParts } from "../../src/domain/start-times.ts";
import type { JobMachine, StepName, TimelineStep } from "../../src/schemas/job.ts";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();
const step = (name: StepName, from: number, to: number | null, rest: Partial<TimelineStep> = {}): TimelineStep => ({
  step: name,
  node: 0,
  attempt: 1,
  status: "succeeded",
  started_at: at(from),
  ended_at: to === null ? null : at(to),
  error: null,
  detail: null,
  next_attempt_at: null,
  placement: 1,
  ...rest,
});
const machine = (price: number | null, from: number): JobMachine => ({
  id: "m",
  name: "m",
  node: 0,
  address: null,
  state: "held",
  price_per_hour_usd: price,
  created_at: at(from),
  terminated_at: null,
});

const STEPS = [
  step("provision", 1, 11),
  step("await_ssh", 11, 71),
  step("sync", 72, 82),
  step("install", 82, 142),
  step("launch", 142, 144),
  step("stream", 144, null),
];

it("The breakdown of a start gives each second before the script one owner, and its price once the machine was ordered", () => {
  const parts = startParts({ steps: STEPS }, { created_at: at(0), machines: [machine(3.6, 11)] });
  expect(parts?.map(({ owner, ms }) => [owner, ms / 1_000])).toEqual([
    ["provider", 70],
    ["yours", 10],
    ["install", 60],
    ["svc", 4],
  ]);
  // $3.60 an hour is $0.001 a second.
  expect(parts?.map(({ usd }) => Number(usd?.toFixed(6)))).toEqual([0.06, 0.01, 0.06, 0.003]);
});

it("The breakdown of a start follows the node that was ready last, and counts all machines", () => {
  const other = [
    step("provision", 1, 5, { node: 1 }),
    step("await_ssh", 5, 20, { node: 1 }),
    step("stream", 20, null, { node: 1 }),
  ];
  const parts = startParts(
    { steps: [...other, ...STEPS] },
    { created_at: at(0), machines: [machine(3.6, 11), machine(3.6, 5)] },
  );
  expect(parts?.find(({ owner }) => owner === "provider")).toMatchObject({ ms: 70_000, usd: expect.closeTo(0.126, 6) });
});

it("The breakdown of a start ends with the first time that svc followed the script, not with a restart of svc", () => {
  const again = step("stream", 400, null, { attempt: 2 });
  const [first, later] = [STEPS, [...STEPS, again]].map((steps) =>
    startParts({ steps }, { created_at: at(0), machines: [] }),
  );
  expect(later).toEqual(first);
});

it("The breakdown of a start does not know the cost of a machine without a price, and says nothing before the script has begun", () => {
  const parts = startParts({ steps: STEPS }, { created_at: at(0), machines: [machine(null, 11)] });
  expect(parts?.map(({ usd }) => usd)).toEqual([null, null, null, null]);
  expect(startParts({ steps: STEPS.slice(0, 4) }, { created_at: at(0), machines: [] })).toBeNull();
});

it("The breakdown of a start tells of the last placement alone", () => {
  const later = [
    step("place", 300, 310, { placement: null }),
    ...STEPS.map((each) => ({
      ...each,
      placement: 2,
      started_at: at(400 + (Date.parse(each.started_at ?? "") - Date.parse(at(0))) / 1_000),
      ended_at: each.ended_at && at(400 + (Date.parse(each.ended_at) - Date.parse(at(0))) / 1_000),
    })),
  ];
  const parts = startParts({ steps: [...STEPS, ...later] }, { created_at: at(0), machines: [machine(1, 411)] });
  expect(parts?.map(({ ms }) => ms / 1_000)).toEqual([70, 10, 60, 3]);
});

it("The breakdown of a start counts a moment of two steps once", () => {
  const STEPS_AT_ONCE = [
    step("provision", 0, 30),
    step("await_ssh", 20, 50),
    step("sync", 25, 40),
    step("install", 50, 60),
    step("stream", 60, null),
  ];
  const parts = startParts({ steps: STEPS_AT_ONCE }, { created_at: at(0), machines: [machine(3.6, 0)] });
  expect(parts?.map(({ owner, ms }) => [owner, ms / 1_000])).toEqual([
    ["provider", 50],
    ["install", 10],
  ]);
  expect(parts?.reduce((sum, { usd }) => sum + (usd ?? 0), 0)).toBeCloseTo(0.06, 6);
});
