import { expect, test, vi } from "vitest";
import type { JobRecord } from "../../src/schemas/job.ts";

const run = (cost_usd: number, price_per_hour_usd: number | null): JobRecord =>
  ({
    status: "succeeded",
    cost_usd,
    machines: [{ price_per_hour_usd }],
    created_at: "2026-01-02T03:04:05.000Z",
    ended_at: "2026-01-02T03:05:05.000Z",
    code_snapshot: null,
    spec: {},
    args: [],
  }) as unknown as JobRecord; // the comparison reads these alone

// The page's modules listen to the browser's history.
vi.stubGlobal("addEventListener", () => undefined);
const { differencesOf } = await import("../../dashboard/src/run/metrics/differences.tsx");

test("a run on a machine of unknown price is not the cheapest of a comparison", () => {
  const rows = differencesOf([run(1.5, 2), run(0, null)]);
  expect(rows.find(({ name }) => name === "cost")?.values).toEqual(["$1.50", "unknown"]);
});
