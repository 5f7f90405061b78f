import { describe, expect, it } from "vitest";
import { claimOf, claimOfOpen } from "../../src/domain/limit-claims.ts";
import {
  NO_LIMITS,
  NOTHING_TAKEN,
  PASSES_MAX,
  plus,
  shortageOf,
  verdictsOf,
  type Amounts,
} from "../../src/domain/limits.ts";
import { limitWaitWords } from "../../src/domain/limit-words.ts";
import { LIMIT_NAMES } from "../../src/schemas/limit-names.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";

/** Mulberry32: a small generator with a seed. */
function randomOf(seed: number): (n: number) => number {
  let a = seed;
  return (n) => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * n);
  };
}

const claim = (usd: number, machines = 1): Amounts => ({
  ...NOTHING_TAKEN,
  usd_per_day: usd,
  max_machines: machines,
});
const DAY_TEN: Amounts = { ...NO_LIMITS, usd_per_day: 10 };
const HOUR = 3_600_000;

describe("Runs are let in", () => {
  it("in the order of their submission, while they fit, and a run that fits may pass one that does not", () => {
    const waiters = [
      { id: "a", claim: claim(6), passes: 0 },
      { id: "b", claim: claim(6), passes: 0 },
      { id: "c", claim: claim(4), passes: 0 },
      { id: "d", claim: claim(1), passes: 0 },
    ];
    const verdicts = verdictsOf(DAY_TEN, NOTHING_TAKEN, waiters);
    expect(verdicts.map(({ id, isIn, passes }) => [id, isIn, passes])).toEqual([
      ["a", true, 0],
      ["b", false, 1],
      ["c", true, 0],
      ["d", false, 0],
    ]);
    expect(verdicts[1]?.shortage).toEqual({ limit: "usd_per_day", of: 10, taken: 6, needs: 6 });
  });

  it("only behind one that has been passed too often", () => {
    const first = { id: "a", claim: claim(6), passes: PASSES_MAX };
    const [a, b] = verdictsOf(DAY_TEN, claim(5), [first, { id: "b", claim: claim(1), passes: 0 }]);
    expect([a?.isIn, b?.isIn, b?.behind, b?.shortage]).toEqual([false, false, "a", null]);
    expect(b && limitWaitWords(b)).toContain("a is first");
  });

  it("past an older one that could never fit: that one says so, and blocks none", () => {
    const never = { id: "a", claim: claim(60), passes: PASSES_MAX + 1 };
    const [a, b] = verdictsOf(DAY_TEN, NOTHING_TAKEN, [never, { id: "b", claim: claim(1), passes: 0 }]);
    expect([a?.never, a?.passes, b?.isIn]).toEqual([true, PASSES_MAX + 1, true]);
    expect(a && limitWaitWords(a)).toMatch(/never fits.*Raise usd_per_day or kill the run/);
  });

  it.each([Number.NaN, Infinity, null])("not with a claim of %s under a limit that counts it", (usd) => {
    const of = { ...NOTHING_TAKEN, usd_per_day: usd };
    expect(shortageOf(DAY_TEN, NOTHING_TAKEN, of)?.limit).toBe("usd_per_day");
    expect(shortageOf({ ...NO_LIMITS, max_machines: 1 }, NOTHING_TAKEN, of)).toBeNull();
    expect(shortageOf(DAY_TEN, of, claim(0))?.limit).toBe("usd_per_day");
  });

  it("never past a limit, and none starves, in random sequences", () => {
    const seed = Date.now() % 1_000_000;
    const random = randomOf(seed);
    for (let sequence = 0; sequence < 60; sequence++) {
      const limits: Amounts = {
        usd_per_day: 5 + random(20),
        usd_per_month: random(3) === 0 ? 30 + random(60) : null,
        usd_per_hour: null,
        max_machines: random(2) === 0 ? 1 + random(6) : null,
        max_gpus: null,
      };
      const open = new Map<string, Amounts>();
      let waiters: { id: string; claim: Amounts; passes: number }[] = [];
      const passedBy = new Map<string, number>();
      let made = 0;
      const taken = (): Amounts => [...open.values()].reduce(plus, NOTHING_TAKEN);
      const about = (): string => `seed ${seed}, sequence ${sequence}, ${JSON.stringify({ limits, waiters })}`;
      const look = (): void => {
        const verdicts = verdictsOf(limits, taken(), waiters);
        for (const [index, { id, isIn }] of verdicts.entries()) {
          if (!isIn) continue;
          for (const older of verdicts.slice(0, index))
            if (!older.isIn && !older.never) passedBy.set(older.id, (passedBy.get(older.id) ?? 0) + 1);
          open.set(id, waiters.find((waiter) => waiter.id === id)?.claim ?? NOTHING_TAKEN);
        }
        const sum = taken();
        if (LIMIT_NAMES.some((name) => (sum[name] ?? 0) > (limits[name] ?? Infinity)))
          expect.fail(`passed: ${about()}`);
        waiters = verdicts.flatMap(({ id, isIn, passes }) => {
          const waiter = waiters.find((one) => one.id === id);
          return isIn || waiter === undefined ? [] : [{ ...waiter, passes }];
        });
        // With nothing open, the oldest that can ever fit is let in.
        if (open.size === 0 && waiters.some(({ claim: of }) => shortageOf(limits, NOTHING_TAKEN, of) === null))
          expect.fail(`nothing runs: ${about()}`);
      };
      for (let step = 0; step < 150; step++) {
        if (random(3) > 0) {
          const usd = 1 + random(random(4) === 0 ? 30 : 8);
          waiters.push({ id: `r${++made}`, claim: { ...claim(usd, 1 + random(3)), usd_per_month: usd }, passes: 0 });
        } else open.delete([...open.keys()][random(Math.max(1, open.size))] ?? "");
        look();
      }
      for (let rounds = 0; rounds <= made && open.size > 0; rounds++) {
        open.delete([...open.keys()][0] ?? "");
        look();
      }
      for (const [id, count] of passedBy) expect(count, `${id}: ${about()}`).toBeLessThanOrEqual(PASSES_MAX);
      expect(
        waiters.filter(({ claim: of }) => shortageOf(limits, NOTHING_TAKEN, of) === null),
        about(),
      ).toEqual([]);
    }
  });
});

