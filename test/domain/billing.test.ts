import { describe, expect, it } from "vitest";
import {
  costMicro,
  endMs,
  estimateMicro,
  lastsMs,
  microOver,
  mostMicro,
  NO_RATES,
  owedMicro,
  spendingOf,
  type BilledMachine,
} from "../../src/domain/billing.ts";

const HOUR = 3_600_000;
const HELD: BilledMachine = {
  provider: "podhost",
  state: "held",
  price_micro: 400_000,
  spent_micro: 0,
  priced_at: null,
  created_at: 0,
  held_at: 1,
  released_at: null,
};
const RELEASED = { ...HELD, state: "released", released_at: HOUR / 2 };

describe("The money of a job's machines", () => {
  it("sums failed machines, unproven ends and the present one, each at its own rate and time", () => {
    const releasing = { ...HELD, state: "releasing", price_micro: 1_000_000 };
    expect(spendingOf([RELEASED, releasing, HELD], HOUR)).toEqual({
      spentMicro: 200_000 + 1_000_000 + 400_000,
      rateMicro: 1_400_000,
      isKnown: true,
    });
  });

  it("counts storage from the order and the GPU from the change of its price", () => {
    const running = { ...HELD, spent_micro: 5_000, priced_at: HOUR / 2 };
    expect(spendingOf([running], HOUR).spentMicro).toBe(205_000);
  });

  it("owes nothing for an order that was proven absent, and the assumed rate for one without an answer", () => {
    const lost = { ...HELD, state: "unknown", held_at: null, price_micro: null };
    expect(owedMicro({ ...lost, state: "released", released_at: 9 }, HOUR, NO_RATES)).toBe(0);
    expect(spendingOf([lost], HOUR, { givenMicro: null, assumedMicro: 2_000_000 })).toMatchObject({
      spentMicro: 2_000_000,
      rateMicro: 2_000_000,
    });
    expect(spendingOf([lost], HOUR)).toMatchObject({ isKnown: false });
    expect(spendingOf([{ ...lost, state: "intended" }], HOUR)).toMatchObject({ isKnown: true, spentMicro: 0 });
  });

  it("never calls an unknown rate 0: it is unknown, or the rate that the user gives, with the provider's minimum", () => {
    const machine = { ...HELD, provider: "cloudvm", price_micro: null };
    expect(spendingOf([machine], HOUR)).toEqual({ spentMicro: 0, rateMicro: 0, isKnown: false });
    const rates = { givenMicro: 3_600_000, assumedMicro: null };
    expect(spendingOf([machine], HOUR, rates)).toEqual({ spentMicro: 3_600_000, rateMicro: 3_600_000, isKnown: true });
    // The price of its offer, which its guard was given with the order.
    expect(spendingOf([{ ...machine, order_micro: 7_200_000 }], HOUR)).toMatchObject({
      rateMicro: 7_200_000,
      isKnown: true,
    });
    // One minute at least, also where the machine was gone after 10 s.
    expect(spendingOf([{ ...machine, released_at: 10_000 }], HOUR, rates).spentMicro).toBe(60_000);
  });

  it("counts the provider's minimum in costs as in budgets, for a reported price and for one that the user gave", () => {
    const short = { ...HELD, provider: "cloudvm", price_micro: 3_600_000, state: "released", released_at: 10_000 };
    expect([costMicro(short, HOUR), owedMicro(short, HOUR, NO_RATES)]).toEqual([60_000, 60_000]);
    expect(costMicro({ ...short, released_at: HOUR }, HOUR)).toBe(3_600_000);
    expect(costMicro({ ...short, price_micro: null }, HOUR)).toBe(0);
    expect(costMicro({ ...short, held_at: null }, HOUR)).toBe(0);
    expect([estimateMicro("cloudvm", 3_600_000, 10_000), estimateMicro("podhost", 3_600_000, 10_000)]).toEqual([
      60_000, 10_000,
    ]);
  });

  it("still grows for a machine whose end the provider refuses", () => {
    const releasing = { ...HELD, state: "releasing" };
    expect(costMicro(releasing, 3 * HOUR)).toBe(1_200_000);
  });

  it("costs nothing on this computer", () => {
    const local = { ...HELD, provider: "local", price_micro: 0 };
    expect(spendingOf([local, { ...local, price_micro: null }], HOUR)).toEqual({
      spentMicro: 0,
      rateMicro: 0,
      isKnown: true,
    });
  });
});

it("An amount lasts for its share of an hour, and for ever at no rate", () => {
  expect(lastsMs(200_000, 400_000)).toBe(HOUR / 2);
  expect(lastsMs(-1, 400_000)).toBe(0);
  expect(lastsMs(1, 0)).toBe(Infinity);
  expect(microOver(400_000, 1)).toBe(1);
});

it("The end takes the grace, the downloads at the measured speed, and the release", () => {
  const end = { graceMs: 10_000, bytes: 30_000_000, releaseMs: 5_000 };
  expect(endMs({ ...end, bytesPerSecond: 1_000_000 })).toBe(45_000);
  expect(endMs({ ...end, bytesPerSecond: null })).toBe(30_000);
  expect(endMs({ ...end, bytesPerSecond: 0 })).toBeGreaterThan(1e9);
});

it("A run costs at most its budget or its time, whichever is less, and is unlimited without both", () => {
  const parts = { rateMicro: 3_600_000, budgetMicro: null, maxRuntimeMs: HOUR, startMs: 60_000, endMs: 40_000 };
  expect(mostMicro(parts)).toBe(3_700_000);
  expect(mostMicro({ ...parts, budgetMicro: 1_000_000 })).toBe(1_000_000);
  expect(mostMicro({ ...parts, rateMicro: null, budgetMicro: 1_000_000 })).toBe(1_000_000);
  expect(mostMicro({ ...parts, maxRuntimeMs: null })).toBeNull();
});
