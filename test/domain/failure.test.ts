// Why a placement ended, from the error and the step.

import { expect, test } from "vitest";
import { failureOfStep } from "../../src/domain/failure.ts";
import type { StepName } from "../../src/schemas/job.ts";

test.each<[StepName, string, object | undefined, string]>([
  // The stream of this process, or of one that started later, finds that there is no exit code.
  ["stream", "run_lost", { why: "its run directory is gone" }, "machine_lost"],
  ["collect", "run_lost", { why: "status.json is damaged" }, "machine_lost"],
  ["install", "run_lost", { why: "the runner died" }, "machine_lost"],
  ["stream", "run_lost", { why: "exec failed", never_started: true }, "other"],
  ["stream", "machine_lost", undefined, "machine_lost"],
  ["await_ssh", "machine_lost", undefined, "boot_failed"],
  ["stream", "machine_broken", { elsewhere: true }, "machine_lost"],
  ["await_ssh", "machine_broken", { elsewhere: true }, "boot_failed"],
  ["await_ssh", "machine_broken", {}, "other"],
  ["await_ssh", "machine_broken", { image: true }, "image_failed"],
  ["stream", "machine_broken", { image: true }, "machine_lost"],
  ["await_ssh", "machine_unfit", { image: true }, "image_failed"],
  ["launch", "machine_unfit", undefined, "machine_unfit"],
  ["stream", "machine_preempted", undefined, "preempted"],
  ["provision", "no_offer", undefined, "no_machine"],
  ["provision", "step_timed_out", undefined, "no_machine"],
  ["await_ssh", "step_timed_out", undefined, "boot_failed"],
  ["sync", "step_timed_out", undefined, "other"],
])("%s that fails with %s (%j) counts as %s", (step, code, data, failure) => {
  expect(failureOfStep(step, { code, data })).toBe(failure);
});
