// The price cap of a run: which offers it refuses, what it records of them, and that it holds for the machine's real price.

import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import type { OffersSeen } from "../../src/domain/refusal.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import { removeHomes } from "../engine/harness.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const provision = () => rent.run(provisionStep);

describe("the price cap", () => {
  it.each([
    ["at the cap", 1_500_000, true],
    ["a millionth above it", 1_500_001, false],
    ["free", 0, true],
  ])("compares %s", async (_, priceMicro, within) => {
    rent.want({ price_cap: 1.5 });
    rent.cloud.offers = [{ id: "o", priceMicro }];
    rent.cloud.priceMicro = priceMicro;
    if (within) expect(await provision()).toMatchObject({ done: {} });
    else
      await expect(provision()).rejects.toMatchObject({
        code: "price_cap_exceeded",
        message: "The cheapest offer costs $1.500001/h; the cap is $1.50/h. This request rented nothing.",
      });
    expect(rent.creates()).toHaveLength(within ? 1 : 0);
  });

  it("records the cheapest offers that it refused, with their number", async () => {
    rent.want({ price_cap: 1 });
    const price = (i: number) => 2_000_000 + ((i * 7) % 10) * 1_000_000;
    rent.cloud.offers = Array.from({ length: 10 }, (_, i) => ({
      id: `o${i}`,
      priceMicro: price(i),
      facts: { gpu: "A" },
    }));
    await expect(provision()).rejects.toMatchObject({ code: "price_cap_exceeded" });
    expect(rent.progress).toMatchObject({ offers_total: 10 });
    const seen = rent.progress["offers_seen"] as OffersSeen["offers_seen"];
    expect(seen.map((offer) => offer.price_per_hour_usd)).toEqual([2, 3, 4, 5, 6, 7]);
    expect(seen[1]).toEqual({ id: "o3", facts: { gpu: "A" }, price_per_hour_usd: 3 });
  });

  it.each([Number.NaN, undefined, null, Infinity, -1, "1" as unknown as number])(
    "is never met by the price %s",
    async (price) => {
      rent.want({ price_cap: 1000 });
      rent.cloud.offers = [{ id: "o", priceMicro: price as number }];
      await expect(provision()).rejects.toMatchObject({ code: "no_offer" });
      expect(rent.creates()).toEqual([]);
    },
  );

  it("does not hinder a provider that reports no prices", async () => {
    rent.want({ price_cap: 1 });
    Object.assign(rent.cloud.info, { capabilities: { ...rent.cloud.info.capabilities, reports_price: false } });
    rent.cloud.offers = [{ id: "o", priceMicro: null }];
    rent.cloud.priceMicro = null;
    expect(await provision()).toMatchObject({ done: {}, detail: { machine: rent.name(1) } });
  });

  it.each([9_000_000, Number.NaN])(
    "holds for what the machine turns out to cost, too, and then the machine is on record: %s",
    async (price) => {
      rent.want({ price_cap: 1 });
      rent.cloud.priceMicro = price;
      await expect(provision()).rejects.toMatchObject({
        code: "price_cap_exceeded",
        message: expect.stringMatching(/the cap is \$1\.00\/h\. svc releases it\.$/),
      });
      expect(rent.states()).toEqual(["1 held"]);
    },
  );

  it("holds for a machine that is found again", async () => {
    rent.want({ price_cap: 1 });
    rent.cloud.priceMicro = 9_000_000;
    rent.loseAnswers();
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    await expect(provision()).rejects.toMatchObject({ code: "price_cap_exceeded" });
    await expect(provision()).rejects.toMatchObject({ code: "price_cap_exceeded" });
    expect(rent.states()).toEqual(["1 held"]);
  });
});
