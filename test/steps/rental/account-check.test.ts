// The user enters the key of another account while svc holds a machine: the machine is missing there, and is not gone.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { lookAtMachine, type HeldMachine } from "../../../src/steps/rental/held-machine.ts";
import { provisionStep } from "../../../src/steps/provision.ts";
import { terminateStep } from "../../../src/steps/terminate.ts";
import type { StepContext } from "../../../src/steps/step.ts";
import { down } from "../../engine/small-cloud.ts";
import { removeHomes } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";

let rent: Rent;
let account: string;
/** Machines by account. */
let machines: Map<string, Rent["cloud"]["machines"]>;
beforeEach(async () => {
  rent = await Rent.open();
  machines = new Map();
  account = "ours";
  Object.assign(rent.cloud, { accountId: () => Promise.resolve(account) });
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

function useKeyOf(other: string): void {
  machines.set(account, rent.cloud.machines);
  account = other;
  rent.cloud.machines = machines.get(other) ?? [];
}
const refused = { code: "account_unproven", message: expect.stringContaining("another account (theirs)") as string };
const terminate = () => rent.run(terminateStep);

test("Another account's answer neither closes the row nor ends the run, which continues with the right key", async () => {
  await rent.run(provisionStep);
  const handle = rent.ledger.open("job1", 0)[0]?.handle ?? null;
  if (handle === null) throw new Error("nothing is held");
  useKeyOf("theirs");
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  const held = { provider: rent.cloud, handle } as unknown as HeldMachine;
  await expect(lookAtMachine(rent.ports, context, held)).rejects.toMatchObject(refused);
  for (let i = 0; i < 3; i++) await expect(terminate()).rejects.toMatchObject(refused);
  expect(rent.states()).toEqual(["1 releasing"]);
  expect(rent.ledger.row(rent.name(1))?.note).toMatch(/may still cost money.*another account/);
  useKeyOf("ours");
  expect(await terminate()).toMatchObject({ done: {} });
  expect([rent.states(), rent.cloud.machines]).toEqual([["1 released"], []]);
});

test("Another account's answer does not prove that a lost order made nothing, however often it is searched; no second order follows", async () => {
  rent.cloud.answering = () => {
    throw down();
  };
  await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "provider_error" });
  rent.cloud.answering = () => {};
  useKeyOf("theirs");
  for (let i = 0; i < 5; i++) {
    expect(await rent.run(provisionStep)).toMatchObject({ later: { why: refused.message } });
    await rent.h.clock.advance(10 * 60_000);
  }
  expect([rent.states(), rent.cloud.machines]).toEqual([["1 unknown"], []]);
  useKeyOf("ours");
  expect(await rent.run(provisionStep)).toMatchObject({ done: {} });
  expect(rent.states()).toEqual(["1 held"]);
});

test("An answer proves nothing, either, if the provider did not report the account when the machine was ordered", async () => {
  Object.assign(rent.cloud, { accountId: () => Promise.reject(down()) });
  await rent.run(provisionStep);
  const handle = rent.ledger.open("job1", 0)[0]?.handle ?? null;
  if (handle === null) throw new Error("nothing is held");
  expect(rent.ledger.row(rent.name(1))?.account).toBeNull();
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  const held = { provider: rent.cloud, handle } as unknown as HeldMachine;
  // A missing answer must not fail the poll.
  expect(await lookAtMachine(rent.ports, context, held)).toMatchObject({ phase: "ready" });
  Object.assign(rent.cloud, { accountId: () => Promise.resolve(account) });
  await lookAtMachine(rent.ports, context, held);
  expect(rent.ledger.row(rent.name(1))?.account).toBe("ours");
  useKeyOf("theirs");
  await expect(terminate()).rejects.toMatchObject(refused);
  expect(rent.states()).toEqual(["1 releasing"]);
});

test("a new key is not trusted after a poll of a machine that its account does not list", async () => {
  account = "key:111111111111";
  await rent.run(provisionStep);
  useKeyOf("key:222222222222");
  rent.cloud.inspect = () => Promise.resolve({ phase: "starting", why: "the provider does not list it yet" });
  await terminate();
  expect(rent.ledger.row(rent.name(1))).toMatchObject({ state: "releasing", account: "key:111111111111" });
});

test("an unknown account prevents no termination", async () => {
  account = "key:111111111111";
  await rent.run(provisionStep);
  Object.assign(rent.cloud, { accountId: () => Promise.reject(down()) });
  await expect(terminate()).rejects.toMatchObject({ code: "provider_error" });
  expect([rent.states(), rent.cloud.machines]).toEqual([["1 releasing"], []]);
});

test("a new key of the same account, known only by its fingerprint, is trusted once it shows the machine", async () => {
  account = "key:111111111111";
  await rent.run(provisionStep);
  account = "key:222222222222";
  expect(await terminate()).toMatchObject({ done: {} });
  expect(rent.states()).toEqual(["1 released"]);
});

const MINE = "me key:111111111111";
test.each([
  ["the API that names accounts is away, and the key is another", MINE, "key:222222222222"],
  ["the key is another of another account", MINE, "you key:222222222222"],
  ["the order was made while the API that names accounts was away", "key:111111111111", "you key:222222222222"],
])("an empty answer closes no row when %s", async (_when, before, after) => {
  account = before;
  await rent.run(provisionStep);
  useKeyOf(after);
  await expect(terminate()).rejects.toMatchObject({ code: "account_unproven" });
  expect(rent.states()).toEqual(["1 releasing"]);
  useKeyOf(before);
  expect(await terminate()).toMatchObject({ done: {} });
  expect([rent.states(), rent.cloud.machines]).toEqual([["1 released"], []]);
});

test.each([
  ["another key of the named account", MINE, "me key:222222222222"],
  ["the same key, while the API that names accounts is away", MINE, "key:111111111111"],
  ["the same key, once that API is back", "key:111111111111", MINE],
  ["an order of an older version, which has a name alone", "me", MINE],
  ["such an order, while that API is away", "me", "key:111111111111"],
  ["another key that lists the machine, while that API is away", MINE, "key:222222222222"],
])("a machine's end is proven by %s", async (_what, before, after) => {
  account = before;
  await rent.run(provisionStep);
  account = after;
  expect(await terminate()).toMatchObject({ done: {} });
  expect([rent.states(), rent.cloud.machines]).toEqual([["1 released"], []]);
});

test("The account is requested during the release of the machine; a later missing answer does not revoke a proof", async () => {
  await rent.run(provisionStep);
  let known: string | null = null;
  let gone = false;
  const accountId = () => {
    if (known !== null) return Promise.resolve(known);
    if (gone) return Promise.reject(down());
    known = account;
    return Promise.resolve(account);
  };
  Object.assign(rent.cloud, { accountId });
  rent.cloud.before = (call) => void (gone ||= call.startsWith("terminate"));
  expect(await terminate()).toMatchObject({ done: {} });
  expect(rent.states()).toEqual(["1 released"]);
});
