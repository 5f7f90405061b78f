// The first of a provider's two APIs ends, announces its end, or limits its callers while machines run: the tests cover
// a machine that the first API made, one whose order was under way, and the next one.

import { expect } from "vitest";
import type { MachineHandle, MachineStatus, Provider } from "../../src/providers/provider.ts";
import { eventually } from "../sim/harness-parts.ts";
import type { FaultName } from "../sim/providers/parts.ts";
import { DEADLINE_MS } from "../deadline.ts";
import type { Simulated } from "./world.ts";

export const TAKEOVERS = ["api_retired", "api_retiring", "api_limited"] as const satisfies readonly FaultName[];

export async function takenOver(of: {
  simulated: Simulated;
  provider: Provider;
  prefix: string;
  fault: FaultName;
  /** Orders a machine with that name. */
  make: (name: string) => Promise<MachineHandle>;
  names: readonly [string, string, string];
  end: (handle: MachineHandle) => Promise<unknown>;
}): Promise<void> {
  const { simulated, provider, prefix, fault, make, names } = of;
  const { faults, ledger } = simulated.parts;
  const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
  const owned = (): Promise<MachineHandle[]> => provider.listOwned(prefix, soon()).catch(() => []);
  const look = (handle: MachineHandle): Promise<MachineStatus["phase"] | null> =>
    provider.inspect(handle, soon()).then(
      ({ phase }) => phase,
      () => null,
    );
  simulated.addForeign?.(`stranger-${fault}`);

  const first = await make(names[0]);
  await eventually(async () => (await look(first)) === "ready");
  faults.set(fault);
  // An answer may be lost until the takeover; "gone" would be wrong.
  await eventually(async () => {
    const phase = await look(first);
    expect(phase).not.toBe("gone");
    return phase === "ready";
  });
  await eventually(async () => (await owned()).map((one) => one.id).join() === first.id);

  // The answer to this order is lost as well: svc finds the machine by its name, through the API that answers.
  faults.set("lost_after_create");
  const lost = await make(names[1]).catch(() => null);
  faults.clear("lost_after_create");
  const second = lost ?? (await eventually(async () => (await owned()).find((one) => one.name === names[1])));
  const third = await eventually(() => make(names[2]).catch(() => null));
  expect(ledger.alive().map(({ name }) => name)).toEqual([...names]);

  for (const machine of [first, second, third]) await of.end(machine);
  expect(ledger.alive()).toEqual([]);
  for (const name of names) expect(ledger.all().filter((line) => line.name === name)).toHaveLength(1);
  expect(ledger.all().find(({ name }) => name === `stranger-${fault}`)?.endedAtMs).toBeNull();
}
