import { afterAll, afterEach, expect, it } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { Harness, removeHomes } from "./harness.ts";

let h: Harness | null = null;
afterEach(async () => {
  await h?.end();
  h = null;
});
afterAll(removeHomes);

it.each([
  ["local" as const, /^(?!.*rented)/],
  ["notebook" as const, /^(?!.*rented)/],
  ["podhost" as const, /rented machine/],
])(
  "A failed step of a run on %s mentions a rented machine only if there is one, in the timeline and in the feed",
  async (provider, hint) => {
    h = await Harness.open();
    await h.create("job1", { spec: { provider, ...(provider === "local" ? {} : { gpus: "A100:1" }) } });
    const step = await h.upTo("sync");
    await step.fail(new SvcError("install_failed", { exit_code: 1, last: "no such package" }));
    const failed = h.reads.timeline("job1").steps.find((each) => each.step === "sync");
    expect(failed?.error?.hint).toMatch(hint);
    const event = h.published.find((each) => each.type === "step.failed");
    expect(event?.data["error"]).toMatchObject({ hint: expect.stringMatching(hint) as string });
  },
);
