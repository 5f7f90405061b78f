import { describe, expect, it } from "vitest";
import {
  costText,
  costUsd,
  isWithinCap,
  microOf,
  priceMicroOf,
  rentMicroOf,
  spentText,
  usdOf,
  usdOrNull,
} from "../../src/domain/money.ts";

const HOUR = 3_600_000;
const row = { price_micro: 400_000, spent_micro: 0, priced_at: null, created_at: 0, held_at: 1, released_at: null };

describe("costUsd", () => {
  it("counts from the order until now, and after the end until the end", () => {
    expect(costUsd(row, 2 * HOUR)).toBeCloseTo(0.8, 9);
    expect(costUsd({ ...row, released_at: HOUR }, 9 * HOUR)).toBeCloseTo(0.4, 9);
  });

  it("adds the cost at an earlier price", () => {
    expect(costUsd({ ...row, spent_micro: 100_000, priced_at: HOUR }, 2 * HOUR)).toBeCloseTo(0.5, 9);
  });

  it("reads a row of the first schema, which has no price changes", () => {
    expect(costUsd({ ...row, spent_micro: undefined, priced_at: undefined }, HOUR)).toBeCloseTo(0.4, 9);
  });

  it("adds nothing without a reported price, before the machine was held, or for a clock set back", () => {
    expect(costUsd({ ...row, price_micro: null }, HOUR)).toBe(0);
    expect(costUsd({ ...row, held_at: null }, HOUR)).toBe(0);
    expect(costUsd(row, -HOUR)).toBe(0);
  });
});

it("A price is rounded up to a micro-dollar, and a price that is not a number is null and within no cap", () => {
  expect(priceMicroOf(0.1234567)).toBe(123_457);
  expect([priceMicroOf("1"), priceMicroOf(Number.NaN), priceMicroOf(-1)]).toEqual([null, null, null]);
  expect([isWithinCap(400_000, 0.4), isWithinCap(400_001, 0.4), isWithinCap(Number.NaN, 0.4)]).toEqual([
    true,
    false,
    false,
  ]);
  expect([usdOf(1), usdOrNull(null), microOf(0.0000014)]).toEqual([0.000001, null, 1]);
});

it("A rented machine's price may be text and has a maximum, and 0 is none", () => {
  expect([7.5, "7.50", " 7.5 ", "7.5e0", "+7.5", "7500000e-6"].map(rentMicroOf)).toEqual(Array(6).fill(7_500_000));
  expect([1_000_001, 1e300, Infinity, "99999999999999999999", "1e999"].map(rentMicroOf)).toEqual(Array(5).fill(1e12));
  expect(
    [0, -0, "0", "0.00", -1, "-1", Number.NaN, null, undefined, "", "$7.50", "7,50", "0x7", [7], {}].map(rentMicroOf),
  ).toEqual(Array(15).fill(null));
  expect(rentMicroOf(0.000_000_1)).toBe(1);
});

it("A cost with an unreported price is unknown or a lower bound, and never $0.00", () => {
  const machines = (...prices: (number | null)[]) => prices.map((price_per_hour_usd) => ({ price_per_hour_usd }));
  expect(costText({ cost_usd: 0, machines: [] })).toBe("$0.00");
  expect(costText({ cost_usd: 0.4, machines: machines(0.4, 0) })).toBe("$0.40");
  expect(costText({ cost_usd: 0, machines: machines(null) })).toBe("unknown");
  expect(costText({ cost_usd: 0.4, machines: machines(0.4, null) })).toBe("> $0.40");
});

it("The cost of a run is shown next to its budget, also if it is only an estimate or unknown", () => {
  const job = { cost_usd: 0.31, machines: [{ price_per_hour_usd: 0.4 }], budget_usd: 2, spent_usd: 0.31 };
  expect(spentText(job)).toBe("$0.31 of $2.00");
  expect(spentText({ ...job, budget_usd: null })).toBe("$0.31");
  expect(spentText({ ...job, cost_usd: 0, spent_usd: 1.999 })).toBe("$1.999 of $2.00");
  const unknown = { ...job, machines: [{ price_per_hour_usd: null }], cost_usd: 0, spent_usd: null };
  expect(spentText(unknown)).toBe("unknown of $2.00");
});
