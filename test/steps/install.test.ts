// The install step before it reaches the machine.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { installStep } from "../../src/steps/install.ts";
import type { RunServices } from "../../src/steps/run-services.ts";
import type { StepContext } from "../../src/steps/step.ts";
import { removeHomes } from "../engine/harness.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => void rent.h.store.db.close());
afterAll(removeHomes);

test("a key of a tracker that cannot be used ends the run, and is not retried on an idle machine", async () => {
  const name = rent.name(1);
  const handle: MachineHandle = { v: 1, provider: "podhost", id: "m1", name, address: null, priceMicro: 1 };
  await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: 0 });
  await rent.ledger.held(name, handle);
  let looks = 0;
  rent.cloud.inspect = () => {
    looks++;
    return Promise.resolve({ phase: "ready", address: null });
  };
  rent.cloud.access = () => ({ inPlace: false, host: () => ({}) }) as never;
  const failure = new SvcError("credential_missing", { provider: "wandb", missing: "a key without a line break" });
  const services = {
    ...rent.ports,
    installCommand: () => Promise.resolve({ command: "make" }),
    plan: () => Promise.reject(failure),
  } as unknown as RunServices;
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  await expect(installStep(services).run(context)).rejects.toBe(failure);
  expect(looks).toBe(0);
});
