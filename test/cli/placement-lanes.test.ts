// How placements read on a terminal and in a pipe.

import { expect, it } from "vitest";
import { isRepeated, lanesOf } from "../../src/domain/placement-words.ts";
import type { Io } from "../../src/cli/io.ts";
import { haveLanes, placementTable, waitingTable, waitingWords } from "../../src/cli/placement-lanes.ts";
import type { TimelineStep } from "../../src/schemas/job.ts";
import type { Placement, Waiting } from "../../src/schemas/placement.ts";

const io = (tty: boolean): Io => ({ tty, color: false, columns: () => 160 }) as unknown as Io;
const placement = (rest: Partial<Placement>): Placement => ({
  n: 1,
  candidate: 0,
  provider: "podhost",
  gpus: "A100",
  region: null,
  spot: "never",
  status: "failed",
  opened_at: "2030-01-01T00:00:00.000Z",
  started_at: null,
  closed_at: "2030-01-01T00:10:00.000Z",
  price_per_hour_usd: null,
  cost_usd: 0,
  failure: "no_machine",
  step: "provision",
  error: { code: "no_offer", message: "podhost has no A100.", hint: "" },
  exit_code: null,
  checkpoint: null,
  resumed_from: null,
  goes_on: true,
  work_lost_seconds: 0,
  work_lost_usd: null,
  saved_usd: null,
  machines: [],
  ...rest,
});
const PLACEMENTS = [
  placement({}),
  placement({
    n: 2,
    provider: "market",
    gpus: "H100:2",
    region: "EU",
    spot: "only",
    price_per_hour_usd: 3.6,
    cost_usd: 0.6,
    failure: "preempted",
    error: { code: "machine_preempted", message: "The provider took it back.", hint: "" },
    resumed_from: { job: "j", checkpoint: "step_7" },
    work_lost_seconds: 180,
    work_lost_usd: 0.18,
    saved_usd: 1.2,
    machines: ["m"],
  }),
  placement({ n: 3, failure: "exit:3", exit_code: 3, error: null, cost_usd: 0, machines: ["x"] }),
];

it("A lane shows the provider of a placement, its end, its cost and the lost work", () => {
  const [, ...lines] = placementTable(io(true), PLACEMENTS).trimEnd().split("\n");
  expect(lines[0]).toMatch(/^ +1 {2}podhost A100 +no machine +\S+ \S+ +10 min 0 s +- +-$/);
  expect(lines[1]).toBe("   podhost has no A100.");
  expect(lines[2]).toMatch(/^ +2 {2}market H100:2, EU, spot +preempted .* \$3\.60\/h +\$0\.60$/);
  expect(lines[3]).toBe(
    "   The provider took it back. · continued from step_7 · lost 3 min 0 s of work ($0.18) · saved $1.20 by spot",
  );
  // An unreported price is unknown, and not $0.
  expect(lines[4]).toMatch(/podhost A100 +exit code 3 .* unknown$/);
});

it("A pipe gets a row for each placement, with exact values", () => {
  const rows = placementTable(io(false), PLACEMENTS)
    .trimEnd()
    .split("\n")
    .map((row) => row.split("\t"));
  expect(rows[1]).toEqual([
    "placement",
    "2",
    "market H100:2, EU, spot",
    "preempted",
    "2030-01-01T00:00:00.000Z",
    "600.000",
    "3.6",
    "0.6",
    expect.stringContaining("continued from step_7"),
  ]);
});

it("Steps are in the lane of their placement, and a search between two placements has its own row", () => {
  const step = (of: number | null) => ({ placement: of }) as TimelineStep;
  const lanes = lanesOf([step(null), step(1), step(1), step(null), step(2)]);
  expect(lanes.map((lane) => [lane.placement, lane.steps.length])).toEqual([
    [null, 1],
    [1, 2],
    [null, 1],
    [2, 1],
  ]);
  expect(haveLanes({ placements: PLACEMENTS.slice(0, 1), waiting: null })).toBe(false);
  expect(haveLanes({ placements: PLACEMENTS, waiting: null })).toBe(true);
});

it("A wait names each candidate with its reason, and when svc asks again and gives up", () => {
  const waiting: Waiting = {
    since: "2030-01-01T00:00:00.000Z",
    until: "2030-01-01T02:00:00.000Z",
    next_at: "2030-01-01T00:05:00.000Z",
    tried: [{ candidate: 1, provider: "market", gpus: "H100", why: "sold out" }],
    limit: null,
  };
  expect(haveLanes({ placements: [], waiting })).toBe(true);
  expect(waitingTable(io(false), waiting)).toBe("tried\t1\tmarket\tH100\tsold out\n");
  expect(waitingWords(io(false), waiting)).toBe(
    "waiting for a machine since 2030-01-01T00:00:00.000Z, next search at 2030-01-01T00:05:00.000Z, gives up at 2030-01-01T02:00:00.000Z. No machine exists and nothing is billed.",
  );
  expect(waitingWords(io(false), { ...waiting, next_at: null })).toContain("asking now");
});

it("A step that fails with the message of an earlier one of the same machine is recognized", () => {
  const step = (name: TimelineStep["step"], n: number, second: number, message: string | null): TimelineStep => ({
    step: name,
    node: 0,
    attempt: 1,
    status: message === null ? "succeeded" : "failed",
    started_at: `2030-01-01T00:00:0${second}.000Z`,
    ended_at: null,
    error: message === null ? null : { code: "machine_preempted", message, hint: "" },
    detail: null,
    next_attempt_at: null,
    placement: n,
  });
  const steps = [
    step("stream", 1, 1, "It was taken back."),
    step("collect", 1, 2, "It was taken back."),
    step("terminate", 1, 3, null),
    step("stream", 2, 4, "It was taken back."),
    step("collect", 2, 5, "Its disk is full."),
  ];
  expect(steps.map((one) => isRepeated(one, steps))).toEqual([false, true, false, false, false]);
});
