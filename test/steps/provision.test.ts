import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { lookAtMachine, type HeldMachine } from "../../src/steps/rental/held-machine.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import type { StepContext } from "../../src/steps/step.ts";
import { SvcError } from "../../src/errors/index.ts";
import { neverSent, ProviderHttp } from "../../src/providers/http.ts";
import { inVain, withoutOthers } from "../../src/providers/provider.ts";
import { removeHomes, turn } from "../engine/harness.ts";
import { down } from "../engine/small-cloud.ts";
import { refusedUrl } from "../refused-url.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const provision = () => rent.run(provisionStep);
describe("an order", () => {
  it("is recorded before the request leaves, under a fixed name", async () => {
    let written: unknown;
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) written = rent.ledger.row(rent.name(1));
    };
    expect(await provision()).toEqual({ done: {}, detail: { machine: rent.name(1), price_per_hour_usd: 1 } });
    expect(written).toMatchObject({ state: "intended", ordinal: 1 });
    expect([rent.states(), rent.cloud.names]).toEqual([["1 held"], [rent.name(1)]]);
  });

  it("is not sent when it cannot be recorded", async () => {
    rent.h.onProbe = (point) => {
      if (point === "commit.before") throw Object.assign(new Error("full"), { code: "SQLITE_FULL" });
    };
    await expect(provision()).rejects.toMatchObject({ code: "disk_full" });
    expect(rent.creates()).toEqual([]);
  });

  it("states a latest instant of its effect that is never too early, however long its commit takes", async () => {
    let slow = true;
    rent.h.onProbe = (point) => {
      if (point !== "commit.before" || !slow) return;
      slow = false;
      void rent.h.clock.jump(20_000);
    };
    let leftAt = 0;
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) leftAt = rent.h.clock.now();
    };
    await provision();
    expect(rent.ledger.row(rent.name(1))?.horizon_at).toBeGreaterThanOrEqual(leftAt + rent.cloud.certainty.horizonMs);
    expect(leftAt).toBeGreaterThan(0);
  });

  it("uses the cheapest offer, in any order of offers", async () => {
    rent.cloud.offers = [
      { id: "dear", priceMicro: 9_000_000 },
      { id: "cheap", priceMicro: 10 },
      { id: "mid", priceMicro: 500 },
    ];
    await provision();
    expect(rent.creates()).toEqual(["create cheap"]);
  });

  it("is not made without an offer", async () => {
    rent.cloud.offers = [];
    await expect(provision()).rejects.toMatchObject({ code: "no_offer" });
    expect(rent.states()).toEqual([]);
  });
});

describe("a run that finds no machine", () => {
  const refuse = (why: string): void => {
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) throw new SvcError("offer_taken", { provider: "podhost", offer: "o", why });
    };
  };

  it("reports at once, in the provider's own words, why each offer was refused", async () => {
    rent.cloud.offers = [1, 2, 3].map((n) => ({ id: `o${n}`, priceMicro: n * 1_000_000 }));
    refuse("There are no longer any instances available with the requested specifications.");
    await expect(provision()).rejects.toMatchObject({
      code: "no_offer",
      retry: "backoff",
      message: expect.stringContaining("no longer any instances available with the requested specifications (3 times)"),
    });
  });

  it("reports which offers the provider omitted, and which prices were not numbers", async () => {
    rent.cloud.offers = withoutOthers([{ id: "o", priceMicro: Number.NaN }], ["RTX4090 is out of stock"]);
    await expect(provision()).rejects.toMatchObject({
      message: expect.stringMatching(/RTX4090 is out of stock; 1 of its offers have no price/) as string,
    });
  });

  it("keeps its message short, for any number and length of reasons", async () => {
    rent.cloud.offers = withoutOthers(
      [],
      Array.from({ length: 10_000 }, (_, n) => `${n} ${"x".repeat(5_000)}`),
    );
    const error = await provision().catch((e: unknown) => e);
    expect((error as SvcError).message.length).toBeLessThan(2_500);
    expect((error as SvcError).message).toContain("and 9996 other reasons");
  });

  it("ends about a minute after the first answer without a machine", async () => {
    rent.cloud.offers = [];
    // Makes a new step for each attempt: it keeps nothing in memory, so a restart in between changes nothing.
    const attempt = (): Promise<unknown> => provision().catch((e: unknown) => e);
    expect(await attempt()).toMatchObject({ code: "no_offer", retry: "backoff" });
    await rent.h.clock.advance(59_000);
    expect(await attempt()).toMatchObject({ code: "no_offer", retry: "backoff" });
    await rent.h.clock.advance(1_000);
    expect(await attempt()).toMatchObject({ code: "no_offer", retry: "never" });
  });

  it("searches once more after this computer slept", async () => {
    rent.cloud.offers = [];
    const step = provisionStep(rent.ports);
    const attempt = (): Promise<unknown> => rent.run(() => step).catch((e: unknown) => e);
    expect(await attempt()).toMatchObject({ code: "no_offer", retry: "backoff" });
    await rent.h.clock.jump(3_600_000);
    expect(await attempt()).toMatchObject({ code: "no_offer", retry: "backoff" });
    await rent.h.clock.advance(20_000);
    expect(await attempt()).toMatchObject({ code: "no_offer", retry: "never" });
  });
});

