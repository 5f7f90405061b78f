// A home whose store is lost while a rented machine costs money: svc remains the same installation, so that the machine is found and ended.
// @module-tag needs/sshd

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makeLedger } from "../sim/providers/ledger.ts";
import { gpusOnOffer } from "../sim/providers/start.ts";
import { Place, until } from "./harness.ts";
import { idleMachines, svcBeside } from "./idle-machines.ts";

let place: Place;
let ledger: ReturnType<typeof makeLedger>;
let machines: Awaited<ReturnType<typeof idleMachines>>;
beforeEach(async () => {
  place = Place.own("its store is lost");
  ledger = makeLedger();
  machines = await idleMachines(place, ledger);
  place.file("train.py", "print('never runs')\n");
});
afterEach(async () => {
  await place.close();
  await machines.close();
});

const installation = (): string =>
  (JSON.parse(readFileSync(join(place.home, "installation.json"), "utf8")) as { installation_id: string })
    .installation_id;

/** A young home, whose control plane was killed, and which has lost these files. The machine's name. */
async function lost(...files: string[]): Promise<string> {
  const served = await place.serve();
  const spec = { provider: "podhost", gpus: gpusOnOffer("podhost"), entrypoint: "train.py", install: "none" };
  const id = await served.submit({ ...spec, price_cap: 20, terminate_on_exit: false });
  await until(async () => (await served.job(id)).status === "awaiting_ssh", "the machine is rented");
  const { machines } = await served.job(id);
  await served.kill();
  for (const name of files) rmSync(join(place.home, name));
  return machines[0]?.name ?? "";
}

it("a young home without its write-ahead log still has its tables and its installation, and its machine is ended", async () => {
  const name = await lost("svc.db-wal", "svc.db-shm");
  const before = installation();
  const looked = await svcBeside(place, "reconcile", "--dry-run");
  expect(looked.code, looked.err).toBe(0);
  expect(looked.out).toContain(name);
  expect(ledger.alive()).toHaveLength(1);
  await place.serve();
  await until(() => ledger.alive().length === 0, "the machine is ended");
  expect(installation()).toBe(before);
});

it("a home without its store and without a copy gets a new store for the same installation, and only on request", async () => {
  const name = await lost("svc.db", "svc.db-wal", "svc.db-shm");
  const before = installation();
  expect(readdirSync(join(place.home, "backups"))).toEqual([]);
  const refused = await svcBeside(place, "reconcile");
  expect(refused.code).toBe(1);
  expect(refused.err).toContain("svc reconcile --new-store --dry-run");
  expect(existsSync(join(place.home, "svc.db"))).toBe(false);
  const looked = await svcBeside(place, "reconcile", "--new-store", "--dry-run");
  expect(looked.code, looked.err).toBe(0);
  expect(looked.out).toMatch(new RegExp(`would be terminated.*${name}`));
  expect(ledger.alive()).toHaveLength(1);
  const ended = await svcBeside(place, "reconcile");
  expect(ended.code, ended.err).toBe(0);
  expect(ended.out).toContain(name);
  expect(ledger.alive()).toEqual([]);
  expect(installation()).toBe(before);
});

it("a new store without a provider's key says that it could not ask there, and finds the machine once the key is back", async () => {
  const name = await lost("svc.db", "svc.db-wal", "svc.db-shm");
  const file = join(place.home, "credentials.json");
  const credentials = readFileSync(file);
  const { env } = place;
  rmSync(file);
  for (const variable of Object.keys(env)) if (env[variable]?.startsWith("sim-")) Reflect.deleteProperty(env, variable);
  const looked = await svcBeside(place, "reconcile", "--new-store", "--dry-run");
  expect(looked.err).toMatch(/no key for .*podhost.*may still cost money/);
  expect(looked.out).not.toContain(name);
  writeFileSync(file, credentials, { mode: 0o600 });
  const ended = await svcBeside(place, "reconcile");
  expect(ended.out, ended.err).toContain(name);
  expect(ledger.alive()).toEqual([]);
});
