import { expect, it } from "vitest";
import { costOf } from "../../dashboard/src/format.ts";
import { shortReason } from "../../dashboard/src/status.ts";
import type { JobRecord } from "../../src/schemas/job.ts";

const machine = (price: number | null) => ({ price_per_hour_usd: price }) as JobRecord["machines"][number];

it("a cost is unknown, not nothing, where a machine has no price that we are told", () => {
  expect(costOf({ cost_usd: 0, machines: [] })).toBe("$0.00");
  expect(costOf({ cost_usd: 1.5, machines: [machine(2)] })).toBe("$1.50");
  expect(costOf({ cost_usd: 0, machines: [machine(null)] })).toBe("unknown");
  expect(costOf({ cost_usd: 0.2, machines: [machine(2), machine(null)] })).toBe("> $0.200");
});

it("the reason in a list begins with what tells a run from others", () => {
  const ended = { status: "failed", exit_code: 1, note: null } as const;
  const saying = (message: string) => ({ ...ended, error: { code: "script_failed", message, hint: "" } });
  expect(shortReason(saying("The script ended with exit code 1: ValueError: no."))).toBe(
    "exit code 1: ValueError: no.",
  );
  expect(shortReason(saying("Rank 3 ended with exit code 1."))).toBe("Rank 3 ended with exit code 1.");
  expect(shortReason({ ...ended, error: null })).toBe("exit code 1");
  expect(shortReason({ ...ended, status: "succeeded", exit_code: 0, error: null })).toBeNull();
});
