// The place step, with providers in memory that answer late, refuse, or have no offer.

import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import type { Offer } from "../../src/providers/provider.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import { placeStep } from "../../src/steps/place.ts";
import type { StepDefinition } from "../../src/steps/step.ts";
import { SmallCloud } from "../engine/small-cloud.ts";
import { removeHomes, turn } from "../engine/harness.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
let clouds: Record<string, SmallCloud>;

beforeEach(async () => {
  rent = await Rent.open();
  clouds = { podhost: new SmallCloud(), market: new SmallCloud(), cloudvm: new SmallCloud() };
  rent.ports.provider = (name) => clouds[name] ?? rent.cloud;
  look("podhost", "market", "cloudvm");
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

function look(...providers: NonNullable<RunSpecInput["provider"]>[]): void {
  const candidates = providers.map((provider, index) => ({
    index,
    spec: RunSpec.parse({ entrypoint: "train.py", provider, gpus: "A100" }),
  }));
  rent.search = { candidates, choose: "in_order", since: rent.h.clock.now(), waitMs: 0, refusals: [], unfit: [] };
}
const priced = (usd: number): Offer[] => [{ id: "x", priceMicro: usd * 1e6 }];
const has = (name: string, offers: Offer[]): void => void (clouds[name]!.offers = offers);
const slow = (name: string): void => void (clouds[name]!.before = () => new Promise(() => undefined));

/** The answers of the step while the clock advances. */
async function placed(step: StepDefinition = placeStep(rent.ports), advanceMs = 0) {
  const running = rent.run(() => step);
  running.catch(() => undefined);
  await turn();
  if (advanceMs > 0) await rent.h.clock.advance(advanceMs);
  return running;
}

describe("place", () => {
  it("takes the first candidate that has an offer, in order", async () => {
    has("podhost", []);
    has("market", priced(5));
    has("cloudvm", priced(1));
    const answer = await placed();
    // The reason of the candidate before it, and nothing about the one after it.
    expect(answer).toMatchObject({
      done: { candidate: 1 },
      detail: { passed_over: expect.stringMatching(/^podhost A100: [^;]+$/) as string },
    });
  });

  it("takes the cheapest offer if the spec says so, and one without a price last", async () => {
    rent.search = { ...rent.search, choose: "cheapest" };
    has("podhost", priced(3));
    has("market", priced(2));
    has("cloudvm", priced(4));
    expect(await placed()).toMatchObject({ done: { candidate: 1 } });
  });

  it("takes a candidate with two bad machines last, and one with a single bad machine in its order", async () => {
    has("podhost", priced(1));
    has("market", priced(2));
    has("cloudvm", priced(3));
    const after = async (choose: "in_order" | "cheapest", ...unfit: number[]) => {
      rent.search = { ...rent.search, choose, unfit };
      return (await placed()) as unknown;
    };
    for (const choose of ["in_order", "cheapest"] as const) {
      expect(await after(choose, 0)).toMatchObject({ done: { candidate: 0 } });
      expect(await after(choose, 0, 0)).toMatchObject({ done: { candidate: 1 } });
      expect(await after(choose, 0, 0, 1, 1)).toMatchObject({ done: { candidate: 2 } });
    }
    // If no other candidate has a machine, it is used again.
    has("market", []);
    has("cloudvm", []);
    await rent.h.clock.advance(6_000);
    expect(await after("in_order", 0, 0)).toMatchObject({ done: { candidate: 0 } });
  });

  describe("with a spec that contradicts every candidate", () => {
    const never = (name: string) => {
      const errors = [{ field: "spec.gpus", message: "is not sold there" }];
      clouds[name]!.before = () =>
        Promise.reject(new SvcError("gpus_unsupported", { provider: name, gpus: "Z9" }, { errors }));
    };
    const week = 10_080 * 60_000;

    it("ends after a minute, whatever the wait, with each candidate's reason", async () => {
      for (const name of ["podhost", "market", "cloudvm"]) never(name);
      rent.search = { ...rent.search, waitMs: week };
      expect(await placed()).toMatchObject({ later: {} });
      await rent.h.clock.advance(61_000);
      await expect(placed()).rejects.toMatchObject({ code: "no_offer", message: /podhost.*Z9.*market.*Z9/ });
    });

    it("waits on if one of them has only no stock, or if the search found no contradiction before", async () => {
      for (const name of ["podhost", "market", "cloudvm"]) never(name);
      rent.search = { ...rent.search, waitMs: week };
      await rent.h.clock.advance(11 * 60_000);
      expect(await placed()).toMatchObject({ later: {} });
      look("podhost", "market", "cloudvm");
      rent.search = { ...rent.search, waitMs: week };
      clouds["market"]!.before = () => Promise.resolve();
      has("market", []);
      await rent.h.clock.advance(61_000);
      expect(await placed()).toMatchObject({ later: {} });
    });
  });

  it("does not wait for a provider that never answers while another has an offer", async () => {
    slow("podhost");
    has("market", priced(5));
    expect(await placed(placeStep(rent.ports), 4_000)).toMatchObject({ done: { candidate: 1 } });
  });

  it("skips a candidate that has just refused, and takes it again later", async () => {
    const refused = { candidate: 0, at: rent.h.clock.now(), code: "no_offer", message: "sold out" };
    rent.search = { ...rent.search, refusals: [refused] };
    expect(await placed()).toMatchObject({ done: { candidate: 1 } });
    await rent.h.clock.advance(30_000);
    expect(await placed()).toMatchObject({ done: { candidate: 0 } });
  });

  const refusedAt = (candidate: number, at: number, code: string) => ({ candidate, at, code, message: "refused" });

  it("ends although every candidate has offers, if all of them refused and the time is over", async () => {
    const since = rent.h.clock.now();
    const step = placeStep(rent.ports);
    expect(await placed(step)).toMatchObject({ done: { candidate: 0 } });
    await rent.h.clock.advance(40 * 60_000);
    const at = rent.h.clock.now();
    const refusals = [0, 1, 2].map((candidate) => refusedAt(candidate, at - 60_000 + candidate, "step_timed_out"));
    rent.search = { ...rent.search, since, refusals };
    await expect(placed(step)).rejects.toMatchObject({ code: "no_offer" });
    rent.search = { ...rent.search, refusals: refusals.slice(0, 2) };
    expect(await placed(step)).toMatchObject({ done: { candidate: 2 } });
  });

  it("tries every candidate once more if its time ended while svc did not run", async () => {
    const since = rent.h.clock.now();
    const refusals = [0, 1, 2].map((candidate) => refusedAt(candidate, since + candidate, "step_timed_out"));
    rent.search = { ...rent.search, since, refusals };
    has("podhost", []);
    has("cloudvm", []);
    await rent.h.clock.advance(24 * 3_600_000);
    // After a restart, or a clock that was set forward.
    const step = placeStep(rent.ports);
    expect(await placed(step)).toMatchObject({ done: { candidate: 1 } });
    // The order was refused: the same process does not try it again.
    rent.search = { ...rent.search, refusals: [...refusals, refusedAt(1, rent.h.clock.now(), "step_timed_out")] };
    await rent.h.clock.advance(3_600_000);
    await expect(placed(step)).rejects.toMatchObject({ code: "no_offer" });
  });

  it("passes a candidate over for longer if its orders cost money or can never succeed", async () => {
    const since = rent.h.clock.now();
    await rent.h.clock.advance(10 * 3_600_000);
    const at = rent.h.clock.now();
    rent.search = { ...rent.search, waitMs: 7 * 86_400_000 };
    const after = async (ms: number, code: string) => {
      rent.search = { ...rent.search, since, refusals: [refusedAt(0, at, code)] };
      await rent.h.clock.advance(ms);
      return placed();
    };
    expect(await after(30_000, "offer_taken")).toMatchObject({ done: { candidate: 0 } });
    expect(await after(30_000, "price_cap_exceeded")).toMatchObject({ done: { candidate: 1 } });
    expect(await after(15 * 60_000, "price_cap_exceeded")).toMatchObject({ done: { candidate: 0 } });
  });

  it("asks a refused candidate again at once after the clock was set back", async () => {
    rent.search = { ...rent.search, refusals: [refusedAt(0, rent.h.clock.now() + 3_600_000, "no_offer")] };
    expect(await placed()).toMatchObject({ done: { candidate: 0 } });
  });

  it("ends in time although one provider fails in an unknown way", async () => {
    for (const name of Object.keys(clouds)) has(name, []);
    clouds["market"]!.before = () => {
      throw new TypeError("undefined is not iterable");
    };
    expect(await placed()).toMatchObject({ later: {} });
    await rent.h.clock.advance(60_000);
    await expect(placed()).rejects.toMatchObject({ code: "no_offer" });
    clouds["cloudvm"]!.offers = priced(1);
    expect(await placed()).toMatchObject({ done: { candidate: 2 } });
  });

  it("waits, and gives the reason of each candidate", async () => {
    for (const name of Object.keys(clouds)) has(name, []);
    clouds["market"]!.before = () => {
      throw new SvcError("credential_refused", { provider: "market", why: "401" });
    };
    const answer = await placed();
    expect(answer).toMatchObject({
      later: { detail: { tried: [{ candidate: 0 }, { candidate: 1 }, { candidate: 2 }] } },
    });
    expect(JSON.stringify(answer)).toContain("does not accept the credential");
  });

  it("ends with every candidate's reason when the search times out", async () => {
    for (const name of Object.keys(clouds)) has(name, []);
    rent.search = { ...rent.search, waitMs: 3_600_000 };
    await rent.h.clock.advance(3_599_000);
    expect(await placed()).toMatchObject({ later: { afterMs: 1_000 } });
    await rent.h.clock.advance(1_000);
    await expect(placed()).rejects.toMatchObject({ code: "no_offer", retry: "never" });
    await expect(placed()).rejects.toThrow(/within 1 h 00 min: podhost A100: .*; market A100: .*; cloudvm A100: /);
  });

  it("does not ask a candidate whose image cannot start, and the error at the end names it", async () => {
    const [first, ...candidates] = rent.search.candidates;
    rent.search = { ...rent.search, candidates, ruledOut: [{ ...first!, why: "manifest unknown" }] };
    has("market", []);
    has("cloudvm", []);
    expect(await placed()).toMatchObject({ later: { detail: { tried: [{}, {}, { why: "manifest unknown" }] } } });
    expect(clouds["podhost"]!.calls).toEqual([]);
    await rent.h.clock.advance(60_000);
    await expect(placed()).rejects.toThrow(/market A100: .*; cloudvm A100: .*; podhost A100: manifest unknown/);
  });

  it("sends one request for jobs that wait for the same offers", async () => {
    const step = placeStep(rent.ports);
    for (const name of Object.keys(clouds)) has(name, []);
    await Promise.all(Array.from({ length: 20 }, () => placed(step)));
    expect(clouds["podhost"]!.calls).toEqual(["offers"]);
  });

  it("searches at common instants, on which the jobs of one moment are spread, at most 1.2 minutes apart", async () => {
    const step = placeStep(rent.ports);
    for (const name of Object.keys(clouds)) has(name, []);
    rent.search = { ...rent.search, waitMs: 7 * 86_400_000 };
    await rent.h.clock.advance(3_600_000 + 1_234);
    const next = new Map<number, number>();
    for (let effectId = 1; effectId <= 200; effectId++) {
      const answer = await rent.run(() => step, 0, effectId);
      if (!("later" in answer)) throw new TypeError("a machine was found");
      expect(answer.later.afterMs).toBeGreaterThan(45_000);
      expect(answer.later.afterMs).toBeLessThan(75_000);
      const at = rent.h.clock.now() + answer.later.afterMs;
      next.set(at, (next.get(at) ?? 0) + 1);
    }
    const instants = [...next.keys()].toSorted((a, b) => a - b);
    for (const [i, at] of instants.slice(1).entries()) expect(at - instants[i]!).toBe(5_000);
    expect(instants.length).toBeGreaterThanOrEqual(4);
    expect(Math.max(...next.values())).toBeLessThan(60);
  });

  it("searches again soon at first, and never at once", async () => {
    for (const name of Object.keys(clouds)) has(name, []);
    rent.search = { ...rent.search, waitMs: 3_600_000 };
    const step = placeStep(rent.ports);
    const waits: number[] = [];
    for (let look = 0; look < 10; look++) {
      const answer = await rent.run(() => step);
      if (!("later" in answer)) throw new TypeError("a machine was found");
      waits.push(answer.later.afterMs);
      await rent.h.clock.advance(answer.later.afterMs);
    }
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(2_500);
    expect(Math.max(...waits)).toBeLessThanOrEqual(10_000);
  });
});
