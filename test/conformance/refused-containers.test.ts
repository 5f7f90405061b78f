// @module-tag needs/sshd

// A host that refuses a container, and an image that does not exist; only a message of the provider says so.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { MachineHandle, MachineStatus, Provider } from "../../src/providers/provider.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually } from "../sim/harness-parts.ts";
import { marketWorld } from "./worlds.ts";

let world: Awaited<ReturnType<typeof marketWorld>>;
let provider: Provider;
let ordinal = 0;
beforeAll(async () => {
  world = await marketWorld();
  provider = world.provider();
});
afterEach(async () => {
  world.simulated?.parts.faults.clear();
  await world.simulated?.clear();
});
afterAll(() => world.close());

const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
async function make(): Promise<MachineHandle> {
  const [offer] = await provider.listOffers(world.spec, soon());
  if (!offer) throw new Error("nothing is offered");
  const name = `svc-c0nf0rm1-refused-n0-${(ordinal += 1)}`;
  return provider.create(offer, { name, jobId: "refused", node: 0, spec: world.spec });
}
const reach = (handle: MachineHandle): Promise<MachineStatus> =>
  eventually(async () => {
    const status = await provider.inspect(handle, soon());
    return status.phase === "starting" ? null : status;
  });

test("The machine is broken, with the provider's message, and the next one works", async () => {
  world.simulated?.parts.faults.set("container_refused");
  expect(await reach(await make())).toMatchObject({
    phase: "broken",
    elsewhere: true,
    why: expect.stringContaining("unsatisfied condition: cuda>=12.8") as string,
  });
  expect((await reach(await make())).phase).toBe("ready");
});

test("An image that does not exist is distinguished from a host that cannot start it", async () => {
  world.simulated?.parts.faults.set("image_missing");
  const status = await reach(await make());
  expect(status).toMatchObject({
    phase: "broken",
    image: true,
    why: expect.stringMatching(/manifest .* not found/) as string,
  });
  expect(status).not.toHaveProperty("elsewhere");
});
