// A machine whose GPUs cost money from the moment when it runs, and its disk from its creation.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import type { MachineAccess } from "../../src/providers/host.ts";
import type { MachineStatus } from "../../src/providers/provider.ts";
import { heldMachine, lookAtMachine } from "../../src/steps/rental/held-machine.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import type { StepContext } from "../../src/steps/step.ts";
import { removeHomes } from "../engine/harness.ts";
import { Rent } from "./rent.ts";

const HOUR = 3_600_000;
let rent: Rent;
let status: MachineStatus;
beforeEach(async () => {
  rent = await Rent.open();
  rent.want({ price_cap: 2 });
  rent.cloud.access = () => ({ inPlace: true }) as unknown as MachineAccess;
  const create = rent.cloud.create.bind(rent.cloud);
  rent.cloud.create = async (offer, order) => ({ ...(await create(offer, order)), billedMicro: 10_000 });
  rent.cloud.inspect = () => Promise.resolve(status);
  await rent.h.create("job1");
  await rent.run(provisionStep);
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const look = (): Promise<unknown> => {
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  return lookAtMachine(rent.ports, context, heldMachine(rent.ports, context));
};
const cost = (): number => rent.h.reads.job("job1")?.cost_usd ?? Number.NaN;

test("Only the disk counts until the machine runs, and then its whole price, which is compared with the cap", async () => {
  status = { phase: "starting", why: "loading its image", cheaper: true };
  for (let minutes = 0; minutes < 60; minutes += 10) {
    await rent.h.clock.advance(HOUR / 6);
    await look();
  }
  expect(cost()).toBeCloseTo(0.01, 4);
  status = { phase: "starting", why: "running, but no usable address for SSH is known yet", priceMicro: 1_000_000 };
  await look();
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(1.01, 4);
  status = { phase: "ready", address: "10.0.0.1", priceMicro: 1_000_000 };
  await look();
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(2.01, 4);
});

test("A machine that may run already costs the offer's price if its own cannot be read", async () => {
  status = { phase: "starting", why: "in the state defragmenting", priceMicro: null };
  await look();
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(1, 4);
});

test.each<[string, MachineStatus]>([
  ["runs", { phase: "ready", address: "10.0.0.1", priceMicro: null }],
  ["was not seen in a list", { phase: "starting", why: "no list shows it yet" }],
  ["has stopped", { phase: "broken", why: "its container has exited", priceMicro: 1_000_000 }],
])("The hour in which nobody looked counts completely if the machine then %s", async (_, seen) => {
  status = { phase: "starting", why: "loading its image", cheaper: true };
  await rent.h.clock.advance(HOUR);
  await look();
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(1.01, 4);
  status = seen;
  await look().catch(() => undefined);
  expect(cost()).toBeCloseTo(1.01, 4);
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(2.01, 4);
});

test.each([
  ["with a cheaper boot", true],
  ["without one", false],
])("A price that rises while the machine starts counts for the cost and for the cap, %s", async (_, boots) => {
  const { billedMicro: _micro, ...handle } = rent.ledger.open("job1", 0)[0]!.handle!;
  if (!boots) await rent.ledger.known(rent.name(1), handle);
  status = { phase: "starting", why: "its image is being fetched", priceMicro: 1_000_000 };
  await look();
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(1, 4);
  status = { phase: "starting", why: "its image is being fetched", priceMicro: 2_000_000 };
  await look();
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(3, 4);
  status = { phase: "starting", why: "its image is being fetched", priceMicro: 30_000_000 };
  await expect(look()).rejects.toMatchObject({ code: "price_cap_exceeded" });
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(33, 4);
});

test("A price that cannot be read for a while is the last one that could, also for a step that began before it rose", async () => {
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  const held = heldMachine(rent.ports, context);
  for (const price of [{ priceMicro: 2_000_000 }, { priceMicro: null }, {}]) {
    status = { phase: "ready", address: "10.0.0.1", ...price };
    await lookAtMachine(rent.ports, context, held);
  }
  await rent.h.clock.advance(HOUR);
  expect(cost()).toBeCloseTo(2, 4);
});

test("A machine that has run once has no cheaper time any more", async () => {
  status = { phase: "ready", address: "10.0.0.1", priceMicro: null };
  await look();
  await rent.h.clock.advance(HOUR);
  status = { phase: "starting", why: "loading its image", cheaper: true };
  await look();
  expect(cost()).toBeCloseTo(1, 4);
});

test("A whole price above the cap ends the run, whatever is billed so far", async () => {
  status = { phase: "ready", address: "10.0.0.1", priceMicro: 3_000_000 };
  await expect(look()).rejects.toMatchObject({ code: "price_cap_exceeded" });
});
