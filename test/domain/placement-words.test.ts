// The cost of a refused order, in the lanes of a run.

import { expect, test } from "vitest";
import { rentedNothing } from "../../src/domain/placement-words.ts";
import type { Placement } from "../../src/schemas/placement.ts";

const placement = (rest: Partial<Placement>): Placement =>
  ({ failure: "no_machine", cost_usd: 0, machines: ["svc-a-b-n0-1"], ...rest }) as Placement;

test.each<[string, Partial<Placement>, boolean]>([
  ["an order that was refused, at a provider without prices", {}, true],
  ["a placement without an order", { failure: null, machines: [] }, true],
  ["a machine that was made although its order was refused", { cost_usd: 0.01 }, false],
  ["a machine without a known price", { failure: "machine_unfit" }, false],
])("It says whether nothing was rented: %s", (_, rest, expected) => {
  expect(rentedNothing(placement(rest))).toBe(expected);
});
