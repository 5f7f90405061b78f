import { expect, it } from "vitest";
import { costOf } from "../../dashboard/src/format.ts";
import type { JobRecord } from "../../src/schemas/job.ts";

const machine = (price: number | null) => ({ price_per_hour_usd: price }) as JobRecord["machines"][number];

it("a cost is unknown, not nothing, where a machine has no price that we are told", () => {
  expect(costOf({ cost_usd: 0, machines: [] })).toBe("$0.00");
  expect(costOf({ cost_usd: 1.5, machines: [machine(2)] })).toBe("$1.50");
  expect(costOf({ cost_usd: 0, machines: [machine(null)] })).toBe("unknown");
  expect(costOf({ cost_usd: 0.2, machines: [machine(2), machine(null)] })).toBe("> $0.200");
});
