// What a rented machine costs, as its provider reports it: before it is ready, in other forms, and in absurd amounts.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { page, machineRow, NAME, Stub } from "./market-stub.ts";
import { HANDLE, listing, never, pod, podhostStub } from "./podhost-stub.ts";

describe("podhost", () => {
  test.each<[string, Record<string, unknown>]>([
    ["is made", { desiredStatus: "CREATED" }],
    ["fetches its image", { runtime: null }],
    ["has no way in yet", { runtime: { ports: null } }],
  ])("its price is reported while it %s", async (_, change) => {
    const { provider } = await podhostStub(listing(pod({ ...change, costPerHr: 30 })));
    expect(await provider.inspect(HANDLE, never)).toMatchObject({ phase: "starting", priceMicro: 30_000_000 });
  });

  test.each<[string, Record<string, unknown>, number | null]>([
    ["text", { costPerHr: "7.50" }, 7_500_000],
    ["above every maximum", { costPerHr: 1e9 }, 1e12],
    ["0, and adjusted to 0", { costPerHr: 0, adjustedCostPerHr: 0 }, null],
    ["unreadable, and adjusted to 0", { costPerHr: "?", adjustedCostPerHr: 0 }, null],
    ["adjusted upwards", { costPerHr: 2, adjustedCostPerHr: 30 }, 30_000_000],
    ["adjusted downwards", { costPerHr: 2, adjustedCostPerHr: 1 }, 2_000_000],
  ])("a price that is %s", async (_, change, priceMicro) => {
    const { provider } = await podhostStub(listing(pod(change)));
    expect(await provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready", priceMicro });
    expect(await provider.listOwned("svc-abc-", never)).toMatchObject([{ priceMicro }]);
  });
});

describe("market", () => {
  const MACHINE = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 430_000 } as const;
  let stub: Stub;
  beforeEach(async () => {
    stub = await new Stub().start();
  });
  afterEach(() => stub.close());

  test.each<[string, unknown, number]>([
    ["in text", "0.43", 430_000],
    ["above every maximum", 2e6, 1e12],
    ["a number that JSON cannot hold", "@", 1e12],
  ])("a price that is %s counts", async (_what, dph_total, priceMicro) => {
    const text = JSON.stringify({ success: true, instances: [machineRow({ dph_total })], next_token: null });
    stub.routes["GET /api/v1/instances/"] = () => ({ text: text.replace('"@"', "1e999") });
    expect(await stub.provider().inspect(MACHINE, never)).toMatchObject({ phase: "ready", priceMicro });
  });

  test("the price of a host that may come back is reported", async () => {
    const changes = { actual_status: "offline", dph_total: 0.9 };
    const handle = { ...MACHINE, ssh: [{ host: "203.0.113.45", port: 1, user: "root" }] };
    stub.routes["GET /api/v1/instances/"] = () => page([machineRow(changes)]);
    expect(await stub.provider().inspect(handle, never)).toMatchObject({ phase: "starting", priceMicro: 900_000 });
  });
});