describe("one node of several that finds no machine", () => {
  beforeEach(() => rent.want({ nodes: 3 }));
  const room = (ids: string[]): void => {
    rent.cloud.offers = ids.map((id) => ({ id, priceMicro: 1_000_000 }));
  };

  it("is retried, and says that another node costs money", async () => {
    await rent.run(provisionStep, 1);
    room([]);
    await expect(provision()).rejects.toMatchObject({
      code: "no_offer",
      retry: "backoff",
      message: expect.stringMatching(/for node 0 .*the machine of one other node is billed/) as string,
    });
    await rent.h.clock.advance(59_000);
    await expect(provision()).rejects.toMatchObject({ code: "no_offer" });
    room(["o"]);
    expect(await provision()).toMatchObject({ done: {} });
  });

  it("ends the run once the other nodes have cost money for a minute", async () => {
    await rent.run(provisionStep, 1);
    await rent.run(provisionStep, 2);
    room([]);
    await rent.h.clock.advance(60_000);
    await expect(provision()).rejects.toMatchObject({
      code: "gang_incomplete",
      retry: "never",
      message: expect.stringMatching(/for node 0 of 3 .*the machines of 2 other nodes are billed/) as string,
    });
  });

  it("searches once more after this computer slept", async () => {
    await rent.run(provisionStep, 1);
    room([]);
    const step = provisionStep(rent.ports);
    const attempt = () => rent.run(() => step);
    await expect(attempt()).rejects.toMatchObject({ code: "no_offer" });
    await rent.h.clock.jump(3_600_000);
    await expect(attempt()).rejects.toMatchObject({ code: "no_offer" });
    await rent.h.clock.advance(20_000);
    await expect(attempt()).rejects.toMatchObject({ code: "gang_incomplete" });
  });

  it("may search as long as any run while nothing costs money", async () => {
    room([]);
    await rent.h.clock.advance(600_000);
    await expect(provision()).rejects.toMatchObject({
      code: "no_offer",
      message: expect.stringContaining("This request rented nothing.") as string,
    });
  });
});

