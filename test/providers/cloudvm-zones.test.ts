// The zones that an order of `cloudvm` is sent to, one after the other.

import { afterEach, beforeEach, expect, it } from "vitest";
import type { Order } from "../../src/providers/provider.ts";
import { CloudStub, failed, MACHINE, never, notFound, spec, ZONE } from "./cloudvm-stub.ts";

const INSERT = `/zones/${ZONE}/instances`;

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
});
afterEach(() => stub.close());

it("a zone that had no capacity recently is tried last", async () => {
  stub.on("POST", INSERT, failed({ code: "ZONE_RESOURCE_POOL_EXHAUSTED", message: "No room." }));
  stub.on("GET", `${INSERT}/${MACHINE}`, notFound());
  const provider = stub.provider();
  const order: Order = { name: MACHINE, jobId: "job000000001", node: 0, spec: spec() };
  const zones = async () => (await provider.listOffers(spec(), never)).map((offer) => offer.extra?.["zone"]);
  const [first] = await provider.listOffers(spec(), never);
  expect(first?.extra?.["zone"]).toBe(ZONE);
  await expect(provider.create(first!, order)).rejects.toMatchObject({ code: "offer_taken" });
  expect([(await zones())[0] === ZONE, (await zones()).at(-1)]).toEqual([false, ZONE]);
  stub.nowMs += 5 * 60_000;
  expect((await zones())[0]).toBe(ZONE);
});
