// A machine that cannot be reached: what the provider says decides, and that it says nothing decides nothing.

import { afterEach, beforeEach, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { reaching, type HeldMachine } from "../../src/steps/held-machine.ts";
import type { StepContext } from "../../src/steps/step.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => void rent.h.store.db.close());

const unreachable = new SvcError("ssh_unreachable", { machine: "m", why: "the connection was cut" });

async function whatEnds(look: Rent["cloud"]["inspect"]): Promise<unknown> {
  const name = rent.name(1);
  const handle: MachineHandle = { v: 1, provider: "podhost", id: "m1", name, address: null, priceMicro: 1 };
  await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: 0 });
  await rent.ledger.held(name, handle);
  rent.cloud.inspect = look;
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  const access = { inPlace: false } as HeldMachine["access"];
  return reaching(rent.ports, context, { provider: rent.cloud, handle, access }, () =>
    Promise.reject(unreachable),
  ).catch((e: unknown) => e);
}

test.each([
  new SvcError("credential_missing", { provider: "podhost", missing: "PODHOST_API_KEY" }),
  new SvcError("credential_refused", { provider: "podhost", why: "status 401" }),
  new SvcError("provider_unreachable", { provider: "podhost", why: "no network" }),
])("the provider cannot be asked ($code): the step is tried again", async (no) => {
  expect(await whatEnds(() => Promise.reject(no))).toBe(unreachable);
});

test("the provider says that it is gone", async () => {
  const end = await whatEnds(() => Promise.resolve({ phase: "gone" }));
  expect(end).toMatchObject({ code: "machine_lost" });
});
