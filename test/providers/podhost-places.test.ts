// podhost: a region that does not exist. Its answer looks like a region without stock, so svc would retry it for many
// minutes.

import { describe, expect, test } from "vitest";
import { data, errors, never, podhostStub, specOf, thrownBy, type Answer } from "./podhost-stub.ts";

const PLACES = { dataCenters: [{ id: "US-TX-3" }, { id: "EU-RO-1" }], countryCodes: ["SE", "CA"] };
/** The kind of GPU is known, and out of stock everywhere. */
const soldOut = data({ gpuTypes: [{ id: "NVIDIA H100 80GB HBM3", securePrice: 2.99, lowestPrice: null }] });

async function offersWhere(places: Answer): Promise<(region: string) => Promise<unknown>> {
  const { provider } = await podhostStub(({ root }) => (root === "dataCenters" ? places : soldOut));
  return (region) => provider.listOffers(specOf({ region }), never);
}

test("the credential's region is for runs that name none", async () => {
  const searched = async (setting: string, region?: string): Promise<string> => {
    const { provider, asked } = await podhostStub(({ root }) => (root === "dataCenters" ? data(PLACES) : soldOut), {
      region: setting,
    });
    await provider.listOffers(specOf(region === undefined ? {} : { region }), never);
    return JSON.stringify(asked.map(({ body }) => body));
  };
  expect(await searched("EU-RO-1")).toContain("EU-RO-1");
  expect(await searched("EU-RO-1", "SE")).toContain("SE");
  expect(await searched("EU-RO-1", "SE")).not.toContain("EU-RO-1");
  const { code, message } = await thrownBy(searched("Atlantis 9"));
  expect([code, message]).toEqual(["credential_missing", expect.stringContaining("region must be a data centre")]);
});

describe("a region", () => {
  test.each(["us-tx-3", "SE"])("%s that has nothing just now has no offers", async (region) => {
    const offersIn = await offersWhere(data(PLACES));
    expect(await offersIn(region)).toEqual([]);
  });

  test.each([
    ["US-TX-9", "podhost refused the request: it has no data centre US-TX-9; near it: US-TX-3."],
    ["AP-XX-77", "podhost refused the request: it has no data centre AP-XX-77."],
    ["xx", "podhost refused the request: it has no country xx; it has CA, SE."],
  ])("%s that does not exist is refused, with what there is", async (region, message) => {
    const offersIn = await offersWhere(data(PLACES));
    const error = await thrownBy(offersIn(region));
    expect([error.code, error.retry, error.message]).toEqual(["provider_refused", "never", message]);
    expect(error.errors?.[0]?.field).toBe("spec.region");
  });

  test.each<[string, Answer]>([
    ["an error", errors("no")],
    ["nothing", data({})],
    ["an outage", { status: 502 }],
    ["empty lists", data({ dataCenters: [], countryCodes: null })],
  ])("is not judged by %s in place of the list", async (_, places) => {
    const offersIn = await offersWhere(places);
    expect(await offersIn("US-TX-9")).toEqual([]);
    expect(await offersIn("XX")).toEqual([]);
  });
});
