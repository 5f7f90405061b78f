// A create call's answer that comes so late that the job has another placement: the ledger's closed row is open again. The machine is ended,
// by the step that orders the next one and by the sweep, and never used.

import { afterAll, afterEach, beforeEach, expect, it } from "vitest";
import { sweep } from "../../src/engine/reconcile.ts";
import { SvcError } from "../../src/errors/index.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import { Rent } from "../steps/rent.ts";
import { removeHomes, START } from "./harness.ts";
import { SEARCHING_RULES } from "./placement-rules.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

/** The job searches again after its first order found no machine; then the answer to that order arrives. */
async function answeredLate(): Promise<void> {
  const { h, ledger, cloud } = rent;
  const name = rent.name(1);
  await h.create("job1", { rules: SEARCHING_RULES, spec: { provider: "podhost", gpus: "A100" } });
  await h.attempt("place").done({ candidate: 0 });
  await ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START });
  await ledger.released(name, "2 listings in a row without it");
  const refused = new SvcError("no_offer", { provider: "podhost", gpus: "A100" }, { retry: "never" });
  await h.attempt("provision").fail(refused);
  await h.attempt("terminate").done({ checkpoint: null });
  expect(h.row().state).toBe("waiting");
  await ledger.held(name, cloud.add(name));
}

const swept = async (): Promise<void> => {
  const { h, ledger, cloud } = rent;
  const parts = { engine: h.engine, ledger, providers: new Map([["podhost", cloud]]), connected: () => true };
  const done = sweep(parts, { dryRun: false });
  await h.clock.advance(60_000);
  await done;
};

it("The step that orders the next machine ends it and does not use it", async () => {
  await answeredLate();
  await rent.h.attempt("place").done({ candidate: 0 });
  rent.ports.facts = (id) => ({ id, spec: rent.spec, projectDir: "/p", placement: 2 });
  await rent.runToEnd(provisionStep);
  expect(rent.cloud.names).toEqual([rent.name(2)]);
  expect(rent.ledger.open("job1", 0).map(({ name, placement }) => [name, placement])).toEqual([[rent.name(2), 2]]);
});

it.each(["waits", "orders"])("The sweep ends it while the job %s", async (how) => {
  await answeredLate();
  if (how === "orders") await rent.h.attempt("place").done({ candidate: 0 });
  await swept();
  expect(rent.cloud.names).toEqual([]);
  expect(rent.ledger.row(rent.name(1))?.state).toBe("released");
});
