// The provider is asked about the machine while other work on it takes long: an upload, a start, the last downloads.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { SvcError } from "../../../src/errors/index.ts";
import type { MachineAccess } from "../../../src/providers/host.ts";
import type { MachineStatus } from "../../../src/providers/provider.ts";
import { launchStep } from "../../../src/steps/launch.ts";
import { provisionStep } from "../../../src/steps/provision.ts";
import { heldMachine } from "../../../src/steps/rental/held-machine.ts";
import { watching } from "../../../src/steps/rental/machine-watch.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import type { StepContext, StepDefinition } from "../../../src/steps/step.ts";
import { syncStep } from "../../../src/steps/sync.ts";
import { DEADLINE_MS } from "../../deadline.ts";
import { removeHomes, turn } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";

const HOUR = 3_600_000;
const HALF_A_MINUTE = 30_000;
let rent: Rent;
let packagesDir: string;
let services: RunServices;
let inspect: () => Promise<MachineStatus>;
let asked: number;
/** The signals of the work that the machine was given; it ends only with its signal. */
let begun: AbortSignal[];
beforeEach(async () => {
  rent = await Rent.open();
  packagesDir = mkdtempSync(join(tmpdir(), "svc-packages-"));
  [asked, begun] = [0, []];
  const endless = (signal: AbortSignal): Promise<never> => {
    begun.push(signal);
    return new Promise((_, reject) =>
      signal.addEventListener("abort", () =>
        reject(new SvcError("ssh_unreachable", { machine: "m", why: "it was ended here" })),
      ),
    );
  };
  const access = {
    inPlace: false,
    layout: () => ({ packages: "/p" }),
    push: (_tree: unknown, signal: AbortSignal) => endless(signal),
    host: () => ({ start: (_spec: unknown, _env: unknown, signal: AbortSignal) => endless(signal) }),
  };
  rent.want({ price_cap: 2 });
  rent.cloud.access = () => access as unknown as MachineAccess;
  rent.cloud.inspect = () => {
    asked++;
    return inspect();
  };
  const plan = () => Promise.resolve({ runner: {}, secretEnv: {} });
  services = { ...rent.ports, packagesDir, guard: () => null, plan } as unknown as RunServices;
  await rent.h.create("job1");
  await rent.run(provisionStep);
});
afterEach(async () => {
  await rent.h.end();
  rmSync(packagesDir, { recursive: true });
});
afterAll(removeHomes);

const cost = (): number => rent.h.reads.job("job1")?.cost_usd ?? Number.NaN;
const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
const costs = (usd: number): MachineStatus => ({ phase: "ready", address: null, priceMicro: usd * 1e6 });

/** Begins the step, and waits until its work on the machine is under way. */
async function begin(step: (services: RunServices) => StepDefinition): Promise<{ end: Promise<unknown> }> {
  const end = rent.run(() => step(services)).catch((e: unknown) => e);
  await vi.waitFor(() => expect(begun).toHaveLength(1), DEADLINE_MS);
  return { end };
}
/** Half a minute passes, and the provider has answered. */
async function pass(): Promise<void> {
  const before = asked;
  await rent.h.clock.advance(HALF_A_MINUTE);
  await turn();
  expect(asked).toBe(before + 1);
}

test.each([
  ["the upload", syncStep],
  ["the start of the script", launchStep],
])("A price that rises above the cap during %s ends it, and the price is in the ledger", async (_, step) => {
  inspect = () => Promise.resolve(costs(1));
  const { end } = await begin(step);
  await pass();
  expect(begun[0]?.aborted).toBe(false);
  inspect = () => Promise.resolve(costs(30));
  await rent.h.clock.advance(HALF_A_MINUTE);
  expect(await end).toMatchObject({ code: "price_cap_exceeded", data: { offered: 30, cap: 2 } });
  const before = cost();
  await rent.h.clock.advance(HOUR);
  expect(cost() - before).toBeCloseTo(30, 4);
});