describe("an existing machine", () => {
  it("is used, not ordered again", async () => {
    await provision();
    expect(await provision()).toMatchObject({ done: {}, detail: { machine: rent.name(1) } });
    expect(rent.creates()).toHaveLength(1);
  });

  it("is used when only its answer was lost", async () => {
    rent.loseAnswers();
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    expect(rent.states()).toEqual(["1 unknown"]);
    expect(rent.ledger.row(rent.name(1))?.note).toMatch(/may exist and cost money/);
    expect(await provision()).toMatchObject({ done: {} });
    expect([rent.states(), rent.creates().length, rent.cloud.machines.length]).toEqual([["1 held"], 1, 1]);
  });

  it("is used when it appears late in the listing", async () => {
    rent.loseAnswers();
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    rent.cloud.unlisted.add("pod-1");
    expect(await provision()).toMatchObject({ later: { why: expect.stringContaining("by its name") as string } });
    await rent.h.clock.advance(60_000);
    rent.cloud.unlisted.clear();
    expect(await provision()).toMatchObject({ done: {} });
    expect(rent.creates()).toHaveLength(1);
  });

  it("is used when the computer slept during the call and the machine appears as late as possible", async () => {
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) void rent.h.clock.jump(3_600_000);
    };
    rent.loseAnswers();
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    rent.cloud.unlisted.add("pod-1");
    const { horizonMs, listingLagMs } = rent.cloud.certainty;
    const until = rent.h.clock.now() + horizonMs + listingLagMs;
    while (rent.h.clock.now() < until) {
      expect(await provision()).toMatchObject({ later: {} });
      await rent.h.clock.advance(5_000);
    }
    rent.cloud.unlisted.clear();
    expect(await provision()).toMatchObject({ done: {} });
    expect([rent.states(), rent.creates().length]).toEqual([["1 held"], 1]);
  });

  it("is replaced when the provider says that it is gone", async () => {
    await provision();
    rent.cloud.machines = [];
    expect(await provision()).toMatchObject({ detail: { machine: rent.name(2) } });
    expect(rent.states()).toEqual(["1 released", "2 held"]);
  });
});

describe("an order that made no machine", () => {
  const vanish = async (): Promise<void> => {
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) throw down();
    };
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    rent.cloud.before = () => {};
  };

  it("stays open until no request can take effect and no listing can lag, and then until two consecutive listings were empty", async () => {
    const begun = rent.h.clock.now();
    await vanish();
    const waits = await rent.runToEnd(provisionStep);
    const { horizonMs, listingLagMs, lookGapMs } = rent.cloud.certainty;
    expect(waits.at(-1)).toBe(lookGapMs);
    expect(rent.h.clock.now() - begun).toBeGreaterThanOrEqual(horizonMs + listingLagMs + lookGapMs);
    expect([rent.states(), rent.cloud.names]).toEqual([["1 released", "2 held"], [rent.name(2)]]);
    expect(rent.ledger.row(rent.name(1))?.proof).toMatch(/2 listings/);
  });

  it("keeps the gap between two empty listings, also when another process lists in between", async () => {
    await vanish();
    await rent.h.clock.advance(80_000);
    expect(await provision()).toMatchObject({ later: { afterMs: 5_000 } });
    await rent.h.clock.advance(1_000);
    expect(await provision()).toMatchObject({ later: { afterMs: 4_000 } });
    expect(rent.ledger.row(rent.name(1))).toMatchObject({ state: "unknown", empty_looks: 1 });
  });

  it("is not proven by a listing that was requested too early, however late it answers", async () => {
    await vanish();
    const row = rent.ledger.row(rent.name(1));
    const certainAt = (row?.horizon_at ?? 0) + rent.cloud.certainty.listingLagMs;
    await rent.h.clock.advance(certainAt - rent.h.clock.now() - 1);
    rent.cloud.before = (call) => (call === "list" ? rent.h.clock.advance(30_000) : undefined);
    await provision();
    expect(rent.ledger.row(rent.name(1))?.empty_looks).toBe(0);
  });

  it("stays open while the listing fails: silence does not prove anything", async () => {
    await vanish();
    await rent.h.clock.advance(3_600_000);
    rent.cloud.before = () => {
      throw down();
    };
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    expect(rent.states()).toEqual(["1 unknown"]);
  });
});

