// market: a listing that is not complete.

import { afterEach, beforeEach, expect, it } from "vitest";
import { shownInPart } from "../../src/providers/provider.ts";
import { machineRow, NAME, page, PREFIX, Stub } from "./market-stub.ts";

const LIST = "GET /api/v1/instances/";
const GET = "GET /api/v0/instances/9001/";
const handle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 } as const;
const { signal } = new AbortController();

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

it("An incomplete listing proves what it shows; a machine that it lacks is asked for by its id", async () => {
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
