// The amount that an order without a proven outcome counts (ADR 0035): never less than the bill of a machine that it may have made, never more than the
// budget gave to it. Each round draws one order, and the machine that came of it, if one did.

import { expect, it } from "vitest";
import { mayHaveRunUntil, owedMicro, spendingOf, NO_RATES, type BilledMachine } from "../../src/domain/billing.ts";
import { localCalendar } from "../../src/domain/calendar.ts";
import { cellsOf } from "../../src/domain/costs.ts";
import { machineLimit } from "../../src/domain/budget.ts";

const HOUR = 3_600_000;
/** The guard looks every 2 s, and its call takes some seconds: docs/quality/budgets.md allows 10 s. */
const GUARD_LATE_MS = 10_000;

/** Mulberry32: a small generator with a seed. */
function randomOf(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const ORDER: BilledMachine = {
  provider: "podhost",
  state: "unknown",
  price_micro: null,
  spent_micro: 0,
  priced_at: null,
  created_at: 0,
  horizon_at: 60_000,
  held_at: null,
  released_at: null,
  order_micro: 3_600_000,
  most_micro: null,
  doubt_at: null,
};

it("An order whose machine ended itself unseen counts at least its bill, and at most what the budget gave to it", () => {
  const seed = Date.now() % 1_000_000;
  const random = randomOf(seed);
  const within = (max: number): number => Math.floor(random() * max);
  let counted = 0;
  for (let n = 0; n < 5_000; n++) {
    const created_at = within(1_000_000);
    const order_micro = 100_000 + within(20_000_000);
    const price = order_micro - within(order_micro / 2);
    const most_micro = 1_000 + within(3_000_000);
    const limit = machineLimit(most_micro, price, within(60));
    const endsFrom = created_at + (limit?.endSeconds ?? Infinity) * 1_000;
    const landedAt = created_at + within(60_000);
    const goneAt = Math.max(landedAt, endsFrom + within(GUARD_LATE_MS));
    const firstListAt = goneAt + within(24 * HOUR);
    const bill = (price * (goneAt - landedAt)) / HOUR;
    const row = { ...ORDER, created_at, horizon_at: created_at + 60_000, order_micro, most_micro };
    const closed = { ...row, state: "released", released_at: firstListAt + 5_000, doubt_at: firstListAt };
    const late = (price * GUARD_LATE_MS) / HOUR;
    for (const at of [firstListAt, firstListAt + 5_000, firstListAt + 90 * HOUR])
      for (const each of at >= closed.released_at ? [closed] : [row]) {
        const owed = owedMicro(each, at, NO_RATES) ?? 0;
        expect(owed, `seed ${seed}, round ${n}`).toBeGreaterThanOrEqual(bill - late - 1);
        expect(owed, `seed ${seed}, round ${n}`).toBeLessThanOrEqual(most_micro);
        counted += owed;
      }
  }
  expect(counted).toBeGreaterThan(0);
});

it("Its pieces by day sum to what it counts, and are an estimate: none of it is a price that a provider reported", () => {
  const seed = Date.now() % 1_000_000;
  const random = randomOf(seed);
  for (let n = 0; n < 500; n++) {
    const doubt_at = Math.floor(random() * 5 * 24 * HOUR);
    const most_micro = random() < 0.5 ? null : Math.floor(random() * 50_000_000);
    const row = { ...ORDER, state: "released", released_at: doubt_at + 5_000, doubt_at, most_micro };
    const cells = cellsOf({ ...row, bills: true }, [{ kind: "proof", from: 0 }], null, 90 * HOUR, localCalendar);
    const sum = (of: (cell: (typeof cells)[number]) => number): number => cells.reduce((all, c) => all + of(c), 0);
    const { spentMicro } = spendingOf([row], 90 * HOUR);
    expect(
      sum((c) => c.estimateMicro),
      `seed ${seed}, round ${n}`,
    ).toBe(spentMicro);
    expect([sum((c) => c.micro), sum((c) => c.unratedMs), sum((c) => c.ms)]).toEqual([0, 0, doubt_at]);
  }
});

it("An order counts until now while its outcome is unknown, until its list where it is unproven, and nothing once it is proven", () => {
  const at = (more: Partial<BilledMachine>, now = HOUR): number | null =>
    owedMicro({ ...ORDER, ...more }, now, NO_RATES);
  expect(at({})).toBe(3_600_000);
  expect(at({ most_micro: 500_000 })).toBe(500_000);
  expect(at({ state: "released", released_at: HOUR, doubt_at: HOUR / 2 }, 9 * HOUR)).toBe(1_800_000);
  expect(at({ state: "released", released_at: HOUR })).toBe(0);
  // A provider's minimum is owed for a machine that lived for a moment.
  expect(at({ provider: "cloudvm", state: "released", released_at: HOUR, doubt_at: 1_000 })).toBe(60_000);
  expect(at({ provider: "local" })).toBe(0);
});

it("An intent counts once the process that wrote it can no longer be waiting for its request", () => {
  const intent = { ...ORDER, state: "intended" };
  expect([mayHaveRunUntil(intent, 60_000), mayHaveRunUntil(intent, 60_001)]).toEqual([null, 60_001]);
  expect(mayHaveRunUntil({ ...intent, horizon_at: undefined as never }, HOUR)).toBeNull();
});

it("An order at an unknown price makes the sum unknown, and never $0", () => {
  const row = { ...ORDER, order_micro: null, state: "released", released_at: HOUR, doubt_at: HOUR };
  expect(spendingOf([row], HOUR)).toMatchObject({ isKnown: false });
  const cells = cellsOf({ ...row, bills: true }, [{ kind: "proof", from: 0 }], null, HOUR, localCalendar);
  expect(cells).toMatchObject([{ machines: 1, unpriced: 1, unratedMs: HOUR, micro: 0, estimateMicro: 0 }]);
});
