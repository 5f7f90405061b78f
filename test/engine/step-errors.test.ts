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

it.each([
  [
    "svc: the package index cannot be reached from this machine (Temporary failure in name resolution): nothing was installed from it",
    true,
  ],
  ["error: Failed to fetch: `https://pypi.org/simple/numpy/` Caused by: dns error", true],
  ["CondaHTTPError: HTTP 000 CONNECTION FAILED for url", true],
  [
    "error: Failed to fetch: `https://pypi.org/simple/nmpy/` Caused by: HTTP status client error (404 Not Found)",
    false,
  ],
  ["ERROR: No matching distribution found for nmpy", false],
])("The hint of an installation that failed fits its cause: %s", (last, isNetwork) => {
  const { hint } = new SvcError("install_failed", { exit_code: 1, last });
  expect(hint.includes("the machine's network or the index is"), hint).toBe(isNetwork);
  expect(hint.includes("Correct the requirements"), hint).toBe(!isNetwork);
  expect(hint).toMatch(/svc releases any rented machine\.$/);
});
