// The lines that a terminal shows while a script waits for a run.

import { afterEach, expect, test, vi } from "vitest";
import { progressOf } from "../../sdk/progress.ts";
import type { JobRecord } from "../../src/schemas/job.ts";

const wasTTY = process.stderr.isTTY;
afterEach(() => {
  process.stderr.isTTY = wasTTY;
  vi.restoreAllMocks();
});

test.each([
  [0, [null], ", cost unknown"],
  [0.4, [1.5, null], ", > $0.40"],
  [0.4, [1.5], ", $0.40"],
  [0, [], ""],
])(
  "the last line of a wait for a run that cost %d at the prices %j ends with %j",
  async (cost_usd, prices, expected) => {
    let shown = "";
    vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      shown += String(text);
      return true;
    });
    process.stderr.isTTY = true;
    const machines = prices.map((price_per_hour_usd) => ({ price_per_hour_usd }));
    const record = { id: "j1", status: "succeeded", exit_code: 0, cost_usd, machines, error: null };
    await progressOf(() => Promise.reject(new Error("nobody asks"))).saw(record as unknown as JobRecord, true);
    expect(shown).toBe(`svc: j1 succeeded after 0 s, exit code 0${expected}\n`);
  },
);
