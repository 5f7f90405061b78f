import { execFileSync } from "node:child_process";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { mayHaveBeenSent } from "../../src/providers/http.ts";
import { madeInVain, NOTHING_MADE, type Offer } from "../../src/providers/provider.ts";
import { startScript, START_SCRIPT_MAX } from "../../src/providers/market/start-script.ts";
import { graceIn } from "./guard-text.ts";
import { KEY, machineRow, NAME, offerRow, order, PUBLIC_KEY, refusal, spec, Stub, type Reply } from "./market-stub.ts";

const signal = new AbortController().signal;
const OFFER: Offer = {
  id: "501",
  priceMicro: 420_000,
  facts: { gpu: "1 × RTX 4090", memory: "24 GB", place: "Montreal, CA", disk: "500 GB", reliability: "99.0 %" },
  host: "4411",
  extra: { disk_gb: "50", machine_id: "4411" },
};
const SEARCH = "POST /api/v0/bundles/";
const CREATE = "PUT /api/v0/asks/501/";
const GET = "GET /api/v0/instances/9001/";
const ATTACH = "POST /api/v0/instances/9001/ssh/";

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const thrown = await promise.then(
    () => "nothing",
    (e: unknown) => e,
  );
  return thrown instanceof SvcError ? thrown.code : String(thrown);
}

/** The market knows these GPU names; its machines have `counts` GPUs each, and all of them are rented. */
function theMarketHas(gpu_names: string[], counts: number[]): void {
  stub.routes["GET /api/v0/gpu_names/unique/"] = () => ({ json: { success: true, gpu_names } });
  const rented = counts.map((num_gpus) => offerRow({ num_gpus, rentable: false }));
  stub.routes[SEARCH] = ({ body }) => ({ json: { offers: "verified" in body ? [] : rented } });
}

const searches = () => stub.calls.filter(({ path }) => path.includes("/bundles/"));

