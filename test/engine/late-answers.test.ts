// A create call's answer that comes so late that the job has another placement: the ledger's closed row is open again. The machine is ended,
// by the step that orders the next one and by the sweep, and never used. Or it comes while a proof about another machine of that name is under way.

import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { sweep } from "../../src/engine/reconcile.ts";
import { SvcError } from "../../src/errors/index.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import { heldHandle } from "../../src/steps/rental/held-machine.ts";
import { terminateStep } from "../../src/steps/terminate.ts";
import { DEADLINE_MS } from "../deadline.ts";
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

/** The provider made two machines for one order. A listing showed the first; the answer names the second while svc asks about the first. */
describe("an answer that names a second machine", () => {
  let second: string;
  beforeEach(async () => {
    await rent.run(provisionStep);
    second = rent.cloud.add(rent.name(1)).id;
  });
  const answer = async (): Promise<void> => {
    const handle = rent.cloud.machines.find(({ id }) => id === second);
    if (handle !== undefined) await rent.ledger.held(rent.name(1), handle);
  };
  const answeredWhileInspected = (): void => {
    const inspect = rent.cloud.inspect.bind(rent.cloud);
    vi.spyOn(rent.cloud, "inspect").mockImplementationOnce(async (handle) => {
      const status = await inspect(handle);
      await answer();
      return status;
    });
  };

  it("keeps the order open while svc releases the first, and is released next", async () => {
    answeredWhileInspected();
    expect(await rent.run(terminateStep)).toMatchObject({ later: { why: expect.stringContaining("second machine") } });
    expect(rent.ledger.row(rent.name(1))).toMatchObject({ state: "releasing", resource_id: second });
    expect(await rent.run(terminateStep)).toHaveProperty("done");
    expect([rent.states(), rent.cloud.machines]).toEqual([["1 released"], []]);
  });

  it("is used if the first is gone", async () => {
    rent.cloud.machines = rent.cloud.machines.filter(({ id }) => id === second);
    answeredWhileInspected();
    expect(await rent.run(provisionStep)).toHaveProperty("later");
    expect(await rent.run(provisionStep)).toMatchObject({ detail: { machine: rent.name(1) } });
    expect([rent.states(), rent.creates().length]).toEqual([["1 held"], 1]);
  });
});

it("An answer keeps its order open if the last empty listing was taken before it", async () => {
  rent.loseAnswers();
  await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "provider_error" });
  const [made] = rent.cloud.machines;
  rent.cloud.answering = () => {};
  rent.cloud.machines = [];
  const { emptyLook } = rent.ledger;
  vi.spyOn(rent.ledger, "emptyLook").mockImplementation(async (name) => {
    const looks = await emptyLook.call(rent.ledger, name);
    if (looks === rent.cloud.certainty.emptyLooks && made !== undefined) {
      rent.cloud.machines = [made];
      await rent.ledger.held(name, made);
    }
    return looks;
  });
  await rent.runToEnd(provisionStep);
  expect([rent.states(), rent.cloud.names]).toEqual([["1 held"], [rent.name(1)]]);
});

/** The provider hides the machine of an order until svc has ordered another one for the same node, and then names it. */
describe("an answer that comes after another order of the same placement", () => {
  let late: (() => void) | undefined;
  let answered: Promise<unknown>;
  beforeEach(async () => {
    late = undefined;
    const { h, cloud, ledger } = rent;
    await h.create("job1", { rules: SEARCHING_RULES, spec: { provider: "podhost", gpus: "A100" } });
    await h.attempt("place").done({ candidate: 0 });
    cloud.answering = () => new Promise((resolve) => (late = resolve));
    const attempt = new AbortController();
    rent.controller = attempt;
    answered = rent.run(provisionStep).catch((e: unknown) => e);
    await vi.waitFor(() => expect(late).toBeDefined(), DEADLINE_MS);
    attempt.abort();
    rent.controller = new AbortController();
    cloud.answering = () => {};
    cloud.unlisted.add("pod-1");
    await ledger.unknown(rent.name(1), { kind: "order_unknown", message: "the attempt is over" });
    await rent.runToEnd(provisionStep);
    expect(rent.states()).toEqual(["1 released", "2 held"]);
  });

  it("has its machine ended at once, and the run keeps its own", async () => {
    late?.();
    await answered;
    expect(rent.cloud.names).toEqual([rent.name(2)]);
    expect(heldHandle(rent.ledger, "job1", 0)?.name).toBe(rent.name(2));
  });

  it("has its machine ended by the sweep, if that fails, and never used", async () => {
    rent.cloud.lies = true;
    late?.();
    await answered;
    expect(rent.states()).toEqual(["1 releasing", "2 held"]);
    expect(heldHandle(rent.ledger, "job1", 0)?.name).toBe(rent.name(2));
    rent.cloud.lies = false;
    await swept();
    expect([rent.states(), rent.cloud.names]).toEqual([["1 released", "2 held"], [rent.name(2)]]);
  });
});

it("An answer that names a machine which is proven gone opens no order again", async () => {
  await rent.run(provisionStep);
  const [made] = rent.cloud.machines;
  await rent.runToEnd(terminateStep);
  if (made !== undefined) await rent.ledger.held(rent.name(1), made);
  expect(rent.states()).toEqual(["1 released"]);
});

it("The sweep leaves a job its machine in a later placement, though its provider lists it under the name of the first order", async () => {
  await answeredLate();
  const { h, ledger, cloud } = rent;
  await swept();
  await h.attempt("place").done({ candidate: 0 });
  const second = rent.name(2);
  await ledger.intend({ name: second, jobId: "job1", node: 0, ordinal: 2, provider: "podhost", horizonAt: START });
  await ledger.held(second, { ...cloud.add(rent.name(1)), name: second });
  await swept();
  expect([rent.states(), cloud.names]).toEqual([["1 released", "2 held"], [rent.name(1)]]);
});
