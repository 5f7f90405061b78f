// Interruptible machines of the marketplace: the bid, and how svc detects a higher bid.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { whyNotOthers, type MachineHandle, type Offer } from "../../src/providers/provider.ts";
import { machineRow, NAME, offerRow, order, page, refusal, spec, Stub } from "./market-stub.ts";

const signal = new AbortController().signal;
const SEARCH = "POST /api/v0/bundles/";
const CREATE = "PUT /api/v0/asks/501/";
const HANDLE: MachineHandle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1 };

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

type Input = Parameters<typeof spec>[0];
const offersOf = (row: Record<string, unknown>, input: Input): Promise<Offer[]> => {
  stub.routes[SEARCH] = () => ({ json: { offers: [offerRow(row)] } });
  return stub.provider().listOffers(spec(input), signal);
};
const bidsOf = async (row: Record<string, unknown>, input: Input = {}) =>
  (await offersOf(row, { spot: "only", ...input })).map(({ extra }) => extra?.bid_usd);

describe("bidding", () => {
  test.each([
    [undefined, [false]],
    ["never", [false]],
    ["prefer", [true, false]],
    ["only", [true]],
  ])("spot %s lists the requested offers, cheapest first", async (spot, kinds) => {
    const offers = await offersOf({ min_bid: 0.2 }, { spot });
    expect(offers.map((offer) => offer.spot === true)).toEqual(kinds);
    expect(offers.every(({ host }) => host === "4411")).toBe(true);
    expect(stub.count(SEARCH)).toBe(1);
  });

  test("a bid is the minimum and a tenth more, and its price includes the disk", async () => {
    const [offer] = await offersOf({ min_bid: 0.2 }, { spot: "only" });
    expect(offer).toMatchObject({ id: "501", priceMicro: 240_000, extra: { bid_usd: "0.2200" } });
    expect(offer?.facts?.["terms"]).toContain("$0.42/h on demand");
  });

  test.each<[string, Record<string, unknown>, Input, (string | undefined)[]]>([
    ["stays at the price on demand", { min_bid: 0.39 }, {}, ["0.4000"]],
    ["stays within the cap, its disk included", { min_bid: 0.2 }, { price_cap: 0.23 }, ["0.2100"]],
    ["is not made where the least one passes the cap", { min_bid: 0.2 }, { price_cap: 0.21 }, []],
    ["is not made where the least one is the price on demand", { min_bid: 0.4 }, {}, []],
    ["is not made where no least one is told", {}, {}, []],
    ["is not made where the least one is no number", { min_bid: "0.2" }, {}, []],
    ["is a thousandth of a dollar at least", { min_bid: 0 }, {}, ["0.0010"]],
    ["is made where the price on demand passes the cap", { min_bid: 0.1 }, { price_cap: 0.3 }, ["0.1100"]],
  ])("a bid %s", async (_what, row, input, bids) => {
    expect(await bidsOf(row, input)).toEqual(bids);
    expect(stub.calls.at(-1)?.body["dph_total"]).toBeUndefined();
  });

  test("the reason for no offer counts machines that accept no bid below their price on demand", async () => {
    const offers = await offersOf({ min_bid: 0.5 }, { spot: "only" });
    expect(whyNotOthers(offers).join()).toContain("1 of its offers accept no bid below their price on demand");
  });
});

describe("renting by a bid", () => {
  const rent = async () => {
    const [offer] = await offersOf({ min_bid: 0.2 }, { spot: "only" });
    if (!offer) throw new Error("no bid was offered");
    return stub.provider().create(offer, order({ spot: "only" }));
  };

  test("sends the bid as the price of the machine, and never requests a queued one", async () => {
    stub.routes[CREATE] = () => ({ json: { success: true, new_contract: 9001 } });
    stub.routes["GET /api/v0/instances/9001/"] = () => ({ json: { instances: machineRow({ dph_total: 0.24 }) } });
    stub.routes["POST /api/v0/instances/9001/ssh/"] = () => ({ json: { success: true } });
    const handle = await rent();
    expect(handle).toMatchObject({ priceMicro: 240_000, extra: { spot: "yes", on_demand_micro: "420000" } });
    expect(stub.calls.find(({ method }) => method === "PUT")?.body).toMatchObject({
      price: 0.22,
      cancel_unavail: true,
    });
  });

  test.each([
    ["its code", refusal(400, "invalid_price", "price must be at least 0.3")],
    ["its words", refusal(400, "invalid_args", "your bid is too low")],
  ])("an offer whose minimum bid has risen meanwhile, as %s reports, counts as taken", async (_what, reply) => {
    stub.routes[CREATE] = () => reply;
    const error = await rent().catch((e: unknown) => e);
    expect(error instanceof SvcError && error.code).toBe("offer_taken");
  });
});

describe("a bid that was beaten", () => {
  const beaten = { is_bid: true, cur_state: "stopped", next_state: "stopped", intended_status: "stopped" };
  const look = async (changes: Record<string, unknown>, ssh: MachineHandle["ssh"] = []) => {
    stub.routes["GET /api/v1/instances/"] = () => page([machineRow(changes)]);
    return stub.provider().inspect({ ...HANDLE, ssh }, signal);
  };
  const worked = [{ host: "203.0.113.45", port: 41022, user: "root" }];

  test("ends a machine that worked as preempted, with the provider's message", async () => {
    const status = await look({ ...beaten, actual_status: "exited", status_msg: "outbid by another user" }, worked);
    expect(status).toMatchObject({ phase: "broken", preempted: true });
    expect(status.phase === "broken" && status.why).toContain("outbid by another user");
    expect(status).not.toHaveProperty("elsewhere");
  });

  test("ends the machine even if the provider would start it again by itself", async () => {
    const status = await look({ ...beaten, intended_status: "running", actual_status: "exited" }, worked);
    expect(status).toMatchObject({ phase: "broken", preempted: true });
  });

  test("before the machine was ready lets another machine take the order", async () => {
    expect(await look({ ...beaten, actual_status: null })).toMatchObject({ preempted: true, elsewhere: true });
  });

  test.each<[string, Record<string, unknown>]>([
    ["a machine on demand that was stopped", { ...beaten, is_bid: false }],
    ["the end date", { ...beaten, end_date: 1_700_000_000 }],
    ["a container that exited by itself", { is_bid: true, actual_status: "exited" }],
  ])("is not %s", async (_what, changes) => {
    const status = await look(changes, worked);
    expect(status.phase).toBe("broken");
    expect(status).not.toHaveProperty("preempted");
  });
});
