// The marketplace's messages reach the user, and rows that cannot be offers are reported and not taken.

import { spawnSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { selfEndText, startScript, START_SCRIPT_MAX } from "../../src/providers/market/start-script.ts";
import { whyNotOthers, type MachineHandle } from "../../src/providers/provider.ts";
import { affordable } from "../../src/steps/provision.ts";
import { NAME, offerRow, order, PUBLIC_KEY, refusal, spec, Stub } from "./market-stub.ts";

const signal = new AbortController().signal;
const SEARCH = "POST /api/v0/bundles/";
const HANDLE: MachineHandle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 430_000 };
const OFFER = { id: "501", priceMicro: 430_000 };
const MOVED = "This endpoint is deprecated. Use /api/v1/ instead.";

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

async function thrownBy(act: Promise<unknown>): Promise<SvcError> {
  const thrown = await act.then(
    () => null,
    (e: unknown) => e,
  );
  if (thrown instanceof SvcError) return thrown;
  throw new Error(`no refusal: ${String(thrown)}`);
}

describe("An address that is not served any more", () => {
  test("is a refusal to create, with the provider's message, and no reason to try the next offer", async () => {
    stub.routes["PUT /api/v0/asks/501/"] = () => refusal(410, "deprecated_endpoint", MOVED);
    const error = await thrownBy(stub.provider().create(OFFER, order()));
    expect(error).toMatchObject({ code: "provider_refused", retry: "never" });
    expect(error.message).toContain(`deprecated_endpoint: ${MOVED}`);
  });

  test("does not count as an accepted end, and the next version of the address is tried", async () => {
    stub.routes["DELETE /api/v0/instances/9001/"] = () => refusal(410, "deprecated_endpoint", MOVED);
    expect((await thrownBy(stub.provider().terminate(HANDLE, signal))).message).toContain(MOVED);
    stub.routes["DELETE /api/v1/instances/9001/"] = () => ({ json: { success: true } });
    await stub.provider().terminate(HANDLE, signal);
  });
});

test("A refusal whose message is in an object inside the answer is reported with this message", async () => {
  const json = { success: false, error: { code: "host_blocked", message: "This host does not rent to you." } };
  stub.routes["PUT /api/v0/asks/501/"] = () => ({ status: 400, json });
  const error = await thrownBy(stub.provider().create(OFFER, order()));
  expect(error.message).toContain("host_blocked: This host does not rent to you.");
});

describe("CUDA", () => {
  const hosts = async (image: string | undefined, ...versions: unknown[]): Promise<string[]> => {
    const rows = versions.map((cuda_max_good, n) => offerRow({ id: n + 1, ask_contract_id: n + 1, cuda_max_good }));
    stub.routes[SEARCH] = () => ({ json: { offers: rows } });
    const offers = await stub.provider().listOffers(spec(image === undefined ? {} : { image }), signal);
    return offers.map(({ id }) => id);
  };

  test("An image of 12.8 is not rented on a host whose driver ends at 12.2", async () => {
    expect(await hosts("me/train:cuda12.8", 12.2, 12.8, 13, "12.7", null)).toEqual(["2", "3", "5"]);
    expect(stub.calls.at(-1)?.body["cuda_max_good"]).toEqual({ gte: 12.8 });
  });

  test("The default image counts like any other, and an image that names no version requires none", async () => {
    expect(await hosts(undefined, 12.4, 12.8)).toEqual(["2"]);
    expect(await hosts("ubuntu:24.04", 11.4, "odd")).toEqual(["1", "2"]);
  });
});

describe("The start script", () => {
  test("is packed at any length, and keeps a margin below the provider's limit", () => {
    for (const length of [10, 2_000, 4_000, 4_060, 4_090, 8_000]) {
      const script = startScript({ guard: `#!/bin/sh\n# ${"x".repeat(length)}\n`, publicKey: PUBLIC_KEY });
      expect(script).toMatch(/base64 -d \| gunzip/);
      expect(script.length).toBeLessThan(START_SCRIPT_MAX - 100);
    }
    expect(START_SCRIPT_MAX).toBe(4_048);
  });

  test("lets a machine that may not destroy itself stop itself, from the third attempt on", () => {
    const said = (tries: number, answer = '[ "$1" = PUT ]'): string => {
      const shell = `svc_env() { eval "printf %s \\"\\\${$1-}\\""; }\nsvc_call() { echo "$1 $3"; ${answer}; }\n${selfEndText("http://x")}`;
      const env = { PATH: process.env.PATH ?? "", CONTAINER_ID: "9001", CONTAINER_API_KEY: "own", tries: `${tries}` };
      return spawnSync("sh", ["-c", shell], { env, encoding: "utf8" }).stdout;
    };
    const refused = "DELETE {}\n".repeat(2);
    expect([1, 2, 3].map((tries) => said(tries))).toEqual([refused, refused, `${refused}PUT {"state":"stopped"}\n`]);
    const accepted = "DELETE {}\n";
    expect([1, 4, 5].map((tries) => said(tries, "true"))).toEqual([
      accepted,
      accepted,
      `${accepted}PUT {"state":"stopped"}\n`,
    ]);
    const denied = `DELETE {}\n{"success": false}\n`.repeat(2);
    expect(said(1, `echo '{"success": false}'`)).toBe(denied);
  });
});

describe("A malformed catalogue", () => {
  test("Prices that are not numbers are reported and do not become offers", async () => {
    const prices = ["NaN", null, "cheap", -1, { usd: 1 }];
    stub.routes[SEARCH] = () => ({ json: { offers: prices.map((dph_total) => offerRow({ dph_total })) } });
    const provider = stub.provider();
    const offers = await provider.listOffers(spec(), signal);
    expect(offers).toEqual([]);
    expect(whyNotOthers(offers).join("; ")).toMatch(/5 of its offers have no price .*dph_total is "NaN"/);
    expect(() => affordable(provider, spec(), offers)).toThrow(/5 of its offers have no price.*asked for 1 × RTX 4090/);
  });

  test("Ten thousand offers are read in bounded time, and the cheapest comes first", async () => {
    const rows = Array.from({ length: 10_000 }, (_, n) =>
      offerRow({
        id: n + 1,
        ask_contract_id: n + 1,
        dph_total: n % 7 === 0 ? "NaN" : 1 + ((n * 7_919) % 10_000) / 1e4,
      }),
    );
    stub.routes[SEARCH] = () => ({ json: { offers: rows } });
    const offers = await stub.provider().listOffers(spec(), signal);
    expect(offers.length).toBe(10_000 - 1_429);
    expect(offers[0]?.priceMicro).toBe(Math.min(...offers.map(({ priceMicro }) => priceMicro ?? 0)));
  });
});
