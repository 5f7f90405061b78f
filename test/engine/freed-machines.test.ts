// A run that ends frees its machine: the run that has waited longest for one at that provider looks at once.

import { afterAll, expect, it } from "vitest";
import { FreedMachines } from "../../src/engine/freed-machines.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import type { ProviderName } from "../../src/schemas/spec.ts";
import { SEARCHING_RULES } from "./placement-rules.ts";
import { Harness, KILL, removeHomes, turn } from "./harness.ts";

afterAll(removeHomes);

const MINUTE_MS = 60_000;

interface World {
  h: Harness;
  ledger: DurableLedger;
  /** The jobs that have looked since the last call, in order. */
  looked(): string[];
}

async function world(): Promise<World> {
  const parts: { freed?: FreedMachines } = {};
  const h = await Harness.open({ engine: { publish: (events) => parts.freed?.heard(events) } });
  parts.freed = new FreedMachines(h.engine);
  let seen = 0;
  const looked = (): string[] => {
    const fresh = h.attempts.slice(seen).filter(({ step }) => step === "place");
    seen = h.attempts.length;
    return fresh.map(({ context }) => context.jobId);
  };
  return { h, ledger: new DurableLedger(h.engine), looked };
}

/** A run that has just looked, and looks again in ten minutes. */
async function waits({ h, looked }: World, id: string, provider: ProviderName): Promise<void> {
  await h.create(id, { rules: SEARCHING_RULES, spec: { provider, gpus: "A100", wait_for_capacity_minutes: 600 } });
  await h.attempt("place").later(10 * MINUTE_MS);
  looked();
}

/** A run that orders, and is killed. Its machine exists, or its order was refused. */
async function ends({ h, ledger }: World, id: string, provider: ProviderName, made: boolean): Promise<void> {
  await h.create(id, { spec: { provider, gpus: "A100" } });
  const name = `svc-${id}-n0-1`;
  await ledger.intend({ name, jobId: id, node: 0, ordinal: 1, provider, horizonAt: h.clock.now() });
  if (made) await ledger.held(name, { v: 1, provider, id: "m1", name, address: null, priceMicro: 1 });
  await h.kill(id);
  await ledger.released(name, made ? "it does not exist" : "refused");
  await h.attempt("terminate").done({ checkpoint: null });
  expect(h.row(id).state).toBe("terminal");
  await turn();
}

it("The oldest run that waits for that provider searches at once, and no other", async () => {
  const at = await world();
  await waits(at, "elsewhere", "market");
  await waits(at, "first", "podhost");
  await waits(at, "second", "podhost");
  await ends(at, "done1", "podhost", true);
  expect(at.looked()).toEqual(["first"]);
  // It looks already, so the machine of another run is for the next one.
  await ends(at, "done2", "podhost", true);
  expect(at.looked()).toEqual(["second"]);
});

it("A run whose order became no machine frees nothing", async () => {
  const at = await world();
  await waits(at, "first", "podhost");
  await ends(at, "done", "podhost", false);
  expect(at.looked()).toEqual([]);
});

it("An early search replaces the one that was due, and later searches do not multiply", async () => {
  const at = await world();
  await waits(at, "first", "podhost");
  await ends(at, "done", "podhost", true);
  expect(at.looked()).toEqual(["first"]);
  await at.h.attempt("place").later(12 * MINUTE_MS);
  await at.h.clock.advance(11 * MINUTE_MS);
  expect(at.looked()).toEqual([]);
  await at.h.clock.advance(MINUTE_MS);
  expect(at.looked()).toEqual(["first"]);
  expect(at.h.story("first")).toEqual(["place 1 running"]);
});

it("A run that is killed while it waits is not started by a machine that becomes free", async () => {
  const at = await world();
  await waits(at, "first", "podhost");
  await at.h.engine.send("first", KILL);
  await turn();
  expect(at.h.row("first").state).toBe("terminal");
  await ends(at, "done", "podhost", true);
  expect(at.looked()).toEqual([]);
  await at.h.clock.advance(11 * MINUTE_MS);
  expect(at.looked()).toEqual([]);
});