describe("searching", () => {
  const offers = (rows: unknown[], input: Parameters<typeof spec>[0] = {}) => {
    stub.routes[SEARCH] = () => ({ json: { offers: rows } });
    return stub.provider().listOffers(spec(input), signal);
  };

  test("requests verified, rentable machines of the requested kind, cheapest first", async () => {
    await offers([offerRow()], {
      gpus: "A100:4",
      disk_gb: 200,
      region: "us,Oceania",
      price_cap: 3,
      max_runtime_minutes: 6000,
    });
    expect(searches()[0]?.body).toMatchObject({
      verified: { eq: true },
      rentable: { eq: true },
      rented: { eq: false },
      external: { eq: false },
      type: "on-demand",
      gpu_name: { in: ["A100 SXM4", "A100 PCIE"] },
      num_gpus: { eq: 4 },
      gpu_ram: { gte: 73_728 },
      disk_space: { gte: 200 },
      allocated_storage: 200,
      direct_port_count: { gte: 1 },
      dph_total: { lte: 3 },
      duration: { gte: 363_640 },
      geolocation: { in: expect.arrayContaining(["US", "AU", "NZ"]) as unknown },
      order: [["dph_total", "asc"]],
    });
  });

  test("min_vram_gb becomes the GPU-RAM filter; an unknown model passes through with spaces", async () => {
    await offers([], { gpus: "Quantum_9000:2", min_vram_gb: 24 });
    expect(searches()[0]?.body).toMatchObject({ gpu_name: { in: ["Quantum 9000"] }, gpu_ram: { gte: 22_118 } });
    await offers([], { gpus: "Quantum_9000" });
    expect(searches()[1]?.body).not.toHaveProperty("gpu_ram");
  });

  test("returns the cheapest first, with the data that renting needs", async () => {
    const dear = offerRow({ id: 7, ask_contract_id: undefined, dph_total: 0.9 });
    expect(await offers([dear, offerRow()])).toEqual([OFFER, { ...OFFER, id: "7", priceMicro: 900_000 }]);
  });

  const unfit: [string, Record<string, unknown>][] = [
    ["unverified", { verification: "unverified" }],
    ["without a word on verification", { verification: undefined }],
    ["not rentable", { rentable: false }],
    ["rented", { rented: true }],
    ["interruptible", { is_bid: true }],
    ["another GPU", { gpu_name: "RTX 4090D" }],
    ["no GPU name", { gpu_name: null }],
    ["another count", { num_gpus: 2 }],
    ["too little VRAM", { gpu_ram: 12_000 }],
    ["unknown VRAM", { gpu_ram: null }],
    ["too little disk", { disk_space: 20 }],
    ["no port of its own", { direct_port_count: 0 }],
    ["unreliable", { reliability2: 0.5 }],
    ["gone too soon", { duration: 600 }],
    ["an old driver", { cuda_max_good: 11.8 }],
    ["a price of null", { dph_total: null }],
    ["a price in text", { dph_total: "0.01" }],
    ["a price of NaN", { dph_total: "NaN" }],
    ["a negative price", { dph_total: -1 }],
    ["a hostile id", { id: "../../x", ask_contract_id: undefined }],
  ];
  test.each(unfit)("rejects an offer that is %s", async (_what, changes) => {
    const found = await offers([offerRow(changes), offerRow({ id: 502, ask_contract_id: 502, dph_total: 2 })]);
    expect(found.map((offer) => offer.id)).toEqual(["502"]);
  });

  test("searches the credential's region for a run that names none", async () => {
    const searched = async (input: Parameters<typeof spec>[0]): Promise<unknown> => {
      await offers([offerRow()], input);
      return searches().findLast(({ body }) => "verified" in body)?.body["geolocation"];
    };
    stub.settings = { region: "DE" };
    expect(await searched({})).toEqual({ in: ["DE"] });
    expect(await searched({ region: "US" })).toEqual({ in: ["US"] });
    stub.settings = { region: "Atlantis" };
    expect(await codeOf(offers([offerRow()]))).toBe("credential_missing");
  });

  test("drops an offer outside of the region, and one whose place is unknown", async () => {
    const rows = [
      offerRow({ geolocation: null }),
      offerRow(),
      offerRow({ id: 8, ask_contract_id: 8, geolocation: ", US" }),
    ];
    expect((await offers(rows, { region: "US" })).map((offer) => offer.id)).toEqual(["8"]);
  });

  test.each([
    ["RTX409:1", ["RTX 4090", "RTX 3090", "L4"], [], /rents out no GPU of that name; near it: RTX4090/],
    ["RTX4090:3", ["RTX 4090"], [1, 2, 8], /machines with it have 1, 2, 8 of them/],
    ["RTX4090:16", ["RTX 4090"], [1, 2, 8], /machines with it have 1, 2, 8 of them/],
  ])("%s, which no provider has, is refused at once, with the reason", async (gpus, names, counts, words) => {
    theMarketHas(names, counts);
    const refused = await stub
      .provider()
      .listOffers(spec({ gpus }), signal)
      .catch((e: unknown) => e);
    const message = expect.stringMatching(words) as string;
    expect(refused).toMatchObject({ code: "gpus_unsupported", retry: "never", message });
  });

  test.each([
    ["RTX4090:4", [1, 2, 8]],
    ["RTX4090:1", []],
    ["RTX4090:2", Array.from({ length: 64 }, () => 8)],
  ])("%s, which is unavailable only now, has no offer", async (gpus, counts) => {
    theMarketHas(["RTX 4090"], counts);
    expect(await stub.provider().listOffers(spec({ gpus }), signal)).toEqual([]);
  });

  test("reads bare NaN in an answer as a missing price", async () => {
    stub.routes[SEARCH] = () => ({
      text: JSON.stringify({ offers: [offerRow({ dph_total: "@" }), offerRow({ id: 3, ask_contract_id: 3 })] }).replace(
        '"@"',
        "NaN",
      ),
    });
    const found = await stub.provider().listOffers(spec(), signal);
    expect(found.map((offer) => offer.id)).toEqual(["3"]);
  });

  test("if no offer is below the cap, the offers above it are shown, six seconds later", async () => {
    stub.routes[SEARCH] = ({ body }) => ({ json: { offers: body.dph_total ? [] : [offerRow()] } });
    const found = await stub.provider().listOffers(spec({ price_cap: 0.1 }), signal);
    expect(found).toEqual([OFFER]);
    expect(searches().map((call) => call.at - (searches()[0]?.at ?? 0))).toEqual([0, 6_000]);
  });

  test("runs that want the same at the same time share one search", async () => {
    stub.routes[SEARCH] = () => ({ json: { offers: [offerRow()] } });
    const provider = stub.provider();
    const found = await Promise.all(Array.from({ length: 3 }, () => provider.listOffers(spec(), signal)));
    expect(found.map((f) => f.length)).toEqual([1, 1, 1]);
    expect(searches().length).toBeLessThan(3);
  });

  test.each<[string, Reply, string]>([
    ["a page for people", { html: "<html>hello</html>" }, "provider_error"],
    ["a 500", { status: 500, text: "boom" }, "provider_error"],
    ["another form", { json: { offers: "none" } }, "provider_error"],
    ["a torn body", "torn", "provider_unreachable"],
    ["a bad key as 404", refusal(404, "auth_error", "Invalid user key"), "credential_refused"],
    ["a bad key as 401", { status: 401, text: "" }, "credential_refused"],
    ["a key without the right", refusal(403, "not_authorized", "scope misc"), "credential_refused"],
  ])("%s is an error, never no offers", async (_what, reply, code) => {
    stub.routes[SEARCH] = () => reply;
    expect(await codeOf(stub.provider().listOffers(spec(), signal))).toBe(code);
  });

  test("checks a spec without any request, naming the field", () => {
    const fieldOf = (input: Parameters<typeof spec>[0]) => {
      try {
        stub.provider().check(spec(input));
        return "fine";
      } catch (e) {
        return e instanceof SvcError ? `${e.code} ${e.errors?.[0]?.field}` : String(e);
      }
    };
    expect(fieldOf({ region: "Europe; US" })).toBe("fine");
    expect(fieldOf({ gpus: "cpu" })).toBe("gpus_unsupported spec.gpus");
    expect(fieldOf({ region: "Atlantis" })).toBe("invalid_request spec.region");
    expect(fieldOf({ region: "XX" })).toBe("invalid_request spec.region");
    expect(fieldOf({ image: "-v /:/host" })).toBe("invalid_request spec.image");
    expect(stub.calls).toEqual([]);
  });
});

