// A step that exceeds its deadline: the error includes the last state that was seen.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { PHASE_LIMIT_MS } from "../../src/machines/job-rules.ts";
import { Harness, removeHomes } from "./harness.ts";

let h: Harness;
beforeEach(async () => {
  h = await Harness.open();
  await h.create();
});
afterEach(() => h.end());
afterAll(removeHomes);

const error = () => JSON.parse(h.row().error ?? "{}") as { code: string; message: string };

test("the wait before a step is on its record", async () => {
  await h.attempt("provision").later(2 * PHASE_LIMIT_MS.provisioning, "the provider is still making it.");
  await h.clock.advance(PHASE_LIMIT_MS.provisioning);
  expect(error()).toMatchObject({
    code: "step_timed_out",
    message: expect.stringMatching(/after 2700 s\. Seen last: the provider is still making it\.$/) as string,
  });
  expect(h.folds()).toBe(true);
});

test("the reason of the last failure stays on the record when the next attempt has begun and reported nothing yet", async () => {
  const flaky = new SvcError("provider_error", { provider: "local", why: "it is having a bad day" });
  await h.attempt("provision").fail(flaky);
  const told = {
    kind: "step_retrying",
    message: `provision is tried again; attempt 1 ended with: ${flaky.message}`,
  };
  expect(h.reads.job("job1")?.note).toEqual(told);
  expect(h.reads.jobs({ limit: 10 }).jobs.map(({ note }) => note)).toEqual([told]);
  await h.clock.advance(PHASE_LIMIT_MS.provisioning);
  expect(error().message).toContain(`Seen last: ${flaky.message}`);
  expect(h.folds()).toBe(true);
});

test("a run's note names the wait of a step once it has lasted a minute", async () => {
  const why = "the machine does not let root in";
  await h.attempt("provision").later(3_600_000, why);
  const note = () => h.reads.job("job1")?.note;
  await h.clock.advance(59_000);
  expect(note()).toBeNull();
  await h.clock.advance(1_000);
  expect(note()).toEqual({ kind: "step_waiting", message: `provision still waits: ${why}` });
});

test("without any attempt there is nothing on the record", async () => {
  await h.clock.advance(PHASE_LIMIT_MS.provisioning);
  expect(error().message).toBe("The step provisioning timed out after 2700 s.");
});
