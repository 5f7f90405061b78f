// Ids that are numbers too large for a double, or no ids at all.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { machineRow, NAME, offerRow, order, page, PREFIX, refusal, spec, Stub, type Reply } from "./market-stub.ts";

const signal = new AbortController().signal;
const LIST = "GET /api/v1/instances/";
const ID = "92233720368547758071";
/** A reply in which the text `#ID` becomes the number. */
const withNumber = (json: unknown): Reply => ({ text: JSON.stringify(json).replaceAll('"#ID"', ID) });
const listed = (...rows: unknown[]): Reply => {
  const reply = page(rows);
  return withNumber(typeof reply === "object" ? reply.json : null);
};

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

describe("an id beyond 2^53", () => {
  test("is ordered, polled and ended by all of its digits", async () => {
    let exists = false;
    stub.routes["POST /api/v0/bundles/"] = () => ({ json: { offers: [offerRow()] } });
    stub.routes["GET /api/v0/gpu_names/unique/"] = () => ({ json: { success: true, gpu_names: ["RTX 4090"] } });
    stub.routes["PUT /api/v0/asks/501/"] = () => {
      exists = true;
      return withNumber({ success: true, new_contract: "#ID" });
    };
    stub.routes[LIST] = () => (exists ? listed(machineRow({ id: "#ID" })) : listed());
    stub.routes[`GET /api/v0/instances/${ID}/`] = () =>
      withNumber({ instances: exists ? machineRow({ id: "#ID" }) : null });
    stub.routes[`POST /api/v0/instances/${ID}/ssh/`] = () => ({ json: { success: true } });
    stub.routes[`DELETE /api/v0/instances/${ID}/`] = () => {
      exists = false;
      return { json: { success: true } };
    };
    const provider = stub.provider();
    const [offer] = await provider.listOffers(spec(), signal);
    const handle = await provider.create(offer!, order());
    expect(handle.id).toBe(ID);
    expect((await provider.inspect(handle, signal)).phase).toBe("ready");
    expect((await provider.listOwned(PREFIX, signal)).map(({ id }) => id)).toEqual([ID]);
    await provider.terminate(handle, signal);
    expect(exists).toBe(false);
    expect(await provider.inspect(handle, signal)).toEqual({ phase: "gone" });
  });

  test("A machine of another program with such an id hides none of ours", async () => {
    stub.routes[LIST] = () => listed(machineRow({ id: "#ID", label: "theirs" }), machineRow());
    const owned = await stub.provider().listOwned(PREFIX, signal);
    expect(owned.map(({ name }) => name)).toEqual([NAME]);
  });
});

test.each([null, true, 1.5, {}, ""])(
  "a row with %j as its id leaves the others readable, and proves no end",
  async (id) => {
    let rows = [machineRow({ id, label: "theirs" }), machineRow()];
    stub.routes[LIST] = () => page(rows);
    stub.routes["GET /api/v0/instances/9001/"] = () => refusal(500, "server_error");
    const provider = stub.provider();
    const handle = { v: 1 as const, provider: "market" as const, id: "9001", name: NAME, address: null, priceMicro: 1 };
    expect((await provider.inspect(handle, signal)).phase).toBe("ready");
    rows = rows.slice(0, 1);
    stub.clock.ms += 60_000;
    await expect(provider.inspect(handle, signal)).rejects.toThrow();
    await expect(provider.listOwned(PREFIX, signal)).rejects.toThrow(/id cannot be read/);
  },
);
