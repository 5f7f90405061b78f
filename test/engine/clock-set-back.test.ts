// A clock that was set back while no control plane ran: nothing that is open lasts longer by the difference.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { PHASE_LIMIT_MS } from "../../src/machines/job-rules.ts";
import { Harness, removeHomes, turn } from "./harness.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const RULES = {
  searches: true,
  retry_max: 2,
  retry_on: [],
  recovers: true,
  max_preemptions: 10,
  falls_back: false,
};

let h: Harness;
beforeEach(async () => {
  h = await Harness.open();
});
afterEach(() => h.end());
afterAll(removeHomes);

async function restartWith(change: () => void): Promise<void> {
  await h.end();
  change();
  h = await Harness.open({}, h.home, h.clock);
  await h.engine.recover();
  await turn();
}
const setBack = (ms: number) => restartWith(() => h.clock.setBack(ms));

test("A search has lasted as long as before, and the next try comes within a minute", async () => {
  await h.create("job1", { rules: RULES });
  await h.clock.advance(2 * HOUR_MS);
  await h.attempt("place").later(60_000);
  const before = h.clock.now() - (h.engine.placement("job1").searching_since ?? 0);
  await setBack(DAY_MS);
  const lasted = h.clock.now() - (h.engine.placement("job1").searching_since ?? 0);
  // The last try is known within a minute.
  expect(Math.abs(lasted - before)).toBeLessThanOrEqual(60_000);
  await h.clock.advance(2 * 60_000);
  expect(h.attempts.map(({ step }) => step)).toEqual(["place"]);
  expect(h.folds()).toBe(true);
});

test("A limit of time ends the phase when it would have ended", async () => {
  await h.create();
  await h.clock.advance(PHASE_LIMIT_MS.provisioning / 2);
  await h.attempt("provision").later(1_000);
  await setBack(DAY_MS);
  expect(h.row().state).toBe("provisioning");
  await h.clock.advance(PHASE_LIMIT_MS.provisioning);
  expect(h.row().state).toBe("terminating");
  expect(h.folds()).toBe(true);
});

test("A second restart moves nothing again", async () => {
  await h.create("job1", { rules: RULES });
  await h.attempt("place").later(1_000);
  await setBack(DAY_MS);
  const since = () => h.clock.now() - (h.engine.placement("job1").searching_since ?? 0);
  const first = since();
  await restartWith(() => undefined);
  expect(since()).toBe(first);
  expect(h.folds()).toBe(true);
});

describe("an order", () => {
  const order = {
    name: "svc-x-1",
    jobId: "job1",
    node: 0,
    ordinal: 1,
    provider: "podhost",
    account: null,
    spot: false,
  };

  test("is looked up for no longer than before", async () => {
    await h.create();
    await new DurableLedger(h.engine).intend({ ...order, horizonAt: h.clock.now() + 60_000 });
    await setBack(DAY_MS);
    const [row] = new DurableLedger(h.engine).open("job1", 0);
    expect(row?.horizonAt).toBeLessThanOrEqual(h.clock.now() + 60_000);
    expect(row?.createdAt).toBeLessThanOrEqual(h.clock.now());
  });
});

test("A clock that was set forward, or that simply ran, changes no stored time", async () => {
  await h.create("job1", { rules: RULES });
  const since = h.engine.placement("job1").searching_since;
  await restartWith(() => h.clock.setBack(-DAY_MS));
  expect(h.engine.placement("job1").searching_since).toBe(since);
});
