// The list of machines has pages, with foreign machines first: these tests hold for a machine on the last page,
// whatever happened to its order.

import { expect } from "vitest";
import type { MachineHandle, Provider } from "../../src/providers/provider.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually } from "../sim/harness-parts.ts";
import type { FaultName } from "../sim/providers/parts.ts";
import type { Simulated } from "./world.ts";

export const PAGED_FAULTS: readonly (FaultName | "none")[] = [
  "none",
  "lost_after_create",
  "error_after_create",
  "error_before_create",
  "slow_create",
  "listing_lag",
  "html_200",
  "cut_json",
  "delete_lost",
  "delete_ignored",
];

export async function onTheLastPage(of: {
  simulated: Simulated;
  provider: Provider;
  prefix: string;
  machine: string;
  fault: FaultName | "none";
  /** Orders the machine; returns the code of the error, or null. */
  create: () => Promise<string | null>;
  end: (handle: MachineHandle) => Promise<unknown>;
}): Promise<void> {
  const { simulated, provider, prefix, machine, fault } = of;
  const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
  const isAlive = (): boolean => simulated.parts.ledger.alive().some(({ name }) => name === machine);
  const strangers = Array.from({ length: 7 }, (_, i) => `stranger-${i}-of-${machine.slice(prefix.length)}`);
  for (const stranger of strangers) simulated.addForeign?.(stranger);
  simulated.pages(3);
  if (fault !== "none") simulated.parts.faults.set(fault, fault === "listing_lag" ? 2_000 : undefined);
  const code = await of.create();
  for (let look = 0; look < 4; look += 1) {
    const made = isAlive();
    const owned = await provider.listOwned(prefix, soon()).catch(() => null);
    if (made && fault !== "listing_lag" && owned !== null) expect(owned.map((one) => one.name)).toEqual([machine]);
  }
  if (fault === "slow_create") await eventually(() => Promise.resolve(isAlive()));
  if (code !== null && !isAlive()) return;
  const found = await eventually(async () => (await provider.listOwned(prefix, soon()).catch(() => []))[0]);
  expect(found.name).toBe(machine);
  expect((await provider.inspect(found, soon())).phase).not.toBe("gone");
  await of.end(found);
  expect(isAlive()).toBe(false);
  const theirs = simulated.parts.ledger.all().filter((line) => strangers.includes(line.name));
  expect(theirs.filter((line) => line.endedAtMs !== null)).toEqual([]);
}
