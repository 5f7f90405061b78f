// How an order whose answer was lost is closed: proven to have rented nothing, or counted at the most that it may have cost (ADR 0035).

import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { SvcError } from "../../../src/errors/index.ts";
import { provisionStep } from "../../../src/steps/provision.ts";
import { terminateStep } from "../../../src/steps/terminate.ts";
import type { MachineRow } from "../../../src/store/tables.ts";
import { removeHomes } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";

const HOUR = 3_600_000;
let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
  await rent.h.create("job1", { spec: { provider: "podhost", gpus: "L4" } });
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const row = (ordinal = 1): MachineRow | undefined =>
  rent.h.store.db.prepare<[string], MachineRow>("SELECT * FROM machine WHERE name = ?").get(rent.name(ordinal));

/** The order leaves, its answer is lost, and its machine has ended itself when the next list is asked for. */
async function loseTheMachine(awayMs: number): Promise<void> {
  rent.loseAnswers();
  await expect(rent.run(provisionStep)).rejects.toThrow();
  rent.cloud.answering = () => undefined;
  rent.cloud.machines = [];
  await rent.h.clock.jump(awayMs);
}
/** The budget leaves 100 s to each order. */
const withBudget = (): void => {
  rent.ports.budget = {
    lack: () => null,
    limitOfOrder: () => ({ stopSeconds: 80, endSeconds: 100, mostMicro: 29_000 }),
    limit: () => null,
    unfetched: () => {},
    look: () => Promise.resolve(),
  };
};
const receipt = () => rent.h.reads.receipt("job1")?.machines[0];

it("A list that was taken while the machine would still have run proves that nothing was rented: the order counts nothing", async () => {
  await loseTheMachine(0);
  await rent.runToEnd(terminateStep);
  expect(row()).toMatchObject({ state: "released", doubt_at: null });
  expect(rent.h.reads.job("job1")).toMatchObject({ spent_usd: 0, cost_estimate_usd: null });
  expect(receipt()).toMatchObject({ cost_estimate_usd: null, unproven_usd: null });
});

it("An order whose machine may have ended itself before the first list counts until that list, and is shown as an estimate", async () => {
  // $1 an hour; without a budget the guard waits for a first contact.
  await loseTheMachine(3 * HOUR);
  await rent.runToEnd(terminateStep);
  expect(row()).toMatchObject({ state: "released", order_micro: 1_000_000, most_micro: null });
  expect(rent.h.reads.job("job1")).toMatchObject({ cost_usd: 0 });
  expect(rent.h.reads.job("job1")?.spent_usd).toBeCloseTo(3, 2);
  expect(receipt()?.cost_usd).toBeNull();
  expect(receipt()?.cost_estimate_usd).toBeCloseTo(3, 2);
  expect(receipt()?.unproven_usd).toBe(receipt()?.cost_estimate_usd);
  expect(receipt()?.proof).toContain("its own guard may have ended it before the first of them");
  const { total } = rent.h.reads.costs({ by: "provider" });
  expect(total).toMatchObject({ cost_usd: null, machines: 1, machines_without_price: 1 });
  expect(total.cost_estimate_usd).toBe(receipt()?.unproven_usd);
});

it("With a budget it counts at most what the budget gave to it, however long svc was away", async () => {
  withBudget();
  await loseTheMachine(90 * HOUR);
  expect(rent.h.reads.job("job1")?.spent_usd).toBe(0.029);
  await rent.runToEnd(terminateStep);
  expect(rent.h.reads.job("job1")?.spent_usd).toBe(0.029);
});

it("A budget that ends the machine before any list can count makes the order count", async () => {
  // The horizon and the lag of lists are 70 s, and the machine would end itself after 100 s at the earliest.
  withBudget();
  await loseTheMachine(0);
  await rent.runToEnd(terminateStep);
  expect(row()).toMatchObject({ doubt_at: null });
  rent.cloud.certainty = { ...rent.cloud.certainty, listingLagMs: 60_000 };
  await loseTheMachine(0);
  await rent.runToEnd(terminateStep);
  expect(row(2)?.doubt_at).not.toBeNull();
});

it("A machine that a later list shows counts at its own price, from its order on: the estimate is dropped", async () => {
  await loseTheMachine(3 * HOUR);
  await rent.runToEnd(terminateStep);
  await rent.ledger.held(rent.name(1), rent.cloud.add(rent.name(1)));
  expect(row()).toMatchObject({ state: "held", doubt_at: null });
  expect(receipt()).toMatchObject({ unproven_usd: null });
  expect(receipt()?.cost_usd).toBeCloseTo(3, 2);
  await rent.runToEnd(terminateStep);
  expect(row()).toMatchObject({ state: "released", doubt_at: null });
});

it("An order that was refused counts nothing, however late svc hears of it", async () => {
  withBudget();
  rent.cloud.before = async (call) => {
    if (!call.startsWith("create")) return;
    await rent.h.clock.jump(5 * HOUR);
    throw new SvcError("offer_taken", { provider: "podhost", offer: "small", why: "no room" });
  };
  await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "no_offer" });
  expect(row()).toMatchObject({ state: "released", held_at: null, doubt_at: null });
  expect(rent.h.reads.job("job1")).toMatchObject({ spent_usd: 0 });
});

it("An intent whose process was killed before its answer counts from its horizon on", async () => {
  await rent.ledger.intend({
    name: rent.name(1),
    jobId: "job1",
    node: 0,
    ordinal: 1,
    provider: "podhost",
    horizonAt: rent.h.clock.now() + 60_000,
    atMost: { rateMicro: 1_000_000, micro: null, endsFrom: rent.h.clock.now() + 400_000 },
  });
  expect(rent.h.reads.job("job1")).toMatchObject({ spent_usd: 0, cost_estimate_usd: null });
  await rent.h.clock.jump(2 * HOUR);
  expect(rent.h.reads.job("job1")).toMatchObject({ spent_usd: 2, cost_estimate_usd: 2 });
});

it("The end of a placement says that the rest of the budget is too small for another machine", async () => {
  await loseTheMachine(0);
  withBudget();
  const lack = { code: "budget_reached", message: "The rest is too small.", hint: "" };
  rent.ports.budget = { ...rent.ports.budget!, lack: () => lack };
  await rent.runToEnd(terminateStep);
  expect(await rent.run(terminateStep)).toMatchObject({ done: { lack } });
});

it("A budget that is raised while the order leaves gives its machine no later deadline than its row counts", async () => {
  withBudget();
  const budget = rent.ports.budget!;
  rent.ports.budget = {
    ...budget,
    limitOfOrder: () => {
      rent.ports.budget = { ...budget, limitOfOrder: () => ({ stopSeconds: 180, endSeconds: 200, mostMicro: 58_000 }) };
      return budget.limitOfOrder("job1", null);
    },
  };
  const create = vi.spyOn(rent.cloud, "create");
  await rent.run(provisionStep);
  expect(create.mock.calls[0]?.[1].limit).toMatchObject({ endSeconds: 100 });
  expect(row()).toMatchObject({ most_micro: 29_000, ends_from: rent.h.clock.now() + 100_000 });
});
