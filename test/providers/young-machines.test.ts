// A machine that was just made may be missing from answers. What another process saw of it, this one has not seen.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Order } from "../../src/providers/provider.ts";
import { CloudStub, instance, MACHINE, never, notFound, spec, ZONE } from "./cloudvm-stub.ts";
import { machineRow, NAME, page, PREFIX, Stub } from "./market-stub.ts";

describe("cloudvm", () => {
  const INSERT = `/zones/${ZONE}/instances`;
  const SELF = `${INSERT}/${MACHINE}`;
  let stub: CloudStub;
  beforeEach(async () => {
    stub = await new CloudStub().listen();
  });
  afterEach(() => stub.close());

  it("that another process found is not gone because this one does not find it", async () => {
    const items = { [`zones/${ZONE}`]: { instances: [instance()] } };
    stub.on("GET", "/aggregated/instances", { json: { items } });
    const [found] = await stub.provider().listOwned("svc-abcd1234-", never);
    stub.on("GET", SELF, notFound(SELF));
    stub.on("GET", `/zones/${ZONE}/operations`, { json: { items: [] } });
    const later = stub.provider();
    expect(await later.inspect(found!, never)).toMatchObject({ phase: "starting" });
    stub.nowMs += 120_000;
    expect(await later.inspect(found!, never)).toEqual({ phase: "gone" });
  });

  it("is not ordered again so late that it could come after the horizon", async () => {
    stub.on("POST", INSERT, () => {
      stub.nowMs += 31_000;
      return { status: 503, text: "<html>busy</html>" };
    });
    const begun = stub.nowMs;
    const offer = { id: `${ZONE}.g2-standard-8`, priceMicro: null, extra: { zone: ZONE } };
    const order: Order = { name: MACHINE, jobId: "job000000001", node: 0, spec: spec() };
    await expect(stub.provider().create(offer, order)).rejects.toMatchObject({ code: "outcome_unknown" });
    expect(stub.asked("POST", /\/instances$/)).toHaveLength(2);
    expect(stub.provider().certainty.horizonMs).toBeGreaterThan(stub.nowMs - begun + 60_000);
  });
});

describe("market", () => {
  const LIST = "GET /api/v1/instances/";
  const GET = "GET /api/v0/instances/9001/";
  const { signal } = new AbortController();
  let stub: Stub;
  beforeEach(async () => {
    stub = await new Stub().start();
  });
  afterEach(() => stub.close());
  const vanish = (): void => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => ({ json: { instances: null } });
  };

  it("that another process found is not gone because this one does not find it", async () => {
    stub.routes[LIST] = () => page([machineRow()]);
    const [found] = await stub.provider().listOwned(PREFIX, signal);
    vanish();
    const later = stub.provider();
    expect(await later.inspect(found!, signal)).toMatchObject({ phase: "starting" });
    stub.clock.ms += 120_000;
    expect(await later.inspect(found!, signal)).toEqual({ phase: "gone" });
  });

  it("that was seen and is gone stays gone, whoever asks next", async () => {
    const extra = { made_at: String(stub.clock.ms - 1_000) };
    const handle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1, extra } as const;
    const provider = stub.provider();
    stub.routes[LIST] = () => page([machineRow()]);
    expect((await provider.inspect(handle, signal)).phase).toBe("ready");
    vanish();
    for (let look = 0; look < 3; look++) {
      stub.clock.ms += 10_000;
      expect(await provider.inspect(handle, signal)).toEqual({ phase: "gone" });
    }
  });
});
