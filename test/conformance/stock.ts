// Scarce stock, bad hosts, changing prices and reclaimed machines: how svc must handle them with every provider.

import { expect, test, type TestContext } from "vitest";
import {
  NOTHING_MADE,
  type MachineHandle,
  type MachineStatus,
  type Offer,
  type Provider,
} from "../../src/providers/provider.ts";
import type { RunSpec } from "../../src/schemas/spec.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually, login, ssh, type Way } from "../sim/harness-parts.ts";
import type { FaultName } from "../sim/providers/parts.ts";
import type { Simulated } from "./world.ts";

export interface StockCase {
  provider: () => Provider;
  spec: () => RunSpec;
  faulty: (ctx: TestContext, ...faults: FaultName[]) => Simulated;
  nextName: () => string;
  /** Orders this offer for this spec. */
  create: (offer: Offer, name: string, spec: RunSpec) => Promise<MachineHandle>;
  reach: (handle: MachineHandle, ...phases: MachineStatus["phase"][]) => Promise<MachineStatus>;
  end: (handle: MachineHandle) => Promise<unknown>;
  alive: (simulated: Simulated) => string[];
  wayOf: (simulated: Simulated, status: MachineStatus) => Way;
  codeOf: (act: Promise<unknown>) => Promise<string | null>;
}

