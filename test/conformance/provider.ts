// One suite for every provider: what the engine relies on, tested on the real code with a simulated provider. A case
// for a capability that the provider lacks is skipped, with the reason.

import { afterAll, afterEach, beforeAll, describe, expect, test, type TestContext } from "vitest";
import { endpointOf, idOf } from "../../src/domain/endpoint.ts";
import { SvcError, type ErrorCode } from "../../src/errors/index.ts";
import { guardDir, guardScript } from "../../src/providers/guard.ts";
import {
  NOTHING_MADE,
  type MachineHandle,
  type MachineStatus,
  type Offer,
  type Provider,
} from "../../src/providers/provider.ts";
import { ProviderInfo } from "../../src/schemas/job.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { eventually, login, ssh, type Way } from "../sim/harness-parts.ts";
import type { FaultName } from "../sim/providers/parts.ts";
import { onTheLastPage, PAGED_FAULTS } from "./pages.ts";
import { stockRows } from "./stock.ts";
import { takenOver, TAKEOVERS } from "./takeover.ts";
import { pause, privateKeyOf, SECRET, type Simulated, type World } from "./world.ts";

const PREFIX = "svc-c0nf0rm1-";

export function conformance(name: string, makeWorld: () => Promise<World>, how = ""): void {
  describe(`${name} keeps the contract of every provider${how && `, ${how}`}`, () => {
    let world: World;
    let provider: Provider;
    let job = 0;
    beforeAll(async () => {
      world = await makeWorld();
      provider = world.provider();
    });
    afterEach(async () => {
      world.mendKey();
      world.simulated?.parts.faults.clear();
      world.simulated?.pages();
      await world.simulated?.clear();
      provider = world.provider();
    });
    afterAll(() => world.close());

    const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);
    const nextName = (): string => `${PREFIX}job${String((job += 1)).padStart(3, "0")}-n0-1`;
    const order = (machine: string) => ({
      name: machine,
      jobId: machine.slice(PREFIX.length, -5),
      node: 0,
      spec: world.spec,
    });
    const cheapest = async (): Promise<Offer> => {
      const [offer] = await provider.listOffers(world.spec, soon());
      if (!offer) throw new Error("nothing is offered");
      return offer;
    };
    const make = async (machine = nextName()): Promise<MachineHandle> =>
      provider.create(await cheapest(), order(machine));
    const reach = (handle: MachineHandle, ...phases: MachineStatus["phase"][]): Promise<MachineStatus> =>
      eventually(async () => {
        const status = await provider.inspect(handle, soon());
        return phases.includes(status.phase) ? status : null;
      });
    const end = (handle: MachineHandle): Promise<unknown> =>
      eventually(async () => {
        await provider.terminate(handle, soon()).catch(() => undefined);
        return (await provider.inspect(handle, soon())).phase === "gone";
      }, 40_000);
    const codeOf = async (act: Promise<unknown>): Promise<ErrorCode | null> => {
      try {
        await act;
        return null;
      } catch (e) {
        if (e instanceof SvcError) return e.code;
        throw e;
      }
    };
    const renting = (ctx: TestContext): Simulated => {
      if (!provider.info.capabilities.owns_machine || !world.simulated) ctx.skip("it rents no machines");
      return world.simulated;
    };
    const faulty = (ctx: TestContext, ...faults: FaultName[]): Simulated => {
      const simulated = renting(ctx);
      for (const fault of faults) if (!simulated.faults.has(fault)) ctx.skip(`${fault} cannot happen to it`);
      return simulated;
    };
    const alive = ({ parts }: Simulated): string[] => parts.ledger.alive().map((line) => line.name);
    const wayOf = (simulated: Simulated, status: MachineStatus): Way => {
      const [way] = status.phase === "ready" ? (status.ssh ?? []) : [];
      if (!way) throw new Error(`no way in: ${JSON.stringify(status)}`);
      return { ...way, keyPath: simulated.parts.keyPath };
    };

    test("describes itself in the schema of providers", () => {
      expect(ProviderInfo.parse({ ...provider.info, connected: true, source: null, missing: [] })).toMatchObject({
        name,
      });
    });

    test("offers machines cheapest first, at honest prices", async () => {
      const offers = await provider.listOffers(world.spec, soon());
      expect(offers.length).toBeGreaterThan(0);
      const prices = offers.map((offer) => offer.priceMicro);
      if (provider.info.capabilities.reports_price) {
        for (const price of prices) expect(Number.isInteger(price) && (price ?? -1) >= 0).toBe(true);
        expect(prices).toEqual(prices.toSorted((a, b) => (a ?? 0) - (b ?? 0)));
      } else expect(new Set(prices)).toEqual(new Set([null]));
    });

    test("charges what it offered", async (ctx) => {
      const simulated = renting(ctx);
      if (!provider.info.capabilities.reports_price) ctx.skip("it reports no price");
      const offer = await cheapest();
      const handle = await provider.create(offer, order(nextName()));
      const billed = simulated.parts.ledger.alive()[0]?.usdPerHour ?? NaN;
      expect(Math.abs((handle.priceMicro ?? NaN) - billed * 1e6)).toBeLessThanOrEqual(1);
      expect(Math.abs((offer.priceMicro ?? NaN) - billed * 1e6)).toBeLessThanOrEqual(1);
      await end(handle);
    });

    test("tells a price that is higher than its offer's", async (ctx) => {
      const simulated = faulty(ctx, "price_higher");
      simulated.parts.faults.set("price_higher", 300);
      const offer = await cheapest();
      const handle = await provider.create(offer, order(nextName()));
      const told =
        handle.priceMicro ?? (await reach(handle, "ready").then((s) => (s.phase === "ready" ? s.priceMicro : null)));
      expect(told).toBeGreaterThan((offer.priceMicro ?? 0) * 1.5);
    });

    test("tells a price that rises while the machine runs", async (ctx) => {
      const simulated = faulty(ctx, "price_rises");
      const handle = await make();
      const first = await reach(handle, "ready");
      simulated.parts.faults.set("price_rises", 300);
      await eventually(async () => {
        const status = await provider.inspect(handle, soon());
        return (
          status.phase === "ready" &&
          (status.priceMicro ?? 0) > 1.5 * ((first.phase === "ready" ? first.priceMicro : 0) ?? Infinity)
        );
      });
    });

    test("makes a machine, and says ready once it can be logged in to", async () => {
      const handle = await make();
      expect(handle).toMatchObject({ v: 1, provider: name });
      expect(JSON.parse(JSON.stringify(handle))).toEqual(handle);
      const status = await reach(handle, "ready");
      const simulated = world.simulated;
      if (!simulated) return;
      const way = wayOf(simulated, status);
      expect(endpointOf(way.host, way.port, way.user)).not.toBeNull();
      await eventually(async () => {
        const tried = await ssh(way, "echo in");
        if (tried.code === 255) await provider.attachKey?.(handle, soon());
        return tried.out === "in\n";
      });
      const root = await ssh(way, 'if [ "$(id -u)" = 0 ]; then id -u; else sudo -n id -u; fi');
      if (simulated.parts.fleet.kind === "namespaces") expect(root.out.trim()).toBe("0");
      if (provider.info.capabilities.owns_machine) await end(handle);
    });

    test("lists a machine once, under the name it was ordered by, also after a restart", async (ctx) => {
      renting(ctx);
      const handle = await make();
      provider = world.provider();
      const found = await eventually(async () => {
        const owned = await provider.listOwned(PREFIX, soon());
        return owned.length > 0 ? owned : null;
      });
      expect(found.map((one) => [one.name, one.id])).toEqual([[handle.name, handle.id]]);
      const [adopted] = found as [MachineHandle];
      await reach(adopted, "ready");
      await end(adopted);
    });

    test("lists ours as ours and everybody else's as theirs, and touches theirs never", async (ctx) => {
      const simulated = renting(ctx);
      if (!simulated.addForeign) ctx.skip("nobody else can be on it");
      const strangers = ["somebody-else", "svc-0ther000-job001-n0-1", `x-${PREFIX}job001-n0-1`];
      for (const stranger of strangers) simulated.addForeign?.(stranger);
      const handle = await make();
      await eventually(async () => (await provider.listOwned(PREFIX, soon())).length === 1);
      expect((await provider.listOwned(PREFIX, soon())).map((one) => one.name)).toEqual([handle.name]);
      if (provider.listForeign) {
        const foreign = (await provider.listForeign(PREFIX, soon())).map((one) => one.name ?? "");
        expect(foreign.toSorted()).toEqual(strangers.toSorted());
      }
      await end(handle);
      const theirs = simulated.parts.ledger.all().filter((line) => line.foreign && strangers.includes(line.name));
      expect(theirs.map((line) => line.endedAtMs)).toEqual([null, null, null]);
    });

    test.for<FaultName>(["lost_after_create", "error_after_create", "html_200", "cut_json"])(
      "after %s it never says that nothing was made, and finds the machine by its name",
      async (fault, ctx) => {
        const simulated = faulty(ctx, fault, "listing_lag");
        const machine = nextName();
        const offer = await cheapest();
        simulated.parts.faults.set(fault);
        simulated.parts.faults.set("listing_lag", 2_000);
        const code = await codeOf(provider.create(offer, order(machine)));
        if (alive(simulated).length === 0) {
          // It failed before the order left.
          expect(code).not.toBeNull();
          return;
        }
        expect(alive(simulated)).toEqual([machine]);
        if (code !== null) expect(NOTHING_MADE.has(code)).toBe(false);
        const found = await eventually(async () => (await provider.listOwned(PREFIX, soon()))[0]);
        expect(found.name).toBe(machine);
        await end(found);
        expect(alive(simulated)).toEqual([]);
      },
    );

    test.for<FaultName>(["error_before_create", "hang"])(
      "after %s it leaves open whether a machine was made",
      async (fault, ctx) => {
        const simulated = faulty(ctx, fault);
        const offer = await cheapest();
        simulated.parts.faults.set(fault);
        const code = await codeOf(provider.create(offer, order(nextName())));
        if (code === null) expect(alive(simulated)).toHaveLength(1);
        else expect(NOTHING_MADE.has(code)).toBe(false);
      },
    );

    test.for<FaultName>(["offer_taken", "no_capacity"])(
      "after %s it says that nothing was made, and nothing was",
      async (fault, ctx) => {
        const simulated = faulty(ctx, fault);
        const offer = await cheapest();
        simulated.parts.faults.set(fault);
        const code = await codeOf(provider.create(offer, order(nextName())));
        expect(NOTHING_MADE, String(code)).toContain(code);
        expect(alive(simulated)).toEqual([]);
      },
    );

    test.for(PAGED_FAULTS)(
      "the list comes in pages, and ours is on the last one (%s): it is found, ended, and never taken for absent",
      async (fault, ctx) => {
        const simulated = fault === "none" ? renting(ctx) : faulty(ctx, fault);
        if (!simulated.addForeign) ctx.skip("nobody else can be on it");
        const machine = nextName();
        const offer = await cheapest();
        const create = () => codeOf(provider.create(offer, order(machine)));
        await onTheLastPage({ simulated, provider, prefix: PREFIX, machine, fault, create, end });
      },
    );

    test.for(TAKEOVERS)(
      "%s in the middle of a run: the other API finds, ends and orders machines, none twice",
      async (fault, ctx) => {
        const names = [nextName(), nextName(), nextName()] as const;
        await takenOver({ simulated: faulty(ctx, fault), provider, prefix: PREFIX, fault, make, names, end });
      },
    );

    test.for<FaultName>(["html_200", "cut_json", "json_bomb", "rate_limited"])(
      "a listing spoilt by %s is no empty listing",
      async (fault, ctx) => {
        const simulated = faulty(ctx, fault);
        const handle = await make();
        await eventually(async () => (await provider.listOwned(PREFIX, soon())).length === 1);
        simulated.parts.faults.set(fault, 10_000);
        expect(await codeOf(provider.listOwned(PREFIX, soon()))).not.toBeNull();
        const looked = await provider.inspect(handle, soon()).catch(() => null);
        expect(looked?.phase).not.toBe("gone");
      },
    );

    test("a machine that listings do not show yet is not gone", async (ctx) => {
      const simulated = faulty(ctx, "listing_lag");
      simulated.parts.faults.set("listing_lag", 20_000);
      const handle = await make();
      for (let look = 0; look < 5; look += 1) {
        expect((await provider.inspect(handle, soon())).phase).not.toBe("gone");
        await pause(50);
      }
      simulated.parts.faults.clear();
      await end(handle);
    });

    test("ends a machine as often as it is asked, and says gone only when it is", async () => {
      const handle = await make();
      if (!provider.info.capabilities.owns_machine) {
        await provider.terminate(handle, soon());
        await provider.terminate(handle, soon());
        expect((await provider.inspect(handle, soon())).phase).toBe("gone");
        return;
      }
      await reach(handle, "ready");
      await provider.terminate(handle, soon());
      const simulated = world.simulated;
      await eventually(async () => {
        await provider.terminate(handle, soon()).catch(() => undefined);
        const { phase } = await provider.inspect(handle, soon());
        if (phase === "gone") expect(simulated ? alive(simulated) : []).toEqual([]);
        return phase === "gone";
      });
      await provider.terminate(handle, soon());
      if (simulated)
        expect(simulated.parts.ledger.all().find((line) => line.name === handle.name)?.endedBy).toBe("terminated");
    });

    test("orders the next machine of a node, and shows nothing of the end of the one before", async () => {
      const name = nextName();
      await end(await make(name));
      const next = await make(name.replace(/1$/, "2"));
      expect((await reach(next, "ready", "gone")).phase).toBe("ready");
      await end(next);
    });

    test.for<FaultName>(["delete_ignored", "delete_errors", "delete_lost"])(
      "%s does not make a machine gone, and it is ended all the same",
      async (fault, ctx) => {
        const simulated = faulty(ctx, fault);
        const handle = await make();
        await reach(handle, "ready");
        simulated.parts.faults.set(fault);
        await eventually(async () => {
          await provider.terminate(handle, soon()).catch(() => undefined);
          const { phase } = await provider.inspect(handle, soon());
          if (phase === "gone") expect(alive(simulated)).toEqual([]);
          return phase === "gone";
        }, 40_000);
      },
    );

    test("a key that is refused says so, and makes nothing gone", async (ctx) => {
      const simulated = renting(ctx);
      if (!world.spoilKey) ctx.skip("it has no key");
      const handle = await make();
      await reach(handle, "ready");
      const offer = await cheapest();
      const before = alive(simulated);
      world.spoilKey?.();
      for (const used of [provider, world.provider()]) {
        for (let turn = 0; turn < 2; turn += 1) {
          expect(await codeOf(used.listOwned(PREFIX, soon()))).toBe("credential_refused");
          // A machine that was seen recently may still be reported; only "gone" would be wrong.
          const told = await eventually(() =>
            used.inspect(handle, soon()).then(
              ({ phase }) => (phase === "gone" ? phase : null),
              (e: unknown) => (e instanceof SvcError ? e.code : String(e)),
            ),
          );
          expect(told).toBe("credential_refused");
          expect(await codeOf(used.terminate(handle, soon()))).toBe("credential_refused");
          if (used.account) expect(await codeOf(used.account(soon()))).toBe("credential_refused");
        }
      }
      expect(await codeOf(provider.create(offer, order(nextName())))).toMatch(/^(credential_refused|offer_taken)$/);
      expect(alive(simulated)).toEqual(before);
      world.mendKey();
      await end(handle);
    });

    test("nothing hostile that it is told becomes a way in or an id", async (ctx) => {
      const simulated = faulty(ctx, "hostile_strings");
      simulated.parts.faults.set("hostile_strings");
      const offers = await provider.listOffers(world.spec, soon()).catch(() => []);
      for (const offer of offers) expect(offer.id).toMatch(/^[A-Za-z0-9][A-Za-z0-9 ._:()-]*$/);
      const [offer] = offers;
      if (!offer) return;
      const made = await provider.create(offer, order(nextName())).catch(() => null);
      if (made === null) return;
      expect(idOf(made.id)).toBe(made.id);
      for (let look = 0; look < 20; look += 1) {
        const status = await provider.inspect(made, soon()).catch(() => null);
        const ways = status?.phase === "ready" ? (status.ssh ?? []) : [];
        for (const way of ways) expect(endpointOf(way.host, way.port, way.user)).not.toBeNull();
        expect(JSON.stringify(ways)).not.toMatch(/ProxyCommand|touch|[;$]/);
        await pause(60);
      }
    });

    test.for<FaultName>(["price_nan", "price_null", "price_text"])("%s is no offer", async (fault, ctx) => {
      const simulated = faulty(ctx, fault);
      simulated.parts.faults.set(fault);
      const offers = await provider.listOffers(world.spec, soon()).catch(() => []);
      for (const { priceMicro } of offers) expect(Number.isFinite(priceMicro) && (priceMicro ?? 0) > 0).toBe(true);
    });

    test("a machine that comes up broken is called broken; one that never comes up is waited for", async (ctx) => {
      const simulated = faulty(ctx, "boot_fails", "boot_never");
      simulated.parts.faults.set("boot_fails");
      const broken = await make();
      const status = await reach(broken, "broken", "ready", "gone");
      expect(status.phase).toBe("broken");
      await end(broken);
      simulated.parts.faults.set("boot_never");
      const never = await make();
      for (let look = 0; look < 10; look += 1) {
        expect((await provider.inspect(never, soon())).phase).toBe("starting");
        await pause(40);
      }
      await end(never);
    });

    test("a machine that vanished is gone", async (ctx) => {
      const simulated = faulty(ctx, "vanishes");
      const handle = await make();
      await reach(handle, "ready");
      simulated.parts.faults.set("vanishes", 0);
      await reach(handle, "gone");
      expect(alive(simulated)).toEqual([]);
    });

    test("one that was taken back is broken or gone, never ready", async (ctx) => {
      const simulated = faulty(ctx, "preempted");
      const handle = await make();
      await reach(handle, "ready");
      simulated.parts.faults.set("preempted", 0);
      await reach(handle, "broken", "gone");
      await end(handle);
      expect(alive(simulated)).toEqual([]);
    });

    test("what a machine is to end itself with does end it", async (ctx) => {
      const simulated = renting(ctx);
      const handle = await make();
      const text = provider.selfEnd(handle.name);
      if (text === null) return ctx.skip("it has no way for that");
      if (simulated.parts.fleet.kind === "plain") return ctx.skip("machines share this computer's first process here");
      const way = wayOf(simulated, await reach(handle, "ready"));
      await login(way);
      // The two variables that such a text may use, as the guard defines them.
      const guard = guardScript({ name: handle.name, graceSeconds: 60, stopSeconds: 10, selfEnd: text });
      const words = guard.slice(guard.indexOf("uptime_s() {"), guard.indexOf("end_machine() {"));
      const script = Buffer.from(`dir=${guardDir(handle.name)}\n${words}\n(\n${text}\n)\n`).toString("base64");
      const sudo = way.user === "root" ? "" : "sudo -n ";
      const done = await ssh(way, `echo ${script} | base64 -d >/tmp/end.sh; ${sudo}sh /tmp/end.sh; true`);
      const ended = await eventually(async () => {
        const line = simulated.parts.ledger.all().find((one) => one.name === handle.name);
        if (line?.endedBy === "self") return "by its own key";
        return (await provider.inspect(handle, soon())).phase === "broken" ? "powered off" : null;
      }, 15_000).catch((e: unknown) => `${String(e)}: ${done.out}${done.err}`);
      expect(ended).toMatch(/^(by its own key|powered off)$/);
      await end(handle);
    });

    stockRows({
      provider: () => provider,
      spec: () => world.spec,
      create: (offer, machine, asked) => provider.create(offer, { ...order(machine), spec: asked }),
      faulty,
      nextName,
      reach,
      end,
      alive,
      wayOf,
      codeOf,
    });

    test("no secret stands where the provider shows machines", async (ctx) => {
      const simulated = renting(ctx);
      await make();
      const shown = await simulated.everythingShown();
      expect(shown).toContain(PREFIX);
      expect(shown).not.toContain(SECRET);
      expect(shown).not.toContain(simulated.parts.apiKey);
      expect(shown).not.toContain(privateKeyOf(simulated.parts).split("\n")[2]);
      expect(shown).not.toContain("PRIVATE KEY");
    });
  });
}
