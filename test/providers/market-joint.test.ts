// Searches of several candidates at the marketplace, which allows one search in six seconds.

import { setTimeout as wait } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { joinedBody } from "../../src/providers/market/joint-search.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { offerRow, spec, Stub } from "./market-stub.ts";

const signal = new AbortController().signal;
const SEARCH = "POST /api/v0/bundles/";

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
  // Real time within one search, so that the others can join it; the marketplace's intervals take none.
  Object.assign(stub.clock, {
    pause: async (ms: number) => {
      stub.clock.ms += ms;
      await wait(Math.min(ms, 100));
    },
  });
});
afterEach(() => stub.close());

const bodies = () => stub.calls.filter(({ path }) => path.includes("/bundles/")).map(({ body }) => body);
const RTX = offerRow({ id: 1, ask_contract_id: 1 });
const A100 = offerRow({ id: 2, ask_contract_id: 2, gpu_name: "A100 SXM4", gpu_ram: 81_920, dph_total: 0.9 });
const PAIR = offerRow({ id: 3, ask_contract_id: 3, num_gpus: 2, dph_total: 0.8 });

describe("searches of one plan", () => {
  test("share one request, and each gets its own offers", async () => {
    stub.routes[SEARCH] = () => ({ json: { offers: [RTX, PAIR, A100] } });
    const provider = stub.provider();
    const asked = [{}, { gpus: "A100-80GB:1", price_cap: 2 }, { gpus: "RTX4090:2", spot: "prefer" }];
    const found = await Promise.all(asked.map((input) => provider.listOffers(spec(input), signal, "look")));
    expect(found.map((offers) => offers.map(({ id }) => id))).toEqual([["1"], ["2"], ["3"]]);
    expect(bodies()).toHaveLength(1);
    expect(bodies()[0]).toMatchObject({ num_gpus: { in: [1, 2] } });
    expect(bodies()[0]).not.toHaveProperty("dph_total");
  });

  test("send a second request for a candidate that a full answer left out", async () => {
    const crowd = Array.from({ length: 64 }, (_, n) => offerRow({ id: 100 + n, ask_contract_id: 100 + n }));
    stub.routes[SEARCH] = ({ body }) => ({ json: { offers: "gte" in Object(body["dph_total"]) ? [A100] : crowd } });
    const provider = stub.provider();
    const asked = [{}, { gpus: "A100-80GB:1" }];
    const [rtx, a100] = await Promise.all(asked.map((input) => provider.listOffers(spec(input), signal, "look")));
    expect(rtx).toHaveLength(64);
    expect(a100?.map(({ id }) => id)).toEqual(["2"]);
    expect(bodies()).toHaveLength(2);
  });

  test("do not wait for that second request in a plan, and tell above which price offers may exist", async () => {
    const crowd = Array.from({ length: 64 }, (_, n) =>
      offerRow({ id: 100 + n, ask_contract_id: 100 + n, dph_total: 0.2 + n / 1_000 }),
    );
    stub.routes[SEARCH] = ({ body }) => ({ json: { offers: "gte" in Object(body["dph_total"]) ? [A100] : crowd } });
    const second = Promise.withResolvers<void>();
    const pause = stub.clock.pause;
    Object.assign(stub.clock, {
      pause: async (ms: number) => {
        if (ms > 1_000) await second.promise;
        await pause(ms);
      },
    });
    const provider = stub.provider();
    const glance = (input: object) => provider.listOffers(spec(input), signal, "glance");
    const [rtx, a100] = await Promise.allSettled([glance({}), glance({ gpus: "A100-80GB:1" })]);
    expect(rtx).toMatchObject({ status: "fulfilled", value: { length: 64 } });
    expect(a100).toMatchObject({ reason: { code: "offers_unknown", data: { gpus: "A100-80GB:1", from: 0.263 } } });
    expect(bodies()).toHaveLength(1);
    second.resolve();
    await expect.poll(bodies, { timeout: DEADLINE_MS }).toHaveLength(2);
    // The next plan has both from what was found, and says how old that is.
    const [again, known] = await Promise.all([glance({}), glance({ gpus: "A100-80GB:1" })]);
    expect(again[0]?.agoMs).toBeGreaterThan(1_000);
    expect(known.map(({ id }) => id)).toEqual(["2"]);
    expect(bodies()).toHaveLength(2);
  });

  test("are sent one after the other if they differ in the disk: the disk is in the price", async () => {
    stub.routes[SEARCH] = () => ({ json: { offers: [RTX, A100] } });
    const provider = stub.provider();
    const asked = [{}, { gpus: "A100-80GB:1", disk_gb: 200 }];
    await Promise.all(asked.map((input) => provider.listOffers(spec(input), signal, "look")));
    expect(bodies().map((body) => body["allocated_storage"])).toEqual([50, 200]);
  });

  test("fail together, and the next one asks again", async () => {
    stub.routes[SEARCH] = () => ({ status: 500, text: "boom" });
    const provider = stub.provider();
    const asked = [{}, { gpus: "A100-80GB:1" }].map((input) => provider.listOffers(spec(input), signal, "look"));
    expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    stub.routes[SEARCH] = () => ({ json: { offers: [RTX] } });
    expect(await provider.listOffers(spec(), signal, "look")).toHaveLength(1);
  });
});

describe("the request body for two searches", () => {
  test("has the looser of two conditions, and no condition that only one has", () => {
    const one = { type: "on-demand", gpu_name: { in: ["A"] }, num_gpus: { eq: 1 }, duration: { gte: 5 } };
    const other = { type: "on-demand", gpu_name: { in: ["A", "B"] }, num_gpus: { eq: 2 }, duration: { gte: 3 } };
    const joined = { type: "on-demand", gpu_name: { in: ["A", "B"] }, num_gpus: { in: [1, 2] }, duration: { gte: 3 } };
    expect(joinedBody(one, other)).toEqual(joined);
    expect(joinedBody(one, { ...other, dph_total: { lte: 2 } })).toEqual(joined);
  });

  test.each<[string, Record<string, unknown>]>([
    ["asks for a further page", { dph_total: { gte: 2 } }],
    ["has another order", { order: [["num_gpus", "desc"]] }],
    ["has another disk in its price", { allocated_storage: 9 }],
    ["has a condition that cannot be loosened", { duration: { neq: 4 } }],
  ])("does not exist if one %s", (_what, change) => {
    const body = { order: [["dph_total", "asc"]], allocated_storage: 8, duration: { gte: 5 } };
    expect(joinedBody(body, { ...body, ...change })).toBeNull();
  });
});
