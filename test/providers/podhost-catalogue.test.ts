// podhost: a catalogue of 10,000 kinds of GPUs, in pages; many of its prices are not numbers.

import { describe, expect, test } from "vitest";
import { affordable } from "../../src/steps/provision.ts";
import { never, orderOf, podhostStub, type Answer, type Stub } from "./podhost-stub.ts";

const KINDS = 10_000;
const PAGE = 100;
const WANTED = "NVIDIA GeForce RTX 4090";
/** Malformed prices. `NaN` and `Infinity` are not valid JSON, but occur. */
const ODD = ["NaN", "-Infinity", "-1", '"0.44"', '"free"', "null", "{}", "[0.1]", "true", "1e999"];

const row = (id: string, price: string): string =>
  `{"id":${JSON.stringify(id)},"displayName":${JSON.stringify(id)},"memory":24,"secure":true,"community":true,` +
  `"maxCount":8,"availability":"HIGH","price":{"secure":${price},"community":${price}}}`;
/** @param price of the requested GPU, which is on the last page */
function catalogue(price: string, kinds: number): string[] {
  const rows = Array.from({ length: kinds - 1 }, (_, n) => row(`NVIDIA Test ${n}`, ODD[n % ODD.length] ?? "0.5"));
  return [...rows, row(WANTED, price)];
}
const pages =
  (rows: readonly string[]) =>
  (query: URLSearchParams): Answer => {
    const from = Number(query.get("cursor") ?? 0);
    const hasNextPage = from + PAGE < rows.length;
    const pagination = JSON.stringify({ nextCursor: hasNextPage ? String(from + PAGE) : null, hasNextPage });
    return { raw: `{"gpus":[${rows.slice(from, from + PAGE).join(",")}],"pagination":${pagination}}` };
  };
function withPrice(price: string, kinds = 3 * PAGE): Promise<Stub> {
  const page = pages(catalogue(price, kinds));
  return podhostStub(
    ({ path, query }) => (path === "/v2/catalog/gpus" ? page(query) : { status: 404, json: { title: "no" } }),
    { api: "rest" },
  );
}
const spec = orderOf({ gpus: "RTX4090" }).spec;

describe("A catalogue in pages of 100, most of whose prices are malformed,", () => {
  test("with 10,000 entries is read to its last page, which has the wanted GPU, in a bounded number of calls", async () => {
    const stub = await withPrice("0.69", KINDS);
    const offers = await stub.provider.listOffers(spec, never);
    expect(offers.map(({ priceMicro }) => priceMicro)).toEqual([690_000]);
    // svc reads its names once and its prices once.
    expect(stub.asked.length).toBeLessThanOrEqual((2 * KINDS) / PAGE);
  });

  test.each(ODD)("offers nothing for a price of %s, and says why", async (price) => {
    const stub = await withPrice(price);
    const offers = await stub.provider.listOffers(spec, never);
    expect(offers).toEqual([]);
    expect(() => affordable(stub.provider, spec, offers)).toThrow(
      /RTX 4090 has no price that is a number of 0 or more/,
    );
  });

  test("offers a free machine as free", async () => {
    const stub = await withPrice("0");
    expect((await stub.provider.listOffers(spec, never)).map(({ priceMicro }) => priceMicro)).toEqual([0]);
  });
});
