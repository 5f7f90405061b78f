// A machine ended, and then its key was exchanged at a provider that tells no account: how its order closes.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { installationPrefix, nodePrefix } from "../../src/domain/machine-names.ts";
import { confirmGone } from "../../src/engine/confirm-gone.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { sweep, type ReconcileParts } from "../../src/engine/reconcile.ts";
import { inPart } from "../../src/providers/provider.ts";
import { Harness, INSTALLATION, removeHomes, START } from "./harness.ts";
import { down, SmallCloud } from "./small-cloud.ts";

const OLD = "key:111111111111";
const NEW = "key:222222222222";
const ORPHAN = `${installationPrefix(INSTALLATION)}job9-n0-1`;
const MINE = `${nodePrefix(INSTALLATION, "job1", 0)}1`;
let h: Harness;
let cloud: SmallCloud;
let ledger: DurableLedger;
let account: string;
let parts: ReconcileParts;
beforeEach(async () => {
  h = await Harness.open();
  cloud = new SmallCloud();
  ledger = new DurableLedger(h.engine);
  account = OLD;
  Object.assign(cloud, { accountId: () => Promise.resolve(account) });
  parts = { engine: h.engine, ledger, providers: new Map([["podhost", cloud]]), connected: () => true };
});
afterEach(() => h.end());
afterAll(removeHomes);

/** An orphan that was seen under the old key and ended by itself, before the new key was set. */
async function endedBefore(): Promise<void> {
  await ledger.adopt(cloud.add(ORPHAN), { kind: "orphan", message: "No run owns it." });
  await ledger.account(ORPHAN, OLD);
  cloud.machines = [];
  account = NEW;
}

async function swept() {
  const report = sweep(parts, { dryRun: false });
  await h.clock.advance(60_000);
  return report;
}
const gone = (dryRun = false) => confirmGone(parts, ORPHAN, { dryRun });
const refused = (why: string) => ({ code: "machine_not_closable", message: expect.stringContaining(why) as string });
const isOpen = () => ledger.owed().some(({ name }) => name === ORPHAN);

test("no sweep closes its order, whose error names the two ways out; the earlier key closes it", async () => {
  await endedBefore();
  const [failed] = (await swept()).failed;
  expect(failed?.error.code).toBe("account_unproven");
  expect(failed?.error.hint).toMatch(/Set the earlier key again.*svc reconcile --gone svc-/);
  expect(isOpen()).toBe(true);
  account = OLD;
  expect((await swept()).terminated).toMatchObject([{ name: ORPHAN }]);
  expect(isOpen()).toBe(false);
});

test("another machine of the old key that the new key lists proves that both open one account", async () => {
  await endedBefore();
  await h.create("job1", { spec: { provider: "podhost" } });
  const order = { name: MINE, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START };
  await ledger.intend({ ...order, account: OLD });
  await ledger.held(MINE, cloud.add(MINE));
  expect((await swept()).terminated).toMatchObject([{ name: ORPHAN }]);
  expect([isOpen(), cloud.names, ledger.row(MINE)?.account]).toEqual([false, [MINE], NEW]);
});

test("a machine of a third key that the new key lists proves nothing about the old one", async () => {
  await endedBefore();
  await h.create("job1", { spec: { provider: "podhost" } });
  const order = { name: MINE, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START };
  await ledger.intend({ ...order, account: "key:333333333333" });
  await ledger.held(MINE, cloud.add(MINE));
  await swept();
  expect([isOpen(), ledger.row(MINE)?.account]).toEqual([true, NEW]);
});

test("the user's word closes it after another release, and is the proof; a repeated word changes nothing", async () => {
  await endedBefore();
  await gone(true);
  expect([isOpen(), cloud.calls.includes("terminate pod-1")]).toEqual([true, false]);
  await gone();
  const row = ledger.row(ORPHAN);
  expect([row?.state, cloud.calls.includes("terminate pod-1")]).toEqual(["released", true]);
  expect(row?.proof).toBe(
    `confirmed by the user; podhost does not show it under another key (${NEW}) than the one of its order (${OLD})`,
  );
  await gone();
  expect(ledger.row(ORPHAN)).toEqual(row);
});

test("a machine that appears after the user's word is released", async () => {
  await endedBefore();
  await gone();
  cloud.add(ORPHAN, "pod-1");
  expect((await swept()).terminated).toMatchObject([{ name: ORPHAN }]);
  expect(cloud.names).toEqual([]);
});

test.each<[string, () => void, object]>([
  [
    "the provider still lists it",
    () => {
      cloud.lies = true;
      cloud.add(ORPHAN, "pod-1");
    },
    refused("still lists it"),
  ],
  ["the provider lists another machine of its name", () => void cloud.add(ORPHAN, "pod-2"), refused("still lists it")],
  [
    "the provider does not say that it is gone",
    () => (cloud.inspect = () => Promise.resolve({ phase: "starting", why: "it boots" })),
    refused("does not say that it is gone"),
  ],
  [
    "only a part of the provider answers",
    () =>
      (cloud.before = (call) => {
        if (call === "list") throw inPart(down(), [], "named");
      }),
    { code: "provider_error" },
  ],
  [
    "the order has an account that no key can be compared with",
    () => (account = "me"),
    refused("podhost answers for it itself"),
  ],
  ["the key is the one of the order", () => (account = OLD), refused("podhost answers for it itself")],
])("the user's word is refused while %s", async (_when, act, error) => {
  await endedBefore();
  act();
  await expect(gone()).rejects.toMatchObject(error);
  expect(isOpen()).toBe(true);
});

test("the user's word is refused if the provider names the accounts and they differ", async () => {
  await endedBefore();
  await ledger.account(ORPHAN, `me ${OLD}`);
  account = `you ${NEW}`;
  await expect(gone()).rejects.toMatchObject(refused("set the key of that account"));
});

test("the user's word is refused while a run uses the machine, and accepted while the run ends", async () => {
  await h.create("job1", { spec: { provider: "podhost" } });
  const order = { name: MINE, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START };
  await ledger.intend({ ...order, account: OLD });
  await ledger.held(MINE, cloud.add(MINE));
  cloud.machines = [];
  account = NEW;
  const word = () => confirmGone(parts, MINE, { dryRun: false });
  await expect(word()).rejects.toMatchObject(refused("the run job1 uses it"));
  await h.kill();
  await word();
  expect(ledger.owed()).toEqual([]);
});

test("the user's word about an order without an answer is refused while it may take effect; its cost stays possible", async () => {
  const order = { name: ORPHAN, jobId: "job9", node: 0, ordinal: 1, provider: "podhost" };
  await ledger.intend({ ...order, horizonAt: START + 60_000, account: OLD });
  account = NEW;
  await expect(gone()).rejects.toMatchObject(refused("may still take effect"));
  await h.clock.advance(80_000);
  await gone();
  expect(ledger.row(ORPHAN)).toMatchObject({ state: "released", doubt_at: START + 80_000 });
});

test("an unknown machine is named as such", async () => {
  await expect(gone()).rejects.toMatchObject({ code: "machine_not_found" });
});
