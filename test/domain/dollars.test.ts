import { describe, expect, it } from "vitest";
import { spentText } from "../../src/domain/money.ts";
import { dollarParts, exactDollars } from "../../src/errors/dollars.ts";
import { SvcError } from "../../src/errors/index.ts";

describe("an amount that a user gave", () => {
  it.each([
    [0.0095, "$0.0095"],
    [2, "$2.00"],
    [0.125, "$0.125"],
    [1e-6, "$0.000001"],
    [0.1 + 0.2, "$0.30"],
    [1_000_000, "$1000000.00"],
  ])("is printed as given: %d", (usd, words) => expect(exactDollars(usd)).toBe(words));

  it("is the same in the end of a run and in the sentence about its cost", () => {
    const { message } = new SvcError("budget_reached", { budget: 0.0095, spent: 0.0068, kept: 0.0027 });
    expect(message).toBe("The run reached its budget of $0.0095: $0.0068 was spent, and svc kept $0.0027 for the end.");
    expect(spentText({ cost_usd: 0.0068, spent_usd: 0.0068, budget_usd: 0.0095, machines: [] })).toBe(
      "$0.0068 of $0.0095",
    );
  });
});

describe("the parts of a given amount", () => {
  it.each([
    [0.02, [0.004, 0.016], ["$0.004", "$0.016"]],
    [2, [0.31, 0.04, 1.65], ["$0.31", "$0.04", "$1.65"]],
    [1, [1 / 3, 1 / 3, 1 / 3], ["$0.34", "$0.33", "$0.33"]],
    [20, [0, 20], ["$0.00", "$20.00"]],
    [2, [1.999, 0.001], ["$1.999", "$0.001"]],
  ])("never look like nothing or like all of %d: %j", (whole, parts, words) =>
    expect(dollarParts(whole, parts)).toEqual(words),
  );

  it("add up for every cent and every tenth of a cent of a budget", () => {
    const micro = (text: string): number => Math.round(Number(text.slice(1)) * 1e6);
    for (let budget = 100; budget <= 50_000; budget += 100)
      for (const share of [0.001, 0.2, 0.5, 2 / 3, 0.999]) {
        const spent = Math.max(1, Math.round(budget * share));
        const shown = dollarParts(budget / 1e6, [spent / 1e6, (budget - spent) / 1e6]);
        expect(
          shown.map(micro).reduce((sum, each) => sum + each, 0),
          `${budget}: ${shown.join(" ")}`,
        ).toBe(budget);
      }
  });
});
