// market: an incomplete listing.

import { afterEach, beforeEach, expect, it } from "vitest";
import { shownInPart } from "../../src/providers/provider.ts";
import { machineRow, NAME, offerRow, page, PREFIX, spec, Stub } from "./market-stub.ts";

const LIST = "GET /api/v1/instances/";
const GET = "GET /api/v0/instances/9001/";
const handle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 } as const;
const { signal } = new AbortController();

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

it("A full answer without a matching offer does not prove that there is none: more expensive offers are requested, four times at most", async () => {
  const bodies: Record<string, unknown>[] = [];
  const small = (from: number) =>
    Array.from({ length: 64 }, (_, i) => offerRow({ id: from + i, gpu_ram: 1_000, dph_total: (from + i) / 1_000 }));
  let last: unknown[] = [offerRow()];
  stub.routes["POST /api/v0/bundles/"] = ({ body }) => {
    bodies.push(body);
    return { json: { offers: bodies.length % 3 === 0 ? last : small(bodies.length * 100) } };
  };
  expect(await stub.provider().listOffers(spec(), signal)).toHaveLength(1);
  expect(bodies.map((body) => body["dph_total"])).toEqual([undefined, { gte: 0.163 }, { gte: 0.263 }]);
  bodies.length = 0;
  last = small(900);
  expect(await stub.provider().listOffers(spec(), signal)).toEqual([]);
  // Plus one request for all machines with that name.
  expect(bodies.length).toBeLessThanOrEqual(5);
});

it("An incomplete listing proves the existence of its rows; a missing machine is requested by its id", async () => {
  stub.routes[LIST] = () => page([machineRow()], null, 2);
  expect((await stub.provider().inspect(handle, signal)).phase).toBe("ready");
  stub.routes[LIST] = () => page([machineRow({ id: 1 })], null, 2);
  stub.routes[GET] = () => ({ json: { instances: machineRow() } });
  expect((await stub.provider().inspect(handle, signal)).phase).toBe("ready");
  const error = await stub
    .provider()
    .listOwned(PREFIX, signal)
    .catch((e: unknown) => e);
  expect(shownInPart(error)).toMatchObject({ gap: "anywhere", machines: [{ id: "1", name: NAME }] });
});

it("A null among the rows leaves the listing incomplete, and hides no other row", async () => {
  stub.routes[LIST] = () => page([null, machineRow(), "x"]);
  expect((await stub.provider().inspect(handle, signal)).phase).toBe("ready");
  const error = await stub
    .provider()
    .listOwned(PREFIX, signal)
    .catch((e: unknown) => e);
  expect(shownInPart(error)).toMatchObject({ gap: "anywhere", machines: [{ id: "9001", name: NAME }] });
});

it("The token of the next page may be a number", async () => {
  stub.routes[LIST] = ({ query }) => {
    const isSecond = query.get("after_token") === "7";
    const instances = [machineRow(isSecond ? {} : { id: 1, label: "theirs" })];
    return { json: { success: true, instances, total_instances: 2, next_token: isSecond ? null : 7 } };
  };
  expect(await stub.provider().listOwned(PREFIX, signal)).toMatchObject([{ id: "9001", name: NAME }]);
});