describe("renting", () => {
  const made: Reply = { json: { success: true, new_contract: 9001, instance_api_key: "secret" } };
  beforeEach(() => {
    stub.routes[GET] = () => ({ json: { instances: machineRow({ actual_status: null }) } });
    stub.routes[ATTACH] = () => ({ json: { success: true } });
  });

  test("labels the machine, gives it no secret, reads its real price and attaches the key", async () => {
    stub.routes[CREATE] = () => made;
    const handle = await stub.provider().create(OFFER, order({ disk_gb: 50 }));
    expect(handle).toMatchObject({ v: 1, provider: "market", id: "9001", name: NAME, priceMicro: 430_000 });
    expect(handle.extra).toMatchObject({ machine_id: "4411" });
    const body = stub.calls.find((call) => call.method === "PUT")?.body ?? {};
    expect(body).toMatchObject({
      label: NAME,
      disk: 50,
      runtype: "ssh_direct",
      env: { SVC_MACHINE: NAME },
      cancel_unavail: true,
      target_state: "running",
    });
    expect(body).not.toHaveProperty("price");
    expect(JSON.stringify(body)).not.toContain(KEY);
    expect(String(body.onstart).length).toBeLessThanOrEqual(START_SCRIPT_MAX);
    await stub.provider().create(OFFER, order({ gpus: "A100:4" }));
    const ranks = stub.calls.filter((call) => call.method === "PUT").at(-1)?.body;
    expect(graceIn(String(body.onstart)), "one process").toBe(10);
    expect(graceIn(String(ranks?.onstart)), "as long as torchrun waits for its ranks").toBe(40);
    expect(stub.calls.find((call) => call.method === "POST")?.body).toEqual({ ssh_key: PUBLIC_KEY });
  });

  test("a failed attachment of the key, and an unavailable record, do not lose the machine", async () => {
    stub.routes[CREATE] = () => made;
    stub.routes[GET] = () => ({ json: { instances: null } });
    stub.routes[ATTACH] = () => refusal(404, "no_such_instance");
    expect(await stub.provider().create(OFFER, order())).toMatchObject({ id: "9001", priceMicro: 420_000 });
  });

  test.each([
    ["null", null],
    ["no number", "0,43"],
    ["nothing", 0],
    ["negative", -1],
  ])(
    "a price that is %s is not compared with the cap; the offer's price counts for the cost",
    async (_what, dph_total) => {
      stub.routes[CREATE] = () => made;
      stub.routes[GET] = () => ({ json: { instances: machineRow({ dph_total }) } });
      const { priceMicro } = OFFER;
      expect(await stub.provider().create(OFFER, order())).toMatchObject({ priceMicro, priceOffered: true });
    },
  );

  test("a machine that was offered for nothing may cost nothing", async () => {
    stub.routes[CREATE] = () => made;
    stub.routes[GET] = () => ({ json: { instances: machineRow({ dph_total: 0 }) } });
    const handle = await stub.provider().create({ ...OFFER, priceMicro: 0 }, order());
    expect([handle.priceMicro, handle.priceOffered]).toEqual([0, undefined]);
  });

  test.each<[string, Reply, string]>([
    ["404 no_such_ask", refusal(404, "no_such_ask"), "offer_taken"],
    ["410", refusal(410, "no_such_ask", "gone"), "offer_taken"],
    [
      "400 in other words",
      refusal(400, "invalid_args", "error 404/3603: no_such_ask Instance type by id 501 is not available."),
      "offer_taken",
    ],
    ["200 that says no", { json: { success: false, msg: "The offer is no longer available." } }, "offer_taken"],
    ["no credit", refusal(400, "insufficient_credit", "add funds"), "no_funds"],
    ["no credit as 402", refusal(402, "insufficient_credit"), "no_funds"],
    ["a new account's limit", refusal(400, "spend_rate_limit", "wait"), "no_quota"],
    ["no billing", refusal(400, "missing_billing"), "no_quota"],
    ["a bad key as 401", refusal(401, "auth_error", "Invalid user key"), "credential_refused"],
    ["a bad key as 404", refusal(404, "auth_error", "Invalid user key"), "credential_refused"],
    ["a key without the right", refusal(403, "invalid_args", "no"), "credential_refused"],
    ["an argument", refusal(400, "invalid_args", "image is malformed"), "provider_refused"],
  ])("%s made nothing", async (_what, reply, code) => {
    stub.routes[CREATE] = () => reply;
    expect(await codeOf(stub.provider().create(OFFER, order()))).toBe(code);
    expect([...NOTHING_MADE]).toContain(code);
    expect(stub.calls).toHaveLength(1);
  });

  test.each<[string, Reply]>([
    ["no answer", "cut"],
    ["half an answer", "torn"],
    ["a 500", { status: 500, json: { success: false, error: "internal" } }],
    ["a 500 that names the offer", refusal(500, "no_such_ask", "This ask is no longer available.")],
    ["a 502 page", { status: 502, html: "<html>Bad Gateway</html>" }],
    ["a page with 200", { html: "<html>hi</html>" }],
    ["a page with 429", { status: 429, html: "<html>slow down</html>" }],
    ["a page with 403", { status: 403, html: "<html>blocked</html>" }],
    ["a bare 404", { status: 404, text: "404: Not Found" }],
    ["a 408", { status: 408, json: { msg: "timeout" } }],
    ["neither contract nor reason", { json: { success: true } }],
    ["a contract that is no id", { json: { success: true, new_contract: "../9001" } }],
    ["a queued start", refusal(400, "not_available", "currently unavailable, state change queued, not available")],
  ])("%s may have made something", async (_what, reply) => {
    stub.routes[CREATE] = () => reply;
    expect(await codeOf(stub.provider().create(OFFER, order()))).toBe("outcome_unknown");
    expect(stub.count(CREATE)).toBe(1);
  });

  test.each([[null], ["another"]])("is unknown, too, if the key is %j at the time of the answer", async (secret) => {
    stub.routes[CREATE] = () => {
      stub.secret = secret;
      return { status: 502, json: { success: false, error: "internal" } };
    };
    expect(await codeOf(stub.provider().create(OFFER, order()))).toBe("outcome_unknown");
    expect(stub.count(CREATE)).toBe(1);
  });

  test.each<[string, Reply]>([
    ["success: false", { json: { success: false, new_contract: 9001, msg: "bid too low" } }],
    ["a 400", { status: 400, json: { success: false, error: "invalid_price", new_contract: 9001 } }],
    ["no_such_ask", { status: 410, json: { error: "no_such_ask", new_contract: 9001 } }],
  ])("a second contract next to %s is named, and must be ended", async (_what, reply) => {
    stub.routes[CREATE] = () => reply;
    const error = await stub
      .provider()
      .create(OFFER, order())
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "outcome_unknown" });
    expect(madeInVain(error)).toMatchObject({ id: "9001", name: order().name, extra: { made_at: expect.any(String) } });
  });

  const dialects: [string, Reply][] = [
    ["text", { status: 429, text: "API requests too frequent: endpoint threshold=4.5" }],
    ["detail", { status: 429, json: { detail: "API requests too frequent" } }],
    ["code", refusal(429, "rate_limit_exceeded", "slow down")],
  ];
  test.each(dialects)("too many requests (%s): waits, and retries once", async (_what, reply) => {
    let asked = 0;
    stub.routes[CREATE] = () => (++asked === 1 ? reply : made);
    expect(await stub.provider().create(OFFER, order())).toMatchObject({ id: "9001" });
    const [first, second] = stub.calls.filter((call) => call.method === "PUT");
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(4_500);
  });

  test.each(dialects)(
    "too many requests (%s) twice: nothing was made, and svc requests no list",
    async (_what, reply) => {
      stub.routes[CREATE] = () => reply;
      const error = await stub
        .provider()
        .create(OFFER, order())
        .catch((e: unknown) => e);
      expect(error).toMatchObject({ code: "provider_error" });
      expect(mayHaveBeenSent(error)).toBe(false);
      expect(stub.count(CREATE)).toBe(2);
      expect(stub.calls).toHaveLength(2);
    },
  );

  test("one offer is rented once by this process, and is not offered again at once", async () => {
    stub.routes[CREATE] = () => made;
    stub.routes[SEARCH] = () => ({ json: { offers: [offerRow()] } });
    const provider = stub.provider();
    const outcomes = await Promise.all([
      codeOf(provider.create(OFFER, order())),
      codeOf(provider.create(OFFER, { ...order(), name: `${NAME}2` })),
    ]);
    expect(outcomes.toSorted()).toEqual(["nothing", "offer_taken"]);
    expect(stub.count(CREATE)).toBe(1);
    expect(await provider.listOffers(spec(), signal)).toEqual([]);
  });

  test("however long the answer takes, no other order gets the offer meanwhile, nor right after", async () => {
    stub.routes[SEARCH] = () => ({ json: { offers: [offerRow()] } });
    const provider = stub.provider();
    const meanwhile: Promise<string>[] = [];
    stub.routes[CREATE] = () => {
      stub.clock.ms += 40_000;
      meanwhile.push(codeOf(provider.create(OFFER, { ...order(), name: `${NAME}2` })));
      return made;
    };
    await provider.create(OFFER, order());
    expect(await provider.listOffers(spec(), signal)).toEqual([]);
    expect(await Promise.all(meanwhile)).toEqual(["offer_taken"]);
  });

  test("renting is rate-limited", async () => {
    for (const id of [501, 502, 503]) stub.routes[`PUT /api/v0/asks/${id}/`] = () => refusal(404, "no_such_ask");
    const provider = stub.provider();
    for (const id of ["501", "502", "503"]) await codeOf(provider.create({ ...OFFER, id }, order()));
    const at = stub.calls.map((call) => call.at - (stub.calls[0]?.at ?? 0));
    expect(at).toEqual([0, 4_500, 9_000]);
  });

  test("an order is never sent if its turn in the rate limit is too late", async () => {
    for (const id of [501, 502]) stub.routes[`PUT /api/v0/asks/${id}/`] = () => made;
    const provider = stub.provider();
    await provider.create(OFFER, order());
    stub.clock.sleepMs = 3_600_000;
    expect(await codeOf(provider.create({ ...OFFER, id: "502" }, order()))).toBe("offer_taken");
    expect(stub.count("PUT /api/v0/asks/502/")).toBe(0);
    stub.clock.ms += 3_600_000;
    stub.clock.stands = true;
    const many = Array.from({ length: 9 }, (_, i) => codeOf(provider.create({ ...OFFER, id: `60${i}` }, order())));
    expect((await Promise.all(many)).filter((code) => code === "provider_error")).toHaveLength(4);
    expect(stub.calls.filter((call) => call.method === "PUT")).toHaveLength(1 + 5);
  });

  test("an offer's id never becomes several parts of the path", async () => {
    await codeOf(stub.provider().create({ ...OFFER, id: "../instances/1" }, order()));
    expect(stub.calls[0]?.path).toBe("/api/v0/asks/..%2Finstances%2F1/");
  });

  test("a long start script is packed and keeps its meaning", () => {
    const guard = `#!/bin/sh\n# ${"x".repeat(5_000)}\n`;
    const packed = startScript({ guard, publicKey: PUBLIC_KEY });
    expect(packed.length).toBeLessThanOrEqual(START_SCRIPT_MAX);
    const data = /echo (\S+) /.exec(packed)?.[1] ?? "";
    expect(gunzipSync(Buffer.from(data, "base64")).toString()).toContain(PUBLIC_KEY);
    const plain = startScript({ guard: "echo started", publicKey: PUBLIC_KEY });
    for (const script of [packed, plain]) execFileSync("sh", ["-n"], { input: script });
    const run = startScript({ guard: `echo started # ${"y".repeat(5_000)}`, publicKey: "k" });
    expect(execFileSync("sh", ["-c", run]).toString()).toBe("started\n");
    let noise = "";
    for (let n = 1; noise.length < 9_000; n = (n * 48_271) % 2_147_483_647) noise += n.toString(36);
    expect(() => startScript({ guard: noise, publicKey: "k" })).toThrow(/start script/);
  });
});