test("A price that rises within the cap during the upload counts for the cost, also while later polls cannot read it", async () => {
  inspect = () => Promise.resolve(costs(2));
  await begin(syncStep);
  await pass();
  inspect = () => Promise.resolve({ phase: "ready", address: null, priceMicro: null });
  await pass();
  const before = cost();
  await rent.h.clock.advance(HOUR);
  expect(cost() - before).toBeCloseTo(2, 4);
  expect(begun[0]?.aborted).toBe(false);
});

test("A machine that breaks during the upload ends it; a listing that omits it, or an unreachable provider, does not", async () => {
  inspect = () => Promise.resolve({ phase: "gone" });
  const { end } = await begin(syncStep);
  await pass();
  inspect = () => Promise.reject(new SvcError("provider_unreachable", { provider: "podhost", why: "no network" }));
  await pass();
  expect(begun[0]?.aborted).toBe(false);
  inspect = () => Promise.resolve({ phase: "broken", why: "its container has exited" });
  await rent.h.clock.advance(HALF_A_MINUTE);
  expect(await end).toMatchObject({ code: "machine_broken" });
});

test("A cancelled upload ends with the step's own reason", async () => {
  inspect = () => Promise.resolve(costs(30));
  const { end } = await begin(syncStep);
  rent.controller.abort(new Error("the step was cancelled"));
  expect(await end).toMatchObject({ code: "ssh_unreachable" });
  await rent.h.clock.advance(HOUR);
  expect(asked).toBe(0);
});

test("Work that is ended for the price fails with that reason, whatever it throws itself", async () => {
  inspect = () => Promise.resolve(costs(30));
  const end = watching(services, context, heldMachine(services, context), "act", ({ signal }) => {
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new RangeError("cut"))));
  }).catch((e: unknown) => e);
  await rent.h.clock.advance(HALF_A_MINUTE);
  expect(await end).toMatchObject({ code: "price_cap_exceeded" });
});

test("The last downloads continue at any price, which counts", async () => {
  inspect = () => Promise.resolve(costs(30));
  const done = Promise.withResolvers<string>();
  const end = watching(services, context, heldMachine(services, context), "nothing", ({ signal }) => {
    begun.push(signal);
    return done.promise;
  });
  await pass();
  await pass();
  const before = cost();
  await rent.h.clock.advance(HOUR);
  expect(cost() - before).toBeCloseTo(30, 4);
  expect(begun[0]?.aborted).toBe(false);
  done.resolve("all files");
  expect(await end).toBe("all files");
});

test("A node that waits for the upload to another one is asked about: its price counts, and above the cap ends the run", async () => {
  rent.want({ price_cap: 2, nodes: 2 });
  await rent.run(provisionStep, 1, 2);
  let waiting = 1;
  rent.cloud.inspect = ({ name }) => Promise.resolve(costs(name === rent.name(1, 1) ? waiting : 1));
  const { end } = await begin(syncStep);
  waiting = 2;
  await rent.h.clock.advance(3 * HALF_A_MINUTE);
  await turn();
  const before = cost();
  await rent.h.clock.advance(HOUR / 2);
  expect(cost() - before).toBeCloseTo(1.5, 4);
  expect(begun[0]?.aborted).toBe(false);
  waiting = 30;
  await rent.h.clock.advance(3 * HALF_A_MINUTE);
  expect(await end).toMatchObject({ code: "price_cap_exceeded", data: { offered: 30, cap: 2 } });
});

test("What else an answer says about the machine of a waiting node does not end the work of another one", async () => {
  rent.want({ price_cap: 2, nodes: 2 });
  await rent.run(provisionStep, 1, 2);
  let told = 0;
  rent.cloud.inspect = ({ name }) => {
    if (name !== rent.name(1, 1)) return Promise.resolve(costs(1));
    told++;
    return Promise.resolve({ phase: "broken", why: "its container has exited" });
  };
  await begin(syncStep);
  await rent.h.clock.advance(HOUR / 10);
  await turn();
  expect(told).toBeGreaterThan(3);
  expect(begun[0]?.aborted).toBe(false);
});