export function stockRows(of: StockCase): void {
  const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
  const offered = (spec: RunSpec): Promise<Offer[]> => of.provider().listOffers(spec, soon());
  const spotSpec = (): RunSpec => ({ ...of.spec(), spot: "only" });
  const first = async (spec: RunSpec): Promise<Offer> => {
    const [offer] = await offered(spec);
    if (!offer) throw new Error("nothing is offered");
    return offer;
  };
  const make = async (spec = of.spec()): Promise<MachineHandle> => of.create(await first(spec), of.nextName(), spec);
  const spot = (ctx: TestContext, ...faults: FaultName[]): Simulated => {
    if (!of.provider().info.capabilities.spot) ctx.skip("it has no spot machines");
    return of.faulty(ctx, ...faults);
  };
  /** The exit code of the driver's tool on the machine. */
  const gpuTool = async (simulated: Simulated, handle: MachineHandle): Promise<number | null> => {
    const way = of.wayOf(simulated, await of.reach(handle, "ready"));
    await login(way);
    return (await ssh(way, "nvidia-smi")).code;
  };

  test("reports that it has no machines for some time, and has machines again afterwards", async (ctx) => {
    const simulated = of.faulty(ctx, "sold_out");
    const offer = await first(of.spec());
    simulated.parts.faults.set("sold_out", 60_000);
    const code = await of.codeOf(of.create(offer, of.nextName(), of.spec()));
    expect(NOTHING_MADE, String(code)).toContain(code);
    expect(of.alive(simulated)).toEqual([]);
    const handle = await eventually(() => make().catch(() => null));
    await of.reach(handle, "ready");
    await of.end(handle);
  });

  test("a host with a dead GPU stays bad for every order, and the other hosts are good", async (ctx) => {
    const simulated = of.faulty(ctx, "bad_hosts");
    if (simulated.parts.fleet.kind === "plain") ctx.skip("machines share this computer's GPU tools here");
    simulated.parts.faults.set("bad_hosts");
    const bad = await make();
    expect(await gpuTool(simulated, bad)).not.toBe(0);
    await of.end(bad);
    const good = await make();
    if (good.extra?.["machine_id"] !== undefined && good.extra["machine_id"] === bad.extra?.["machine_id"])
      expect(await gpuTool(simulated, good)).not.toBe(0);
    else expect(await gpuTool(simulated, good)).toBe(0);
    await of.end(good);
  });

  test("a host whose GPUs another process uses answers as a good one, and has no free memory", async (ctx) => {
    const simulated = of.faulty(ctx, "busy_hosts");
    if (simulated.parts.fleet.kind === "plain") ctx.skip("machines share this computer's GPU tools here");
    simulated.parts.faults.set("busy_hosts");
    const busy = await make();
    const way = of.wayOf(simulated, await of.reach(busy, "ready"));
    await login(way);
    const query = "nvidia-smi --query-gpu=memory.total,memory.free --format=csv,noheader,nounits";
    const { code, out } = await ssh(way, query);
    const [total = 0, free = 0] = out.split(",").map(Number);
    expect([code, total > 0, free < 0.75 * total]).toEqual([0, true, true]);
    await of.end(busy);
  });

  test("a machine of a dead host never comes up, and the next order gets another host", async (ctx) => {
    const simulated = of.faulty(ctx, "dead_hosts");
    simulated.parts.faults.set("dead_hosts");
    const dead = await make();
    // Long enough for another machine to come up.
    await of.reach(dead, "starting");
    const other = await make();
    await of.reach(other, "ready");
    expect((await of.provider().inspect(dead, soon())).phase).toBe("starting");
    await of.end(dead);
    await of.end(other);
  });

  test("reports the machine's own price if it has changed since the search", async (ctx) => {
    const simulated = of.faulty(ctx, "price_moves");
    const offer = await first(of.spec());
    simulated.parts.faults.set("price_moves", 150);
    const handle = await of.create(offer, of.nextName(), of.spec());
    const status = handle.priceMicro === null ? await of.reach(handle, "ready") : null;
    const told = handle.priceMicro ?? (status?.phase === "ready" ? status.priceMicro : null);
    expect(told).toBeGreaterThan((offer.priceMicro ?? 0) * 1.4);
    await of.end(handle);
  });

  test("offers spot machines only to orders that request them", async (ctx) => {
    spot(ctx);
    const kinds = async (choice: RunSpec["spot"]) =>
      new Set((await offered({ ...of.spec(), spot: choice })).map((offer) => offer.spot === true));
    expect(await kinds(undefined)).toEqual(new Set([false]));
    expect(await kinds("never")).toEqual(new Set([false]));
    expect(await kinds("prefer")).toEqual(new Set([true, false]));
    expect(await kinds("only")).toEqual(new Set([true]));
    if (!of.provider().info.capabilities.reports_price) return;
    const onDemand = new Map((await offered(of.spec())).map(({ id, priceMicro }) => [id, priceMicro ?? 0]));
    for (const { id, priceMicro } of await offered(spotSpec()))
      if (onDemand.has(id)) expect(priceMicro).toBeLessThanOrEqual(onDemand.get(id) ?? 0);
  });

  test("charges the offered price for a spot machine", async (ctx) => {
    const simulated = spot(ctx);
    const offer = await first(spotSpec());
    const handle = await of.create(offer, of.nextName(), spotSpec());
    await of.reach(handle, "ready");
    if (of.provider().info.capabilities.reports_price) {
      const billed = (simulated.parts.ledger.alive()[0]?.usdPerHour ?? Number.NaN) * 1e6;
      expect(Math.abs((handle.priceMicro ?? Number.NaN) - billed)).toBeLessThanOrEqual(1);
      expect(Math.abs((offer.priceMicro ?? Number.NaN) - billed)).toBeLessThanOrEqual(1);
    }
    await of.end(handle);
  });

  test.for<FaultName>(["preempted", "spot_taken"])(
    "a spot machine that is taken back (%s) is preempted, never ready again, and leaves nothing to pay for once it is ended",
    async (fault, ctx) => {
      const simulated = spot(ctx, fault);
      simulated.parts.faults.set(fault, 4_000);
      const handle = await make(spotSpec());
      const status = await of.reach(handle, "broken", "gone");
      expect(status).toMatchObject({ preempted: true });
      expect(status).toHaveProperty("why");
      await of.end(handle);
      expect(of.alive(simulated)).toEqual([]);
    },
  );

  test("a spot order whose terms have changed since the search is refused, or reports its new terms", async (ctx) => {
    const simulated = spot(ctx, "price_moves");
    const offer = await first(spotSpec());
    simulated.parts.faults.set("price_moves", 200);
    const code = await of.codeOf(of.create(offer, of.nextName(), spotSpec()));
    expect(code).toBe("offer_taken");
    expect(of.alive(simulated)).toEqual([]);
  });
}
