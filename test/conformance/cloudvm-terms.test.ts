// Machines of this cloud that wait in a queue or come from a reservation, against its simulator.
// @module-tag needs/sshd

import { afterEach, expect, test } from "vitest";
import { NOTHING_MADE, type MachineHandle } from "../../src/providers/provider.ts";
import { SvcError } from "../../src/errors/index.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually } from "../sim/harness-parts.ts";
import { spec } from "./world.ts";
import { cloudvmWorld } from "./worlds.ts";

let world: Awaited<ReturnType<typeof cloudvmWorld>> | undefined;
afterEach(async () => {
  await world?.simulated?.clear();
  await world?.close();
  world = undefined;
});

const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
// One H100 is available by flex-start and from a reservation, and not on demand.
const wanted = spec({ provider: "cloudvm", gpus: "H100:1" });
async function create(name: string): Promise<MachineHandle> {
  const provider = world!.provider();
  const [offer] = await provider.listOffers(wanted, soon());
  return provider.create(offer!, { name, jobId: "job", node: 0, spec: wanted });
}
const modelsShown = (): string[] => [...world!.sim.instances.all.values()].map(({ order }) => order.model);

test("A flex-start order waits in the queue, and its machine starts once there is capacity", async () => {
  world = await cloudvmWorld({ provisioning: "flex-start" }, { timings: { queuedMs: 10_000 } });
  const creating = create("svc-0dd1t135-job-n0-1");
  await eventually(() => [...world!.sim.instances.all.values()].some(({ status }) => status === "PENDING"));
  const handle = await creating;
  const provider = world.provider();
  expect(modelsShown()).toEqual(["FLEX_START"]);
  await eventually(async () => (await provider.inspect(handle, soon())).phase === "ready");
});

test("A termination ends a machine that waits in the queue, and nothing of it remains", async () => {
  world = await cloudvmWorld({ provisioning: "flex-start" }, { timings: { queuedMs: 3_600_000 } });
  const handle = await create("svc-0dd1t135-job-n0-2");
  const provider = world.provider();
  expect(await provider.inspect(handle, soon())).toEqual({ phase: "starting", why: "it is pending" });
  await eventually(async () => {
    await provider.terminate(handle, soon());
    return (await provider.inspect(handle, soon())).phase === "gone";
  });
  expect(world.simulated?.parts.ledger.alive()).toEqual([]);
});

test("A run with a limit above that of flex-start machines is ordered with their maximum run time", async () => {
  world = await cloudvmWorld({ provisioning: "flex-start" });
  const long = spec({ provider: "cloudvm", gpus: "H100:1", max_runtime_minutes: 30 * 24 * 60 });
  const provider = world.provider();
  const [offer] = await provider.listOffers(long, soon());
  await provider.create(offer!, { name: "svc-0dd1t135-job-n0-3", jobId: "job", node: 0, spec: long });
  expect([...world.sim.instances.all.values()].map(({ order }) => order.maxRunMs)).toEqual([7 * 86_400_000]);
});

test("An order bound to a reservation uses it, and one with an unknown reservation is refused and makes nothing", async () => {
  world = await cloudvmWorld({ provisioning: "reservation-bound", reservation: "mine" });
  const refused = await create("svc-0dd1t135-job-n0-4").catch((e: unknown) => e);
  expect(refused).toBeInstanceOf(SvcError);
  expect(NOTHING_MADE).toContain((refused as SvcError).code);
  expect((refused as SvcError).message).toContain("reservations/mine");
  expect(world.simulated?.parts.ledger.alive()).toEqual([]);
  world.sim.reservations.add("mine");
  await create("svc-0dd1t135-job-n0-5");
  expect(modelsShown()).toEqual(["RESERVATION_BOUND"]);
});
