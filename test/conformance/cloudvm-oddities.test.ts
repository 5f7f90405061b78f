// Behaviour that only this cloud has.
// @module-tag needs/sshd

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { NOTHING_MADE, type MachineHandle, type Offer, type Provider } from "../../src/providers/provider.ts";
import { SvcError } from "../../src/errors/index.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually } from "../sim/harness-parts.ts";
import { cloudvmWorld } from "./worlds.ts";

const PREFIX = "svc-0dd1t135-";
let world: Awaited<ReturnType<typeof cloudvmWorld>>;
let provider: Provider;
let job = 0;
beforeAll(async () => {
  world = await cloudvmWorld();
  provider = world.provider();
});
afterEach(async () => {
  const { sim } = world;
  sim.stockouts.clear();
  sim.unreachable.clear();
  sim.quota = null;
  sim.denied = null;
  sim.pageSize = 500;
  sim.desk.tokenS = 3_600;
  world.simulated?.parts.faults.clear();
  await world.simulated?.clear();
  provider = world.provider();
});
afterAll(() => world.close());

const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
const name = (): string => `${PREFIX}job-n0-${(job += 1)}`;
const offers = (): Promise<Offer[]> => provider.listOffers(world.spec, soon());
const create = async (offer?: Offer): Promise<MachineHandle> => {
  const chosen = offer ?? (await offers())[0];
  if (!chosen) throw new Error("nothing is offered");
  return provider.create(chosen, { name: name(), jobId: "job", node: 0, spec: world.spec });
};
const alive = (): string[] => world.simulated?.parts.ledger.alive().map((line) => line.name) ?? [];
const errorOf = async (act: Promise<unknown>): Promise<SvcError> => {
  const error: unknown = await act.then(
    () => null,
    (e: unknown) => e,
  );
  if (!(error instanceof SvcError)) throw new Error(`not refused: ${String(error)}`);
  return error;
};

test("cloudvm falls back to other zones of the region, and to no other region", async () => {
  const zones = (await offers()).map((offer) => offer.extra?.["zone"] ?? "");
  expect(zones[0]).toBe(world.sim.zone);
  expect(zones.length).toBeGreaterThan(1);
  for (const zone of zones) expect(zone).toMatch(/^us-central1-/);
  world.sim.stockouts.add(world.sim.zone);
  const [here, there] = await offers();
  const full = await errorOf(create(here));
  expect(NOTHING_MADE).toContain(full.code);
  expect(alive()).toEqual([]);
  const made = await create(there);
  expect(made.extra?.["zone"]).toBe(there?.extra?.["zone"]);
  expect(alive()).toEqual([made.name]);
});

test.each(["at once", "in the operation"] as const)(
  "a quota that is exceeded %s is said as such, and makes nothing",
  async (how) => {
    world.sim.quota = { metric: "GPUS_ALL_REGIONS", limit: 0, how };
    const refused = await errorOf(create());
    expect(refused.code).toBe("no_quota");
    expect(`${refused.message} ${refused.hint}`).toContain("GPUS_ALL_REGIONS");
    expect(alive()).toEqual([]);
  },
);

test.each(["forbidden", "accessNotConfigured"] as const)(
  "%s is told with what is missing, and makes nothing",
  async (denied) => {
    const [offer] = await offers();
    world.sim.denied = denied;
    const refused = await errorOf(create(offer));
    expect(NOTHING_MADE).toContain(refused.code);
    expect(`${refused.message} ${refused.hint}`).toMatch(
      denied === "forbidden" ? /compute\.instances\.create/ : /[Ee]nable/,
    );
    expect(alive()).toEqual([]);
  },
);

test("a silent zone makes every listing incomplete", async () => {
  await create();
  world.sim.unreachable.add("us-central1-b");
  await errorOf(provider.listOwned(PREFIX, soon()));
});

test("cloudvm reads every page", async () => {
  world.sim.pageSize = 1;
  for (const stranger of ["one", "two", "three"]) world.sim.addForeign(stranger);
  const made = await create();
  expect((await provider.listOwned(PREFIX, soon())).map((one) => one.name)).toEqual([made.name]);
  expect(await provider.listForeign?.(PREFIX, soon())).toHaveLength(3);
});

test("cloudvm gets a new token when the old one ends, and one for all waiting calls", async () => {
  await provider.account?.(soon());
  const before = world.sim.desk.issued;
  world.sim.desk.expireTokens();
  await Promise.all([1, 2, 3, 4].map(() => provider.listOwned(PREFIX, soon())));
  expect(world.sim.desk.issued - before).toBeGreaterThan(0);
  expect(world.sim.desk.issued - before).toBeLessThanOrEqual(2);
});

test("every machine has a time limit after which the provider deletes it", async () => {
  const made = await create();
  const instance = [...world.sim.instances.all.values()].find((one) => one.order.name === made.name);
  expect(instance?.order).toMatchObject({ onTermination: "DELETE", maxRunMs: expect.any(Number) as number });
  expect(instance?.order.metadata["enable-oslogin"]).toBe("FALSE");
});

test("cloudvm reports why a machine ended", async () => {
  const made = await create();
  await eventually(async () => (await provider.inspect(made, soon())).phase === "ready");
  world.simulated?.parts.faults.set("preempted", 0);
  const status = await eventually(async () => {
    const seen = await provider.inspect(made, soon());
    return seen.phase === "gone" || seen.phase === "broken" ? seen : null;
  });
  expect("why" in status ? status.why : "").toMatch(/preempt|took|taken|reclaim/i);
});