describe("The claim of a run", () => {
  const spec = (given: Partial<RunSpecInput>): RunSpec => RunSpec.parse({ entrypoint: "train.py", ...given });
  const claimed = (given: Partial<RunSpecInput>): Amounts => claimOf(spec(given), () => null);

  it("is its budget, its rate cap over its time, or its rate cap over the period: the least of them", () => {
    expect(claimed({ provider: "market", gpus: "H100", budget_usd: 5 })).toMatchObject({
      usd_per_day: 5_000_000,
      usd_per_month: 5_000_000,
      usd_per_hour: null,
    });
    // 25 hours are the longest day.
    expect(claimed({ provider: "market", gpus: "H100", price_cap: 2 })).toMatchObject({
      usd_per_day: 50_000_000,
      usd_per_hour: 2_000_000,
    });
    const timed = claimed({ provider: "market", gpus: "H100", price_cap: 3.6, max_runtime_minutes: 10 });
    // 600 s for the script, and for each of three placements 60 s to start and 25 s to end, at a tenth of a cent a second.
    expect(timed.usd_per_day).toBe(855_000);
  });

  it("counts every node, the GPUs of the largest candidate and the rate of the dearest", () => {
    const several = claimed({
      provider: "podhost",
      gpus: "A100:2",
      nodes: 1,
      candidates: [
        { provider: "podhost", gpus: "A100:2", price_cap: 2 },
        { provider: "market", gpus: "H100:8", price_cap: 20 },
      ],
    });
    expect(several).toMatchObject({ max_machines: 1, max_gpus: 8, usd_per_hour: 20_000_000 });
    expect(claimed({ provider: "podhost", gpus: "A100:2", nodes: 4 })).toMatchObject({ max_machines: 4, max_gpus: 8 });
    expect(claimed({ provider: "podhost", gpus: "cpu:4" }).max_gpus).toBe(0);
  });

  it("is unknown without a price or a budget, and known at the rate that the user gave", () => {
    expect(claimed({ provider: "market", gpus: "H100" }).usd_per_day).toBeNull();
    expect(claimed({ provider: "cloudvm", gpus: "L4", max_runtime_minutes: 10 }).usd_per_day).toBeNull();
    expect(claimed({ provider: "cloudvm", gpus: "L4", rate_usd_per_hour: 1 })).toMatchObject({
      usd_per_day: 25_000_000,
      usd_per_hour: 1_000_000,
    });
  });

  const machine = (more: object = {}) => ({
    provider: "podhost",
    state: "held",
    price_micro: 3_600_000,
    spent_micro: 0,
    priced_at: 0,
    created_at: 0,
    held_at: 0,
    released_at: null,
    ...more,
  });

  it("shrinks by what an open run has spent, and is kept between two placements", () => {
    const given = spec({ provider: "podhost", gpus: "L4", price_cap: 3.6, budget_usd: 5 });
    const open = claimOfOpen(given, [machine()], HOUR, () => null);
    expect([open.claim.usd_per_day, open.held]).toEqual([
      1_400_000,
      { rateMicro: 3_600_000, machines: 1, gpus: 1, unpriced: 0 },
    ]);
    const between = claimOfOpen(given, [machine({ released_at: HOUR, state: "released" })], 2 * HOUR, () => null);
    expect(between.claim).toMatchObject({ usd_per_day: 1_400_000, usd_per_hour: 3_600_000, max_machines: 1 });
    expect(between.held).toEqual({ rateMicro: 0, machines: 0, gpus: 0, unpriced: 0 });
  });

  it("holds a cap for a machine of unknown price, and does not count the cap as its price", () => {
    const given = spec({ provider: "cloudvm", gpus: "L4", price_cap: 0.9, max_runtime_minutes: 60 });
    const unknown = machine({ provider: "cloudvm", price_micro: null, order_micro: 900_000 });
    const open = claimOfOpen(given, [unknown], HOUR / 2, () => null);
    expect(open.held).toEqual({ rateMicro: 0, machines: 1, gpus: 1, unpriced: 1 });
    const rated = { ...given, rate_usd_per_hour: 0.7 };
    expect(claimOfOpen(rated, [unknown], HOUR / 2, () => null).held).toMatchObject({ rateMicro: 700_000, unpriced: 0 });
  });

  it("takes the price of the present machine where nothing bounds it, and is unknown without one", () => {
    const given = spec({ provider: "podhost", gpus: "L4" });
    expect(claimOfOpen(given, [machine()], HOUR, () => null).claim.usd_per_day).toBe(90_000_000);
    expect(claimOfOpen(given, [machine({ price_micro: null })], HOUR, () => null).claim.usd_per_day).toBeNull();
  });
});
