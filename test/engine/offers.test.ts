// The book of live offers: how often it asks a provider, and what becomes of errors.

import { expect, test } from "vitest";
import { systemClock } from "../../src/domain/clock.ts";
import { OfferBook } from "../../src/engine/offers.ts";
import { SvcError } from "../../src/errors/index.ts";
import { infoOf } from "../../src/providers/descriptors.ts";
import type { Offer, Provider } from "../../src/providers/provider.ts";
import type { RunSpec } from "../../src/schemas/spec.ts";

const FRESH_MS = 300_000;

/** A provider that notes what it is asked; `answer` may throw. */
function asked(name: Provider["name"], answer: (spec: RunSpec) => Promise<Offer[]>) {
  const seen: string[] = [];
  let now = 0;
  let most = 0;
  const listOffers = async (spec: RunSpec): Promise<Offer[]> => {
    seen.push(spec.gpus);
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    now -= 1;
    return answer(spec);
  };
  // The book reads these alone.
  const provider = { name, listOffers, info: infoOf(name) } as unknown as Provider;
  return { provider, seen, most: () => most };
}

const clock = { ...systemClock, at: 0, monotonic: () => clock.at };
const offer = (usd: number, more: Partial<Offer> = {}): Offer => ({ id: `at ${usd}`, priceMicro: usd * 1e6, ...more });

test("The same question is asked once in five minutes, and an error is not remembered", async () => {
  let fails = true;
  const { provider, seen } = asked("podhost", () => {
    if (fails) throw new SvcError("provider_unreachable", { provider: "podhost", why: "refused" });
    return Promise.resolve([offer(2), offer(1)]);
  });
  const book = new OfferBook();
  const parts = { clock, providers: new Map([["podhost", provider]]), connected: ["podhost" as const] };
  const first = await book.list({ gpus: "A40" }, parts);
  expect(first).toMatchObject({ offers: [], asked: [{ error: { code: "provider_unreachable" } }] });
  fails = false;
  const second = await book.list({ gpus: "A40", price_cap: 1.5 }, parts);
  expect(second.offers.map((o) => [o.price_per_hour_usd, o.within_cap])).toEqual([
    [1, true],
    [2, false],
  ]);
  clock.at += FRESH_MS - 1;
  expect((await book.list({ gpus: "A40" }, parts)).offers[0]?.age_seconds).toBeCloseTo(299.999);
  expect(seen).toHaveLength(2);
  clock.at += 2;
  await book.list({ gpus: "A40" }, parts);
  expect(seen).toHaveLength(3);
});

test("A question about spot machines is a question of its own, and a provider without them is not asked", async () => {
  const market = asked("market", () => Promise.resolve([offer(1)]));
  const podhost = asked("podhost", () => Promise.resolve([offer(1)]));
  const providers = new Map([market, podhost].map(({ provider }) => [provider.name, provider]));
  const parts = { clock, providers, connected: ["market" as const, "podhost" as const] };
  const book = new OfferBook();
  await book.list({ gpus: "A40" }, parts);
  const told = await book.list({ gpus: "A40", spot: "only" }, parts);
  expect([market.seen, podhost.seen]).toEqual([["A40", "A40"], ["A40"]]);
  expect(told.asked.map(({ error }) => error?.code ?? "answered").toSorted()).toEqual(["answered", "spot_unsupported"]);
});

test("Two questions at once are one question", async () => {
  const { provider, seen } = asked("market", () => Promise.resolve([offer(1)]));
  const parts = { clock, providers: new Map([["market", provider]]), connected: ["market" as const] };
  const book = new OfferBook();
  await Promise.all([book.list({ gpus: "A40" }, parts), book.list({ gpus: "A40" }, parts)]);
  expect(seen).toEqual(["A40"]);
});

test("Without a model every common one is asked for, two at a time, and a failing provider hides no other", async () => {
  const podhost = asked("podhost", ({ gpus }) => Promise.resolve(gpus === "A40" ? [offer(0.4)] : []));
  const market = asked("market", () => {
    throw new SvcError("credential_refused", { provider: "market", why: "401" });
  });
  const local = asked("local", () => Promise.resolve([offer(0)]));
  const told = await new OfferBook().list(
    {},
    {
      clock,
      providers: new Map([podhost, market, local].map(({ provider }) => [provider.name, provider])),
      connected: ["local", "podhost", "market"],
    },
  );
  expect(told.offers.map(({ provider, gpus }) => [provider, gpus])).toEqual([["podhost", "A40"]]);
  expect(podhost.seen.length).toBeGreaterThan(5);
  expect(podhost.most()).toBe(2);
  expect(local.seen).toEqual([]);
  expect(new Set(told.asked.map(({ provider, error }) => `${provider} ${error?.code ?? "answered"}`))).toEqual(
    new Set(["podhost answered", "market credential_refused"]),
  );
});

test("A provider that does not answer in time is counted as open, and its answer serves the next call", async () => {
  const { promise, resolve } = Promise.withResolvers<Offer[]>();
  const { provider, seen } = asked("podhost", () => promise);
  const book = new OfferBook();
  const parts = { clock, providers: new Map([["podhost", provider]]), connected: ["podhost" as const] };
  expect(await book.list({ gpus: "A40", within_seconds: 0 }, parts)).toEqual({ offers: [], asked: [], open: 1 });
  resolve([offer(1)]);
  expect((await book.list({ gpus: "A40" }, parts)).offers).toHaveLength(1);
  expect(seen).toEqual(["A40"]);
});
