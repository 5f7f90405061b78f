// The lines that a terminal shows while a script waits for a run.

import { afterEach, expect, test, vi } from "vitest";
import { progressOf } from "../../sdk/progress.ts";
import { runWarnings } from "../../src/domain/run-warnings.ts";
import type { JobRecord, Timeline } from "../../src/schemas/job.ts";

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

const collected = (node: number, ...warnings: string[]) => ({ step: "collect", node, detail: { warnings } });
const timeline = (...steps: object[]) => ({ steps }) as unknown as Timeline;

test.each([true, false])(
  "the warnings of a run appear on stderr at its end, on a terminal and elsewhere: %s",
  async (isTTY) => {
    let shown = "";
    vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      shown += String(text);
      return true;
    });
    process.stderr.isTTY = isTTY;
    const record = { id: "j1", status: "succeeded", exit_code: 0, cost_usd: 0, machines: [], error: null };
    const steps = timeline(
      { step: "install", node: 0, detail: { warnings: ["of another step"] } },
      collected(0, "a.pt is \u001b[2Jlost."),
    );
    await progressOf(() => Promise.resolve(steps)).saw(record as unknown as JobRecord, true);
    expect(shown.split("\n").slice(isTTY ? 1 : 0)).toEqual([
      expect.stringMatching(/^svc: j1: a\.pt is [^\u001b]*lost\.$/),
      "",
    ]);
  },
);

test("warnings of several nodes name their node, and none appears twice", () => {
  const { steps } = timeline(
    collected(0, "a is lost."),
    collected(1, "a is lost.", "b is lost."),
    collected(1, "b is lost."),
  );
  expect(runWarnings(steps)).toEqual(["Node 0: a is lost.", "Node 1: a is lost.", "Node 1: b is lost."]);
});