describe("a refusal that made a machine anyway", () => {
  const refusesAfterMaking = (
    refusal: SvcError = new SvcError("outcome_unknown", { provider: "podhost", what: "rent" }),
  ): void => {
    rent.cloud.answering = () => {
      const [made] = rent.cloud.machines;
      rent.cloud.answering = () => undefined;
      if (made) throw inVain(refusal, made);
    };
  };

  it("is ended before another order is sent, however long that takes, and never becomes the run's machine", async () => {
    refusesAfterMaking();
    rent.cloud.lies = true;
    await expect(provision()).rejects.toMatchObject({ code: "outcome_unknown" });
    expect(rent.states()).toEqual(["1 releasing"]);
    for (let look = 0; look < 3; look++) expect(await provision()).toHaveProperty("later");
    expect([rent.creates().length, rent.cloud.calls.includes("terminate pod-1")]).toEqual([1, true]);
    rent.cloud.lies = false;
    expect(await provision()).toMatchObject({ done: {}, detail: { machine: rent.name(2) } });
    expect([rent.states(), rent.cloud.names]).toEqual([["1 released", "2 held"], [rent.name(2)]]);
  });

  it("for lack of capacity is ended, too, before the next offer is tried, though a listing shows it", async () => {
    rent.cloud.offers = ["near", "far"].map((id) => ({ id, priceMicro: 1_000_000 }));
    refusesAfterMaking(new SvcError("offer_taken", { provider: "podhost", offer: "near", why: "no room" }));
    rent.cloud.lies = true;
    await expect(provision()).rejects.toMatchObject({ code: "offer_taken" });
    expect([rent.states(), rent.creates().length]).toEqual([["1 releasing"], 1]);
    expect(await provision()).toHaveProperty("later");
    rent.cloud.lies = false;
    expect(await provision()).toMatchObject({ done: {}, detail: { machine: rent.name(2) } });
    expect(rent.cloud.names).toEqual([rent.name(2)]);
  });

  it("is not used either if the process ended before its owner was recorded", async () => {
    refusesAfterMaking();
    await expect(provision()).rejects.toMatchObject({ code: "outcome_unknown" });
    rent.h.store.db.exec("UPDATE machine SET handle = NULL, resource_id = NULL, held_at = NULL");
    await rent.h.clock.advance(rent.cloud.certainty.horizonMs);
    expect(await provision()).toMatchObject({ done: {}, detail: { machine: rent.name(2) } });
    expect(rent.cloud.names).toEqual([rent.name(2)]);
  });
});

describe("a kill", () => {
  it("while offers are listed sends nothing", async () => {
    rent.cloud.before = () => rent.controller.abort(new Error("killed"));
    await expect(provision()).rejects.toThrow("killed");
    expect([rent.creates(), rent.states()]).toEqual([[], []]);
  });

  it("during the commit of the intent closes the order: its request was never sent", async () => {
    rent.h.onProbe = (point) => {
      if (point === "commit.after") rent.controller.abort(new Error("killed"));
    };
    await expect(provision()).rejects.toThrow("killed");
    expect([rent.creates(), rent.states()]).toEqual([[], ["1 released"]]);
    expect(rent.ledger.row(rent.name(1))?.proof).toMatch(/never sent/);
  });

  it("during the creation does not lose the machine: its answer is recorded", async () => {
    const answer = Promise.withResolvers<void>();
    rent.cloud.answering = () => answer.promise;
    const running = provision().catch(() => {});
    await turn();
    rent.controller.abort(new Error("killed"));
    answer.resolve();
    await running;
    expect([rent.states(), rent.cloud.machines.length]).toEqual([["1 held"], 1]);
  });
});

