// The result of a create call, status by status: a refusal before the request was carried out does not count as a lost
// answer, and a truly unclear answer does. For `podhost` see podhost-apis.test.ts.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { mayHaveBeenSent } from "../../src/providers/http.ts";
import { NOTHING_MADE } from "../../src/providers/provider.ts";
import {
  apiError,
  CloudStub,
  instance,
  MACHINE,
  notFound,
  operation,
  spec,
  ZONE,
  type Answer,
} from "./cloudvm-stub.ts";
import { order, refusal, Stub, type Reply } from "./market-stub.ts";

async function thrownBy(act: Promise<unknown>): Promise<SvcError> {
  const thrown = await act.then(
    () => null,
    (e: unknown) => e,
  );
  if (thrown instanceof SvcError) return thrown;
  throw new Error(`no refusal: ${String(thrown)}`);
}

/** The interpretation by order() of the provision step. */
const kindOf = (error: SvcError): "nothing made" | "never sent" | "unknown" =>
  NOTHING_MADE.has(error.code) ? "nothing made" : mayHaveBeenSent(error) ? "unknown" : "never sent";

describe("market's answer to a create call", () => {
  const CREATE = "PUT /api/v0/asks/501/";
  let stub: Stub;
  beforeEach(async () => {
    stub = await new Stub().start();
  });
  afterEach(() => stub.close());

  test.each<[string, Reply, string, RegExp]>([
    ["400 with a code", refusal(400, "invalid_disk", "disk is below minimum"), "provider_refused", /invalid_disk: disk/],
    ["400 for a bid", refusal(400, "invalid_price", "bid is below minimum"), "offer_taken", /invalid_price: bid/],
    ["400 in words alone", { status: 400, json: { success: false, msg: "disk is too large" } }, "provider_refused", /disk is/],
    ["400 for a label", refusal(400, "label_too_long", "at most 64"), "provider_refused", /label_too_long/],
    ["401", refusal(401, "auth_error", "Invalid user key"), "credential_refused", /Invalid user key/],
    ["402", refusal(402, "insufficient_credit", "add funds"), "no_funds", /add funds/],
    ["402 in words alone", { status: 402, json: { detail: "Payment required" } }, "no_funds", /Payment required/],
    ["403", refusal(403, "not_authorized", "scope instance_write is missing"), "credential_refused", /instance_write/],
    ["404", refusal(404, "no_such_ask", "gone"), "offer_taken", /no_such_ask/],
    ["409 with a code", refusal(409, "ask_conflict", "being rented by another user"), "offer_taken", /ask_conflict: being/],
    ["409 in words alone", { status: 409, json: { msg: "Offer is already rented" } }, "offer_taken", /already rented/],
    ["410", refusal(410, "no_such_ask", "cancel_unavail"), "offer_taken", /no_such_ask/],
    ["422 with a code", refusal(422, "invalid_args", "image is malformed"), "provider_refused", /image is malformed/],
    [
      "422 as a list of fields",
      { status: 422, json: { detail: [{ loc: ["body", "disk"], msg: "must be a number", type: "x" }] } },
      "provider_refused",
      /disk: must be a number/,
    ],
    ["503 without room", { status: 503, json: { success: false, msg: "No capacity on host" } }, "offer_taken", /No capacity/],
  ])("%s made nothing, in the provider's words and after one call", async (_what, reply, code, words) => {
    stub.routes[CREATE] = () => reply;
    const error = await thrownBy(stub.provider().create({ id: "501", priceMicro: 1 }, order()));
    expect(error.code).toBe(code);
    expect(error.message).toMatch(words);
    expect(kindOf(error)).toBe("nothing made");
    expect(stub.calls).toHaveLength(1);
  }); // prettier-ignore

  test.each<[string, Reply]>([
    ["409 without a word", { status: 409, json: {} }],
    ["409 of something that went wrong", { status: 409, json: { msg: "Something went wrong" } }],
    ["422 as a page", { status: 422, html: "<html>no</html>" }],
    ["400 as a page", { status: 400, html: "<html>bad request</html>" }],
    ["400 without a word", { status: 400, text: "" }],
    ["503 in words", { status: 503, json: { success: false, msg: "Service temporarily unavailable" } }],
    ["503 as a page", { status: 503, html: "<html>no capacity</html>" }],
    ["504", { status: 504, text: "upstream timed out" }],
    ["a redirect", { status: 302, text: "" }],
  ])("%s may have made a machine, and is sent once", async (_what, reply) => {
    stub.routes[CREATE] = () => reply;
    const error = await thrownBy(stub.provider().create({ id: "501", priceMicro: 1 }, order()));
    expect([error.code, kindOf(error)]).toEqual(["outcome_unknown", "unknown"]);
    expect(stub.calls).toHaveLength(1);
  });

  test.each<[string, number, number]>([
    ["2", 2, 12_000],
    ["15", 2, 15_000],
    ["120", 1, 0],
  ])(
    "429 with Retry-After: %s is sent %d times, waits in between, and was never carried out",
    async (after, sent, least) => {
      stub.routes[CREATE] = () => ({ status: 429, html: "<html>slow down</html>", headers: { "retry-after": after } });
      const began = stub.clock.ms;
      const error = await thrownBy(stub.provider().create({ id: "501", priceMicro: 1 }, order()));
      expect([error.code, kindOf(error)]).toEqual(["provider_error", "never sent"]);
      expect(error.message).toMatch(/too many (requests|orders)/);
      expect(stub.calls).toHaveLength(sent);
      expect(stub.clock.ms - began).toBeGreaterThanOrEqual(least);
      expect(stub.clock.ms - began).toBeLessThanOrEqual(20_000);
    },
  );

  test("After a long Retry-After no other offer is tried, and nothing was sent", async () => {
    stub.routes[CREATE] = () => ({ status: 429, text: "slow down", headers: { "retry-after": "100" } });
    const provider = stub.provider();
    await thrownBy(provider.create({ id: "501", priceMicro: 1 }, order()));
    const error = await thrownBy(provider.create({ id: "502", priceMicro: 1 }, order()));
    expect([error.code, kindOf(error)]).toEqual(["provider_error", "never sent"]);
    expect(error.message).toMatch(/the next request is allowed in \d+ s/);
    expect(stub.calls).toHaveLength(1);
  });
});

