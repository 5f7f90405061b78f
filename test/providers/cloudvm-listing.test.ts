// Listings of `cloudvm`: machines that cannot be read, and delays that the provider requests.

import { afterEach, beforeEach, expect, it } from "vitest";
import { shownInPart } from "../../src/providers/provider.ts";
import { apiError, CloudStub, handle, instance, MACHINE, never, notFound, ZONE, type Answer } from "./cloudvm-stub.ts";

const LISTING = "/aggregated/instances";
const SELF = `/zones/${ZONE}/instances/${MACHINE}`;
const OURS = "svc-abcd1234-";
const page = (items: unknown): Answer => ({ json: { kind: "compute#instanceAggregatedList", items } });

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
});
afterEach(() => stub.close());

it.each([[null], [7], [{ id: "1" }]])(
  "a machine %j that cannot be read hides no other, and may be any in its zone",
  async (raw) => {
    stub.on("GET", LISTING, page({ [`zones/${ZONE}`]: { instances: [raw, instance()] } }));
    const owned = stub.provider().listOwned(OURS, never);
    const why: unknown = await owned.catch((e: unknown) => e);
    expect(why).toMatchObject({ code: "provider_error", message: expect.stringContaining("cannot be read") as string });
    expect(shownInPart(why)).toMatchObject({ machines: [{ name: MACHINE }], gap: "named" });
    stub.on("GET", LISTING, page({ [`zones/${ZONE}`]: { instances: [raw] } }));
    stub.on("GET", SELF, notFound());
    await expect(stub.provider().inspect(handle(), never)).rejects.toMatchObject({ code: "provider_error" });
  },
);

it.each(["0", "5", "600"])("a delay of %s s is followed within half a second and ten seconds", async (after) => {
  stub.on("GET", LISTING, { ...apiError(503, "backendError", "x"), headers: { "retry-after": after } }, page({}));
  expect(await stub.provider().listOwned(OURS, never)).toEqual([]);
  expect(stub.pauses).toEqual([Math.min(10_000, Math.max(500, Number(after) * 1_000))]);
});