describe("an offer that turns out to be taken", () => {
  const taken = (offer: string) =>
    new SvcError("offer_taken", { provider: "podhost", offer, why: "rented by another" });
  beforeEach(() => {
    rent.cloud.offers = [1, 2, 3].map((n) => ({ id: `offer${n}`, priceMicro: n * 1_000_000 }));
  });

  it("is followed by the next one, each under a name of its own", async () => {
    rent.cloud.before = (call) => {
      if (call === "create offer1" || call === "create offer2") throw taken(call);
    };
    expect(await provision()).toMatchObject({ detail: { machine: rent.name(3) } });
    expect(rent.creates()).toEqual(["create offer1", "create offer2", "create offer3"]);
    expect(rent.ledger.row(rent.name(1))).toMatchObject({ state: "released" });
    expect(rent.cloud.names).toEqual([rent.name(3)]);
  });

  it("is never followed by one above the cap", async () => {
    rent.want({ price_cap: 2 });
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) throw taken(call);
    };
    await expect(provision()).rejects.toMatchObject({ code: "no_offer" });
    expect(rent.creates()).toEqual(["create offer1", "create offer2"]);
  });

  it("is undone when a listing shows the machine anyway", async () => {
    rent.cloud.answering = () => {
      throw taken("offer1");
    };
    expect(await provision()).toMatchObject({ detail: { machine: rent.name(1) } });
    expect([rent.creates().length, rent.states()]).toEqual([1, ["1 held"]]);
  });

  it("is an unknown outcome while no listing is available", async () => {
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) throw taken("offer1");
      if (call === "list") throw down();
    };
    await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
    expect([rent.creates().length, rent.states()]).toEqual([1, ["1 unknown"]]);
  });

  it("is not followed by another when the provider did not say that it made nothing", async () => {
    rent.cloud.before = (call) => {
      if (call.startsWith("create")) throw new SvcError("outcome_unknown", { provider: "podhost", what: "create" });
    };
    await expect(provision()).rejects.toMatchObject({ code: "outcome_unknown" });
    expect([rent.creates().length, rent.states()]).toEqual([1, ["1 unknown"]]);
  });
});

it("The step provision refuses a machine whose price is unknown if there is a cap to hold", async () => {
  rent.want({ price_cap: 2 });
  rent.cloud.priceMicro = null;
  await expect(provision()).rejects.toMatchObject({ code: "price_unknown", retry: "never" });
  rent.want({});
  expect(await provision()).toMatchObject({ detail: { machine: rent.name(1) } });
});

it("The step provision uses the offer's price for the cost if the machine's own is unreadable, and then does not enforce the cap", async () => {
  const create = rent.cloud.create.bind(rent.cloud);
  vi.spyOn(rent.cloud, "create").mockImplementation(async (offer, order) => ({
    ...(await create(offer, order)),
    priceMicro: 1_000_000,
    priceOffered: true,
  }));
  rent.want({ price_cap: 2 });
  await expect(provision()).rejects.toMatchObject({ code: "price_unknown" });
  expect(rent.ledger.row(rent.name(1))).toMatchObject({ price_micro: 1_000_000 });
  await expect(provision()).rejects.toMatchObject({ code: "price_unknown" });
  const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
  const held = () =>
    ({ provider: rent.cloud, handle: rent.ledger.open("job1", 0)[0]!.handle! }) as unknown as HeldMachine;
  const inspect = vi.spyOn(rent.cloud, "inspect").mockResolvedValue({ phase: "ready", address: null });
  await expect(lookAtMachine(rent.ports, context, held())).rejects.toMatchObject({ code: "price_unknown" });
  inspect.mockResolvedValue({ phase: "ready", address: null, priceMicro: 1_500_000 });
  await lookAtMachine(rent.ports, context, held());
  expect(held().handle).toMatchObject({ priceMicro: 1_500_000 });
  expect(held().handle).not.toHaveProperty("priceOffered");
});

it("The step provision recognises a request that never left: nothing has to be looked up before the next one", async () => {
  const http = new ProviderHttp({ provider: "podhost", baseUrl: await refusedUrl(), userAgent: "test" });
  rent.cloud.before = async (call) => {
    if (call.startsWith("create")) await http.call({ method: "POST", path: "/" });
  };
  await expect(provision()).rejects.toMatchObject({ code: "provider_unreachable" });
  expect(rent.ledger.row(rent.name(1))).toMatchObject({ state: "released" });
  rent.cloud.before = (call) => {
    if (call.startsWith("create")) throw neverSent(new SvcError("provider_error", { provider: "podhost", why: "no" }));
  };
  await expect(provision()).rejects.toMatchObject({ code: "provider_error" });
  expect(rent.ledger.row(rent.name(2))).toMatchObject({ state: "released" });
  rent.cloud.before = () => {};
  expect(await provision()).toMatchObject({ detail: { machine: rent.name(3) } });
});
