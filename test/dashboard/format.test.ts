import { expect, it } from "vitest";
import { age, duration, usd } from "../../dashboard/src/format.ts";
import { costText } from "../../src/domain/money.ts";
import { amountOf, isReturning, perHourOf, returningSince } from "../../dashboard/src/machines.ts";
import { shortReason } from "../../dashboard/src/status.ts";
import { duration as onCommandLine } from "../../src/cli/text.ts";
import type { JobRecord, TimelineStep } from "../../src/schemas/job.ts";

const machine = (price: number | null) => ({ price_per_hour_usd: price }) as JobRecord["machines"][number];

it("a cost is unknown, not zero, while a machine has no reported price", () => {
  expect(costText({ cost_usd: 0, machines: [] })).toBe("$0.00");
  expect(costText({ cost_usd: 1.5, machines: [machine(2)] })).toBe("$1.50");
  expect(costText({ cost_usd: 0, machines: [machine(null)] })).toBe("unknown");
  expect(costText({ cost_usd: 0.2, machines: [machine(2), machine(null)] })).toBe("> $0.20");
});

it("a duration reads as on the command line, and an amount has cents unless they add nothing", () => {
  for (const ms of [1_400, 9_990, 9_997, 59_400, 59_960, 101_600, 3_599_700, 7_500_000, 86_400_000, 273_600_000])
    expect(duration(ms)).toBe(onCommandLine(ms));
  expect([duration(575), duration(102_000), age(125_000)]).toEqual(["575 ms", "1 min 42 s", "2 min"]);
  expect([0, 0.4, 0.4567, 12.5, 0.0083, 0.000_01].map(usd)).toEqual([
    "$0.00",
    "$0.40",
    "$0.46",
    "$12.50",
    "$0.008",
    "$0.00001",
  ]);
});

it("the cost of several machines never counts an unreported price as zero", () => {
  expect(perHourOf([null])).toBe("price unknown");
  expect(perHourOf([0.75, null, null])).toBe("$0.75/h + 2 of unknown price");
  expect(perHourOf([1, 0.5])).toBe("$1.50/h");
  expect(perHourOf([0, 0])).toBe("free");
  expect(amountOf([null, null])).toBe("unknown");
  expect(amountOf([2, null])).toBe("> $2.00");
  expect(amountOf([2, 0.5])).toBe("$2.50");
});

it("a machine that is being released raises no alarm for a minute, but at once if the release fails", () => {
  const began = Date.parse("2026-01-01T00:00:00Z");
  const end = (node: number, rest: Partial<TimelineStep> = {}) =>
    ({ step: "terminate", node, error: null, started_at: "2026-01-01T00:00:00Z", ...rest }) as TimelineStep;
  const on = (node: number, created_at = "2025-12-31T23:00:00Z") => [{ node, created_at }];
  expect(returningSince([end(0), end(1)], on(0))).toBe(began);
  expect(returningSince([end(0)], on(1))).toBeNull();
  expect(returningSince([end(0, { step: "collect" })], on(0))).toBeNull();
  const error = { code: "provider_unavailable", message: "503", hint: "" };
  expect(returningSince([end(0, { error }), end(0, { attempt: 2 })], on(0))).toBeNull();
  // The release of the machine before it does not count, nor does what failed in it.
  const earlier = end(0, { error, started_at: "2025-12-31T22:00:00Z" });
  expect(returningSince([earlier, end(0)], on(0))).toBe(began);
  expect(returningSince([earlier], on(0))).toBeNull();
  expect(isReturning(began, began + 59_000)).toBe(true);
  expect(isReturning(began, began + 60_000)).toBe(false);
  expect(isReturning(null, began)).toBe(false);
});

it("the reason in a list begins with the part that differs between runs", () => {
  const ended = { status: "failed", exit_code: 1, note: null } as const;
  const saying = (message: string) => ({ ...ended, error: { code: "script_failed", message, hint: "" } });
  expect(shortReason(saying("The script ended with exit code 1: ValueError: no."))).toBe(
    "exit code 1: ValueError: no.",
  );
  expect(shortReason(saying("Rank 3 ended with exit code 1."))).toBe("Rank 3 ended with exit code 1.");
  expect(shortReason({ ...ended, error: null })).toBe("exit code 1");
  expect(shortReason({ ...ended, status: "succeeded", exit_code: 0, error: null })).toBeNull();
});