describe("cloudvm's answer to a create call", () => {
  const INSERT = `/zones/${ZONE}/instances`;
  const SELF = `${INSERT}/${MACHINE}`;
  let stub: CloudStub;
  beforeEach(async () => {
    stub = await new CloudStub().listen();
  });
  afterEach(() => stub.close());
  const create = () =>
    stub
      .provider({})
      .create(
        { id: `${ZONE}.g2-standard-8`, priceMicro: null, extra: { zone: ZONE } },
        { name: MACHINE, jobId: "job000000001", node: 0, spec: spec() },
      );
  const sendings = () => stub.asked("POST", /\/instances$/).length;

  test.each<[string, Answer, string, RegExp]>([
    ["400", apiError(400, "invalid", "Invalid value for field 'resource.x'"), "provider_refused", /resource\.x/],
    ["402", apiError(402, "billingDisabled", "Billing is disabled"), "provider_refused", /Billing is disabled/],
    ["403", apiError(403, "forbidden", "Required 'compute.instances.create' permission"), "credential_refused", /compute/],
    ["403 for a quota", apiError(403, "quotaExceeded", "Quota 'NVIDIA_L4_GPUS' exceeded."), "no_quota", /NVIDIA_L4_GPUS/],
    ["404", notFound("global/images/family/x"), "provider_refused", /current family/],
    ["410", apiError(410, "gone", "This version is no longer served"), "provider_refused", /no longer served/],
    ["412", apiError(412, "conditionNotMet", "Constraint violated"), "provider_refused", /policy/],
    ["422", apiError(422, "unprocessable", "maxRunDuration is out of range"), "provider_refused", /maxRunDuration/],
    ["429 for a quota", apiError(429, "quotaExceeded", "Quota 'GPUS_ALL_REGIONS' exceeded."), "no_quota", /new projects/],
    ["503 without room", apiError(503, "ZONE_RESOURCE_POOL_EXHAUSTED", "none"), "offer_taken", /EXHAUSTED/],
  ])("%s made nothing, in the provider's words and after one call", async (_what, answer, code, words) => {
    stub.on("POST", INSERT, answer);
    const error = await thrownBy(create());
    expect(error.code).toBe(code);
    expect(error.message).toMatch(words);
    expect(kindOf(error)).toBe("nothing made");
    expect(sendings()).toBe(1);
  }); // prettier-ignore

  test("401 is retried once with another token, and then means that the key is refused", async () => {
    stub.on("POST", INSERT, apiError(401, "authError", "Invalid Credentials"));
    expect((await thrownBy(create())).code).toBe("credential_refused");
    expect(sendings()).toBe(2);
  });

  test("429 is waited out within bounds; a permanent one was refused each time before it was carried out", async () => {
    stub.on("POST", INSERT, { ...apiError(429, "rateLimitExceeded", "slow"), headers: { "retry-after": "100" } });
    const error = await thrownBy(create());
    expect([error.code, kindOf(error)]).toEqual(["provider_error", "never sent"]);
    expect(error.message).toMatch(/too many (requests|orders)/);
    expect(sendings()).toBe(3);
    expect(stub.pauses.reduce((sum, ms) => sum + ms, 0)).toBeLessThanOrEqual(20_000);
  });

  test("429 after a lost answer leaves the outcome of the lost request unknown", async () => {
    stub.on("POST", INSERT, { cut: true }, apiError(429, "rateLimitExceeded", "slow down"));
    expect(kindOf(await thrownBy(create()))).toBe("unknown");
  });

  test("409 for a taken name is this order if the machine has our mark", async () => {
    stub.on("POST", INSERT, apiError(409, "alreadyExists", "already exists"));
    stub.on("GET", SELF, { json: instance() });
    expect((await create()).name).toBe(MACHINE);
  });

  test("409 for another conflict is a refusal once the machine is known not to exist", async () => {
    stub.on("POST", INSERT, apiError(409, "conflict", "The network is being changed"));
    stub.on("GET", SELF, notFound());
    const error = await thrownBy(create());
    expect(error.code).toBe("provider_refused");
    expect(error.message).toContain("The network is being changed");
  });

  test.each<[string, Answer[], Answer | null]>([
    ["409 for a name that is taken, of a machine that is not found", [apiError(409, "alreadyExists", "exists")], notFound()],
    ["409 for something else after a lost answer", [{ cut: true }, apiError(409, "conflict", "busy")], notFound()],
    ["503 of an outage", [apiError(503, "backendError", "Backend Error")], null],
    ["503 as a page", [{ status: 503, text: "<html>busy</html>" }], null],
    ["500", [apiError(500, "internalError", "Internal Error")], null],
    ["a page with 403", [{ status: 403, text: "<html>blocked</html>" }], null],
  ])("%s may have made a machine", async (_what, answers, self) => {
    stub.on("POST", INSERT, ...answers);
    if (self !== null) stub.on("GET", SELF, self);
    expect(kindOf(await thrownBy(create()))).toBe("unknown");
    expect(sendings()).toBeLessThanOrEqual(3);
  }); // prettier-ignore

  test("An outage that passes is sent again as the same request, and makes one machine", async () => {
    stub.on("POST", INSERT, apiError(503, "backendError", "Backend Error"), operation());
    expect((await create()).name).toBe(MACHINE);
    expect(new Set(stub.asked("POST", /\/instances$/).map(({ query }) => query.get("requestId"))).size).toBe(1);
  });
});
