import { expect, test } from "vitest";
import { COLLECT_LIMIT_MS, PHASE_LIMIT_MS } from "../../src/machines/job-rules.ts";
import { limitSeconds, SECONDS_AROUND } from "../../src/providers/cloudvm/instance-body.ts";
import { spec } from "./cloudvm-stub.ts";

test("the time limit of a machine is one that the provider accepts, and outlasts every phase of the run", () => {
  expect(limitSeconds(spec())).toBe(7 * 24 * 3_600);
  expect(limitSeconds(spec({ max_runtime_minutes: 0 }))).toBe(7 * 24 * 3_600);
  expect(limitSeconds(spec({ max_runtime_minutes: 5_000_000 }))).toBe(120 * 24 * 3_600);
  expect(limitSeconds(spec({ max_runtime_minutes: 1, orphan_grace_minutes: 0 }))).toBe(60 + SECONDS_AROUND + 10);
  const { awaiting_ssh, syncing, installing } = PHASE_LIMIT_MS;
  const around = awaiting_ssh + syncing + installing + COLLECT_LIMIT_MS.ended;
  expect(SECONDS_AROUND * 1_000, "a run that uses all of its time is not ended by the provider").toBeGreaterThan(
    around,
  );
});
