// A newly created machine may be missing from answers. This process has not seen a machine that only another process
// saw.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { mayHaveBeenSent } from "../../src/providers/http.ts";
import type { MachineHandle, Order } from "../../src/providers/provider.ts";
import {
  CloudStub,
  failed,
  handle,
  instance,
  MACHINE,
  never,
  notFound,
  operation,
  spec,
  ZONE,
} from "./cloudvm-stub.ts";
import { machineRow, NAME, page, PREFIX, refusal, Stub } from "./market-stub.ts";

describe("cloudvm", () => {
  const INSERT = `/zones/${ZONE}/instances`;
  const SELF = `${INSERT}/${MACHINE}`;
  let stub: CloudStub;
  beforeEach(async () => {
    stub = await new CloudStub().listen();
  });
  afterEach(() => stub.close());

  it("keeps a machine that another process found although this one does not find it", async () => {
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

  it("calls a seen machine gone once it has been missing for a minute, and not before, whichever process saw it", async () => {
    stub.on("GET", `/zones/${ZONE}/operations`, { json: { items: [] } });
    for (const restarted of [false, true]) {
      const made = handle({ made_at_ms: String(stub.nowMs) });
      const ssh = [{ host: "203.0.113.9", port: 22, user: "svc" }];
      const provider = stub.provider();
      stub.on("GET", SELF, { json: instance() });
      if (!restarted) await provider.inspect(made, never);
      stub.on("GET", SELF, notFound(SELF));
      const known = restarted ? { ...made, address: "203.0.113.9", ssh } : made;
      for (const at of [0, 40_000, 19_000]) {
        stub.nowMs += at;
        const why = expect.stringContaining("any more") as string;
        expect(await provider.inspect(known, never)).toMatchObject({ phase: "starting", why });
      }
      stub.nowMs += 1_000;
      expect(await provider.inspect(known, never)).toEqual({ phase: "gone" });
    }
  });

  it("keeps a machine that was seen and appears again", async () => {
    const made = handle({ made_at_ms: String(stub.nowMs) });
    stub.on("GET", `/zones/${ZONE}/operations`, { json: { items: [] } });
    stub.on("GET", SELF, { json: instance() }, notFound(SELF), { json: instance() }, notFound(SELF));
    const provider = stub.provider();
    const phases: string[] = [];
    for (let look = 0; look < 4; look++) {
      phases.push((await provider.inspect(made, never)).phase);
      stub.nowMs += 25_000;
    }
    expect(phases).toEqual(["ready", "starting", "ready", "starting"]);
  });

  it("calls a terminated machine gone when its deletion is done, whichever process terminated it", async () => {
    const made = handle({ made_at_ms: String(stub.nowMs) });
    stub.on("GET", `/zones/${ZONE}/operations`, { json: { items: [] } });
    stub.on("GET", SELF, notFound(SELF));
    stub.on("DELETE", SELF, operation({ operationType: "delete" }));
    const provider = stub.provider();
    await provider.terminate(made, never);
    expect(await provider.inspect(made, never)).toEqual({ phase: "gone" });
    stub.on("DELETE", SELF, failed({ code: "INTERNAL_ERROR", message: "try again" }));
    const unlucky = stub.provider();
    await unlucky.terminate(made, never);
    expect((await unlucky.inspect(made, never)).phase).toBe("starting");
  });

  it("is not ordered again so late that it could arrive after the horizon", async () => {
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

  it("is not ordered at all once its token has come too late", async () => {
    stub.tokenAnswer = () => {
      stub.nowMs += 61_000;
      return { json: { access_token: "tok-1", expires_in: 3_599, token_type: "Bearer" } };
    };
    const offer = { id: `${ZONE}.g2-standard-8`, priceMicro: null, extra: { zone: ZONE } };
    const order: Order = { name: MACHINE, jobId: "job000000001", node: 0, spec: spec() };
    const refusal = await stub
      .provider()
      .create(offer, order)
      .catch((e: unknown) => e);
    expect(refusal).toMatchObject({ code: "provider_unreachable" });
    expect(mayHaveBeenSent(refusal)).toBe(false);
    expect(stub.asked("POST", /\/instances$/)).toEqual([]);
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
    // Longer than a listing is reused.
    stub.clock.ms += 5_000;
  };

  it("keeps a machine that another process found although this one does not find it", async () => {
    stub.routes[LIST] = () => page([machineRow()]);
    const [found] = await stub.provider().listOwned(PREFIX, signal);
    vanish();
    const later = stub.provider();
    expect(await later.inspect(found!, signal)).toMatchObject({ phase: "starting" });
    stub.clock.ms += 120_000;
    expect(await later.inspect(found!, signal)).toEqual({ phase: "gone" });
  });

  const young = (change: Partial<MachineHandle> = {}): MachineHandle => {
    const extra = { made_at: String(stub.clock.ms - 1_000) };
    return { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 1, extra, ...change };
  };
  const REACHED = { address: "203.0.113.45", ssh: [{ host: "203.0.113.45", port: 41_022, user: "root" }] };

  it("keeps a seen machine although answers omit it for some seconds", async () => {
    for (const restarted of [false, true]) {
      const made = young(restarted ? REACHED : {});
      const provider = stub.provider();
      stub.routes[LIST] = () => page([machineRow()]);
      if (!restarted) await provider.inspect(made, signal);
      vanish();
      for (let look = 0; look < 3; look++) {
        expect(await provider.inspect(made, signal)).toMatchObject({
          phase: "starting",
          why: expect.stringContaining("any more") as string,
        });
        stub.clock.ms += 12_000;
      }
      stub.routes[LIST] = () => page([machineRow()]);
      expect((await provider.inspect(made, signal)).phase).toBe("ready");
      vanish();
      stub.clock.ms += 1_000;
      expect((await provider.inspect(made, signal)).phase).toBe("starting");
    }
  });

  it("calls a seen machine gone after a minute of misses, and it stays so for every later caller", async () => {
    const made = young();
    const provider = stub.provider();
    stub.routes[LIST] = () => page([machineRow()]);
    expect((await provider.inspect(made, signal)).phase).toBe("ready");
    vanish();
    expect((await provider.inspect(made, signal)).phase).toBe("starting");
    stub.clock.ms += 60_000;
    for (let look = 0; look < 3; look++) {
      expect(await provider.inspect(made, signal)).toEqual({ phase: "gone" });
      stub.clock.ms += 1_000;
    }
  });

  it("calls a machine that was reached before, and that another process ends, gone at its first miss", async () => {
    vanish();
    stub.routes["DELETE /api/v0/instances/9001/"] = () => ({ json: { success: true } });
    const provider = stub.provider();
    await provider.terminate(young(REACHED), signal);
    expect(await provider.inspect(young(REACHED), signal)).toEqual({ phase: "gone" });
    const denied = stub.provider();
    stub.routes["DELETE /api/v0/instances/9001/"] = () => refusal(404, "no_such_instance");
    await denied.terminate(young(REACHED), signal);
    expect((await denied.inspect(young(REACHED), signal)).phase).toBe("starting");
  });

  it("calls a seen machine, whose termination got no answer, gone at its first miss", async () => {
    const provider = stub.provider();
    const made = young(REACHED);
    stub.routes["DELETE /api/v0/instances/9001/"] = () => (vanish(), "cut");
    await expect(provider.terminate(made, signal)).rejects.toMatchObject({ code: "provider_unreachable" });
    stub.routes["DELETE /api/v0/instances/9001/"] = () => refusal(404, "no_such_instance");
    await provider.terminate(made, signal);
    expect(await provider.inspect(made, signal)).toEqual({ phase: "gone" });
  });

  it("calls an unseen machine, whose termination was accepted, gone after a minute of misses", async () => {
    vanish();
    stub.routes["DELETE /api/v0/instances/9001/"] = () => ({ json: { success: true } });
    const provider = stub.provider();
    await provider.terminate(young(), signal);
    expect((await provider.inspect(young(), signal)).phase).toBe("starting");
    const made = young();
    stub.clock.ms += 60_000;
    expect(await provider.inspect(made, signal)).toEqual({ phase: "gone" });
  });
});
