// A short outage: svc repeats a read within the same call, and repeats no other call.

import { afterEach, beforeEach, expect, it } from "vitest";
import { MarketProvider } from "../../src/providers/market/provider.ts";
import { KEY, machineRow, NAME, offerRow, order, page, spec, Stub, type Reply } from "./market-stub.ts";

const LIST = "GET /api/v1/instances/";
const GET = "GET /api/v0/instances/9001/";
const USER = "GET /api/v0/users/current/";
const DESTROY = "DELETE /api/v0/instances/9001/";
const CREATE = "PUT /api/v0/asks/501/";
const handle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 } as const;
const { signal } = new AbortController();

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

/** The first answers are `faults`, then comes the right one. */
const after = (faults: Reply[], right: Reply) => {
  const left = [...faults];
  return (): Reply => left.shift() ?? right;
};

it.each<[string, Reply]>([
  ["a 502", { status: 502, html: "<html>" }],
  ["no answer", "cut"],
  ["half an answer", "torn"],
  ["a page", { html: "<html>" }],
  ["nothing", { text: "" }],
])("%s, twice, does not prevent the proof", async (_what, fault) => {
  stub.routes[LIST] = after([fault, fault], page([]));
  stub.routes[GET] = after([fault, fault], { json: { instances: null } });
  stub.routes[USER] = after([fault, fault], { json: { id: 5 } });
  const provider = stub.provider();
  expect(await provider.inspect(handle, signal)).toEqual({ phase: "gone" });
  expect(await provider.accountId(signal)).toMatch(/^5 key:[0-9a-f]{12}$/);
  stub.routes["POST /api/v0/bundles/"] = after([fault, fault], { json: { offers: [offerRow()] } });
  expect(await provider.listOffers(spec(), signal)).toHaveLength(1);
});

it("is reported after three times", async () => {
  stub.routes[LIST] = () => "cut";
  await expect(stub.provider().inspect(handle, signal)).rejects.toMatchObject({ code: "provider_unreachable" });
  expect(stub.count(LIST)).toBe(3);
});

it("is reported at once if it lasted longer than a moment", async () => {
  stub.routes[LIST] = () => {
    stub.clock.ms += 30_000;
    return "cut";
  };
  await expect(stub.provider().inspect(handle, signal)).rejects.toMatchObject({ code: "provider_unreachable" });
  expect(stub.count(LIST)).toBe(1);
});

it("during an order or a termination is left to the caller", async () => {
  stub.routes[LIST] = () => page([machineRow()]);
  stub.routes[CREATE] = () => "cut";
  stub.routes[DESTROY] = () => "cut";
  const provider = stub.provider();
  await expect(provider.create({ id: "501", priceMicro: 1 }, order())).rejects.toMatchObject({
    code: "outcome_unknown",
  });
  await expect(provider.terminate(handle, signal)).rejects.toMatchObject({ code: "provider_unreachable" });
  expect([stub.count(CREATE), stub.count(DESTROY)]).toEqual([1, 1]);
});

it("A termination waits seconds, whatever delay is requested, and holds up no other", async () => {
  const OTHER = "DELETE /api/v0/instances/9002/";
  const ended = { json: { success: true } };
  const at = (line: string) =>
    stub.calls.filter(({ method, path }) => `${method} ${path}` === line).map((call) => call.at);
  stub.routes[DESTROY] = after(
    [{ status: 429, json: { detail: "slow" }, headers: { "retry-after": "999999" } }],
    ended,
  );
  stub.routes[OTHER] = () => ended;
  const began = stub.clock.ms;
  const paused: number[] = [];
  let other: Promise<void> | undefined;
  const provider = new MarketProvider({
    credential: () => ({ secret: KEY, settings: {} }),
    baseUrl: stub.url,
    publicKey: () => Promise.resolve(""),
    access: () => expect.fail("no machine is reached here"),
    now: stub.clock.now,
    pause: (ms) => {
      paused.push(ms);
      // While the first one waits, another machine is to end.
      if (paused.length === 1) other = provider.terminate({ ...handle, id: "9002" }, signal);
      return stub.clock.pause(ms);
    },
  });
  await provider.terminate(handle, signal);
  await other;
  expect(paused[0]).toBe(12_000);
  expect([at(DESTROY).length, at(OTHER).length]).toEqual([2, 1]);
  expect(stub.clock.ms - began).toBeLessThanOrEqual(20_000);
});
