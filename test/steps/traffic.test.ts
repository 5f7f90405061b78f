// The price of a GB of traffic decides between offers of nearly equal price, and between no others.

import { expect, test } from "vitest";
import type { Offer, Provider } from "../../src/providers/provider.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { affordable } from "../../src/steps/provision.ts";

const provider = { name: "market", info: { capabilities: { reports_price: true } } } as Provider;
const order = (offers: readonly Offer[], spec: Record<string, unknown> = {}): string[] =>
  affordable(provider, RunSpec.parse({ entrypoint: "t.py", provider: "market", gpus: "L4", ...spec }), [...offers]).map(
    ({ id }) => id,
  );
const offer = (id: string, usd: number, usdPerGb?: number): Offer => ({
  id,
  priceMicro: usd * 1e6,
  ...(usdPerGb === undefined ? {} : { trafficMicro: usdPerGb * 1e6 }),
});

test("Within one per cent the lower price for traffic goes first; an offer without one comes last", () => {
  const offers = [offer("untold", 0.5), offer("dear traffic", 0.501, 0.04), offer("cheap traffic", 0.504, 0.002)];
  expect(order(offers)).toEqual(["cheap traffic", "dear traffic", "untold"]);
});

test("An hour that costs over one per cent more is never preferred for its traffic", () => {
  expect(order([offer("a", 0.5, 0.5), offer("b", 0.506, 0)])).toEqual(["a", "b"]);
});

test("The cheapest offer's price limits a chain of offers that are close to each other", () => {
  const chain = [1, 1.008, 1.016, 1.024].map((usd, n) => offer(String(n), usd, 1 - n / 10));
  expect(order(chain)).toEqual(["1", "0", "3", "2"]);
});

test("An offer above the cap is not chosen for its traffic, and offers without traffic prices stay unchanged", () => {
  expect(order([offer("a", 0.5, 0.5), offer("b", 0.503, 0)], { price_cap: 0.501 })).toEqual(["a"]);
  expect(order([offer("x", 0.5), offer("y", 0.5), offer("z", 0.501)])).toEqual(["x", "y", "z"]);
});
