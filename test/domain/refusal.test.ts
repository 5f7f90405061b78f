import { describe, expect, it } from "vitest";
import { refusalOf } from "../../src/domain/refusal.ts";

const BASE = {
  status: "failed" as const,
  error: { code: "price_cap_exceeded", message: "", hint: "" },
  machines: [],
  started_at: null,
  cost_usd: 0,
  placements: 1,
};
const MACHINE = {
  id: "m1",
  name: "svc-1",
  node: 0,
  address: null,
  state: "released" as const,
  price_per_hour_usd: null,
  created_at: "2026-01-01T00:00:00.000Z",
  terminated_at: "2026-01-01T00:01:00.000Z",
};
const error = (code: string) => ({ code, message: "", hint: "" });

describe("a run that ended before anything was rented", () => {
  it("was refused, or found no machine", () => {
    expect(refusalOf(BASE)).toBe("refused");
    expect(refusalOf({ ...BASE, error: error("no_offer") })).toBe("no machine");
    expect(refusalOf({ ...BASE, machines: [{ ...MACHINE, id: null }] })).toBe("refused");
  });

  it.each([
    ["a machine existed, of unknown price", { machines: [MACHINE] }],
    ["an earlier placement may have had a machine", { placements: 2 }],
    ["it has cost money", { cost_usd: 0.01 }],
    ["its script began", { started_at: MACHINE.created_at }],
    ["a create call had no answer", { error: error("outcome_unknown") }],
    ["the script failed", { error: error("script_failed") }],
    ["it was cancelled", { status: "cancelled" as const }],
    ["it has no error", { error: null }],
  ])("is not such a run if %s", (_, change) => {
    expect(refusalOf({ ...BASE, ...change })).toBeNull();
  });
});
