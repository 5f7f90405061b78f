// Behaviour that only this marketplace has.
// @module-tag needs/sshd

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { NOTHING_MADE, type MachineHandle, type Provider } from "../../src/providers/provider.ts";
import type { SvcError } from "../../src/errors/index.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually, login, ssh } from "../sim/harness-parts.ts";
import { marketWorld } from "./worlds.ts";

const PREFIX = "svc-0dd1t135-";
let world: Awaited<ReturnType<typeof marketWorld>>;
let provider: Provider;
let job = 0;
beforeAll(async () => {
  world = await marketWorld({ accountKeys: [], timings: { keysForgottenMs: 4_000 } });
  provider = world.provider();
});
afterEach(async () => {
  world.sim.shut = "none";
  world.sim.doubleRent = "reject";
  world.sim.creditUsd = 25;
  world.sim.ignoredFilters.clear();
  await world.simulated?.clear();
  provider = world.provider();
});
afterAll(() => world.close());

const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
const orderOf = (name: string) => ({ name, jobId: "job", node: 0, spec: world.spec });
const make = async (): Promise<MachineHandle> => {
  const [offer] = await provider.listOffers(world.spec, soon());
  if (!offer) throw new Error("nothing is offered");
  return provider.create(offer, orderOf(`${PREFIX}job-n0-${(job += 1)}`));
};
const ready = (handle: MachineHandle): ReturnType<Provider["inspect"]> =>
  eventually(async () => {
    const status = await provider.inspect(handle, soon());
    return status.phase === "ready" ? status : null;
  });
const alive = (): number => world.simulated?.parts.ledger.alive().length ?? NaN;
const codeOf = (act: Promise<unknown>): Promise<string | null> =>
  act.then(
    () => null,
    (e: unknown) => (e as SvcError).code,
  );

test.each([
  "verified",
  "rentable",
  "rented",
  "external",
  "reliability",
  "reliability2",
  "direct_port_count",
  "disk_space",
  "num_gpus",
  "gpu_name",
  "gpu_ram",
  "duration",
  "dph_total",
  "cuda_max_good",
  "geolocation",
])("market rents no trap offer if the provider ignores the filter %s", async (filter) => {
  world.sim.ignoredFilters.add(filter);
  const offers = await provider.listOffers(world.spec, soon());
  // Other cards may fill an answer, which has a maximum size.
  if (filter !== "gpu_name") expect(offers.length).toBeGreaterThan(0);
  for (const { id, priceMicro } of offers) {
    const offer = world.sim.offers.find((one) => String(one.id) === id);
    expect(offer).toMatchObject({ gpuName: "RTX 4090", numGpus: 1, rentable: true, rented: false, external: false });
    expect(offer).toMatchObject({ verification: "verified" });
    expect(offer?.reliability).toBeGreaterThan(0.9);
    expect(offer?.diskSpaceGb).toBeGreaterThan(8);
    expect(priceMicro).toBeLessThanOrEqual(2_000_000);
  }
});

test("market finds its machine on the second page of a long list, and counts all the others as foreign", async () => {
  for (let i = 0; i < 40; i += 1) world.sim.addForeign(`stranger-${i}`);
  const handle = await make();
  expect((await provider.listOwned(PREFIX, soon())).map(({ name }) => name)).toEqual([handle.name]);
  expect(await provider.listForeign?.(PREFIX, soon())).toHaveLength(40);
});

test.each(["direct", "proxy"] as const)("market offers another endpoint if the %s one is closed", async (way) => {
  world.sim.shut = way;
  const handle = await make();
  // The direct endpoint appears some time after the machine runs.
  const ways = await eventually(async () => {
    const status = await provider.inspect(handle, soon());
    const found = status.phase === "ready" ? (status.ssh ?? []) : [];
    return found.length === 2 ? found : null;
  });
  const keyPath = world.simulated?.parts.keyPath ?? "";
  await eventually(async () => {
    for (const one of ways) if ((await ssh({ ...one, keyPath }, "true")).code === 0) return true;
    return false;
  });
});

test("svc is admitted again after the host has dropped every key that was not attached", async () => {
  const handle = await make();
  const status = await ready(handle);
  const [way] = status.phase === "ready" ? (status.ssh ?? []) : [];
  if (!way) throw new Error("no way in");
  const to = { ...way, keyPath: world.simulated?.parts.keyPath ?? "" };
  expect((await login(to)).code).toBe(0);
  const [machine] = world.simulated?.parts.fleet.machines() ?? [];
  await machine?.refuseKeys(true);
  expect((await ssh(to, "true")).code).toBe(255);
  await provider.attachKey?.(handle, soon());
  expect((await login(to)).code).toBe(0);
});

test("market creates no machine without credit, and says so", async () => {
  world.sim.creditUsd = 0;
  const account = await provider.account?.(soon());
  expect(account?.balanceUsd).toBe(0);
  expect(account?.warnings).toHaveLength(1);
  expect(await codeOf(make())).toBe("no_funds");
  expect(alive()).toBe(0);
});

test("two runs that want one offer at the same time never both get a broken machine", async () => {
  world.sim.doubleRent = "break";
  const [offer] = await provider.listOffers(world.spec, soon());
  if (!offer) throw new Error("nothing is offered");
  const codes = await Promise.all(
    ["a", "b"].map((one) => codeOf(provider.create(offer, orderOf(`${PREFIX}job-${one}-1`)))),
  );
  expect(codes.filter((code) => code === null)).toHaveLength(1);
  expect(NOTHING_MADE).toContain(codes.find((code) => code !== null));
  expect(alive()).toBe(1);
});

test("the machine's key opens nothing else", async () => {
  const mine = await make();
  const other = await make();
  const instance = world.sim.instances.all.get(Number(mine.id));
  const key = instance?.apiKey ?? "";
  const answer = await fetch(`${world.sim.url}/api/v0/instances/${other.id}/`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${key}` },
  });
  expect(answer.status).toBe(403);
  expect(alive()).toBe(2);
});
