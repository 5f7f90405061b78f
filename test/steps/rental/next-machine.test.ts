// A machine that cannot start because of its host is released, and another one is rented for the same node.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import type { MachineAccess } from "../../../src/providers/host.ts";
import type { MachineStatus } from "../../../src/providers/provider.ts";
import { awaitSshStep } from "../../../src/steps/await-ssh.ts";
import { provisionStep } from "../../../src/steps/provision.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import type { StepDefinition } from "../../../src/steps/step.ts";
import { removeHomes } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";

const READY: MachineStatus = { phase: "ready", address: "10.0.0.1" };
const REFUSED: MachineStatus = {
  phase: "broken",
  why: "it cannot start: unsatisfied condition: cuda>=12.8",
  elsewhere: true,
};

let rent: Rent;
let notices: string[];
let step: StepDefinition;
/** The provider's answer about each machine, by its id. */
let says: Record<string, MachineStatus>;
const makeStep = (): StepDefinition => {
  const sink = { notice: (_job: string, _level: string, words: string) => Promise.resolve(void notices.push(words)) };
  return awaitSshStep({ ...rent.ports, guard: () => null, sink } as unknown as RunServices);
};
beforeEach(async () => {
  rent = await Rent.open();
  [notices, says] = [[], {}];
  rent.cloud.access = () => ({ inPlace: true }) as unknown as MachineAccess;
  rent.cloud.inspect = (handle) =>
    Promise.resolve(
      rent.cloud.machines.some(({ id }) => id === handle.id) ? (says[handle.id] ?? READY) : { phase: "gone" },
    );
  await rent.h.create("job1");
  await rent.run(provisionStep);
  step = makeStep();
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

/** Attempts until the step is done or throws. */
async function untilDone(): Promise<unknown> {
  for (let look = 0; look < 50; look++) {
    const result = await rent.run(() => step);
    if ("done" in result) return result;
    await rent.h.clock.advance(result.later.afterMs);
  }
  throw new RangeError("not done");
}

test("The next machine is ordered once the one before is proven gone, and its reason is reported", async () => {
  says = { "pod-1": REFUSED };
  await untilDone();
  expect(rent.states()).toEqual(["1 released", "2 held"]);
  expect(rent.cloud.names).toEqual([rent.name(2)]);
  const [create, ended, again] = ["create small", "terminate pod-1", "create small"].map((call, n) =>
    n === 2 ? rent.cloud.calls.lastIndexOf(call) : rent.cloud.calls.indexOf(call),
  );
  expect([create, ended, again]).toEqual([create, ended, again].toSorted((a, b) => (a ?? 0) - (b ?? 0)));
  expect(notices).toEqual([expect.stringContaining("unsatisfied condition: cuda>=12.8")]);
});

test("While the provider still lists the first machine, no second one is ordered", async () => {
  says = { "pod-1": REFUSED };
  rent.cloud.lies = true;
  for (let look = 0; look < 20; look++) {
    const result = await rent.run(() => step);
    expect(result).toHaveProperty("later");
    if ("later" in result) await rent.h.clock.advance(result.later.afterMs);
  }
  expect(rent.cloud.calls.filter((call) => call.startsWith("create"))).toHaveLength(1);
  rent.cloud.lies = false;
  await untilDone();
  expect(rent.states()).toEqual(["1 released", "2 held"]);
});

test("After two abandoned machines, the third one's failure ends the run", async () => {
  says = { "pod-1": REFUSED, "pod-2": REFUSED, "pod-3": REFUSED, "pod-4": READY };
  await expect(untilDone()).rejects.toMatchObject({ code: "machine_broken", retry: "never" });
  expect(rent.states()).toEqual(["1 released", "2 released", "3 held"]);
});

test("A restart after each abandoned machine grants no further one", async () => {
  says = { "pod-1": REFUSED, "pod-2": REFUSED, "pod-3": REFUSED, "pod-4": READY };
  const restarted = async (): Promise<void> => {
    for (let look = 0; look < 50; look++) {
      step = makeStep();
      const result = await rent.run(() => step);
      if ("done" in result) return;
      await rent.h.clock.advance(result.later.afterMs);
    }
  };
  await expect(restarted()).rejects.toMatchObject({ code: "machine_broken", retry: "never" });
  expect(rent.states()).toEqual(["1 released", "2 released", "3 held"]);
});

test("A fault that any host would have ends the run at once", async () => {
  says = { "pod-1": { phase: "broken", why: "it cannot start: manifest unknown" } };
  await expect(untilDone()).rejects.toMatchObject({ code: "machine_broken" });
  expect(rent.states()).toEqual(["1 held"]);
});

test("A control plane that restarts in between continues where the ledger ends", async () => {
  says = { "pod-1": REFUSED };
  await rent.run(() => step);
  expect(rent.states()).toEqual(["1 releasing"]);
  step = makeStep();
  await rent.run(() => step);
  expect(rent.states()).toEqual(["1 released"]);
  step = makeStep();
  await untilDone();
  expect(rent.states()).toEqual(["1 released", "2 held"]);
});
