// Which runs are removed by age, and how much of the time that a clock shows counts as age.

import { describe, expect, test } from "vitest";
import { ageMs, chooseOld, type AgedRun, type AgeRule } from "../../src/domain/retention.ts";
import { doubtWords, seenNow, type SeenTime } from "../../src/domain/retention-time.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.UTC(2030, 5, 1);

interface Run extends AgedRun {
  id: string;
  loss: number | null;
}
const run = (id: string, endedDaysAgo: number | null, more: Partial<Run> = {}): Run => ({
  id,
  order: Number(/\d+/.exec(id)?.[0] ?? 0),
  created_at: NOW - ((endedDaysAgo ?? 0) + 1) * DAY,
  ended_at: endedDaysAgo === null ? null : NOW - endedDaysAgo * DAY,
  isArchived: false,
  loss: null,
  ...more,
});
const choose = (runs: Run[], rule: Partial<AgeRule<Run>> = {}) => {
  const { goes, kept } = chooseOld(runs, {
    now: NOW,
    olderMs: 30 * DAY,
    gaps: [],
    best: null,
    newest: 0,
    isAsked: () => true,
    isInUse: () => false,
    valueIn: ({ loss }) => loss,
    ...rule,
  });
  return { goes: goes.map(({ id }) => id), kept };
};

describe("the choice of old runs", () => {
  test("takes ended runs that are older, the oldest first, and no live run", () => {
    expect(choose([run("r1", 90), run("r2", 40), run("r3", 29), run("r4", null)]).goes).toEqual(["r1", "r2"]);
  });

  test("leaves archived runs, those in use, the best and the newest, and counts each only if it is old enough", () => {
    const runs = [
      run("r1", 90, { loss: 0.1 }),
      run("r2", 80, { isArchived: true, loss: 0.01 }),
      run("r3", 70),
      run("r4", 60),
      run("r5", 50),
      run("r6", 2, { isArchived: true }),
    ];
    const best = { metric: "loss", count: 1, order: "min" } as const;
    const { goes, kept } = choose(runs, { best, newest: 1, isInUse: ({ id }) => id === "r3" });
    expect(goes).toEqual(["r4"]);
    expect(kept).toEqual({ best: 1, newest: 1, archived: 1, in_use: 1 });
  });

  test("ranks only the runs that are asked for", () => {
    const runs = [run("r1", 90, { loss: 1 }), run("r2", 80, { loss: 2 }), run("r3", 70, { loss: 3 })];
    const best = { metric: "loss", count: 1, order: "min" } as const;
    expect(choose(runs, { best, isAsked: ({ id }) => id !== "r1" }).goes).toEqual(["r3"]);
  });

  test("does not take a run whose end was written by a clock that was behind: a run made before it proves that", () => {
    const wrong = { created_at: Date.UTC(1970, 0, 1), ended_at: Date.UTC(1970, 0, 2) };
    expect(choose([run("r1", 5), run("r2", 0, wrong)]).goes).toEqual([]);
    // Made before any other run, nothing tells.
    expect(choose([run("r1", 0, wrong), run("r2", 5)]).goes).toEqual(["r1"]);
  });

  test("takes a run although an instant of another one is in the future", () => {
    const ahead = { created_at: NOW + 999 * DAY, ended_at: NOW + 999 * DAY };
    expect(choose([run("r1", 0, ahead), run("r2", 40)]).goes).toEqual(["r2"]);
  });

  test("counts time that nobody saw as no age, and only for runs that ended before it", () => {
    const gap = { from: NOW - 25 * DAY, to: NOW - 5 * DAY, ms: 20 * DAY, ran_ms: 0 };
    expect(choose([run("r1", 60), run("r2", 45), run("r3", 40)], { gaps: [gap] }).goes).toEqual(["r1"]);
    expect(choose([run("r1", 4)], { gaps: [gap], olderMs: 3 * DAY }).goes).toEqual(["r1"]);
  });

  test.each([
    ["30d", 30 * DAY],
    ["12h", 12 * HOUR],
    ["2w", 14 * DAY],
    ["5m", 300_000],
    ["soon", null],
    ["1.5d", null],
    ["30", null],
  ])("reads %s as an age", (text, ms) => {
    expect(ageMs(text)).toBe(ms);
  });
});

describe("the time that the rule has seen", () => {
  const seen: SeenTime = { seen_at: NOW, gaps: [] };

  test("passes with the process, over a night and over a restart", () => {
    expect(seenNow(seen, NOW + HOUR, HOUR)).toEqual({ seen_at: NOW + HOUR, gaps: [], isBehind: false });
    expect(seenNow(seen, NOW + 20 * HOUR, 0).gaps).toEqual([]);
  });

  test("has a gap after a jump, whether the computer slept or the clock was set, until svc has run for a day", () => {
    const after = seenNow(seen, NOW + 21 * DAY, HOUR);
    expect(after.gaps).toEqual([{ from: NOW, to: NOW + 21 * DAY, ms: 21 * DAY - HOUR, ran_ms: 0 }]);
    expect(doubtWords(after, after.seen_at)).toMatch(/did not run for 21 days .* for 24 more hours, or once you save/);
    const half = seenNow(after, after.seen_at + 12 * HOUR, 12 * HOUR);
    expect(half.gaps).toHaveLength(1);
    expect(doubtWords(half, half.seen_at)).toContain("12 more hours");
    const whole = seenNow(half, half.seen_at + 12 * HOUR, 12 * HOUR);
    expect([whole.gaps, doubtWords(whole, whole.seen_at)]).toEqual([[], null]);
  });

  test("keeps a gap of more than a year until the rule is saved again", () => {
    let now = seenNow(seen, NOW + 3_650 * DAY, 0);
    for (let n = 0; n < 100; n++) now = seenNow(now, now.seen_at + HOUR, HOUR);
    expect(now.gaps).toHaveLength(1);
    expect(doubtWords(now, now.seen_at)).toContain("counts as age once you save the rule again");
  });

  test("drops a gap that the clock takes back", () => {
    const ahead = seenNow(seen, NOW + 3_650 * DAY, 0);
    expect(seenNow(ahead, NOW + 2 * HOUR, 0)).toEqual({ seen_at: NOW + 2 * HOUR, gaps: [], isBehind: false });
    // And the truth may be a gap of its own.
    expect(seenNow(ahead, NOW + 5 * DAY, 0).gaps).toMatchObject([{ from: NOW, ms: 5 * DAY }]);
  });

  test("stands still while the clock is behind, and says so", () => {
    const behind = seenNow(seen, NOW - 9_000 * DAY, 0);
    expect(behind).toEqual({ ...seen, isBehind: true });
    expect(doubtWords(behind, NOW - 9_000 * DAY)).toContain(
      "The rule removes nothing until the clock is past that day",
    );
    expect(seenNow(behind, NOW + HOUR, 0)).toMatchObject({ gaps: [], isBehind: false });
  });
});
