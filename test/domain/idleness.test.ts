import { describe, expect, it } from "vitest";
import { judgeIdle, judgeStall, type IdleInput } from "../../src/domain/idleness.ts";
import type { RunnerSample } from "../../src/schemas/runner.ts";

const MINUTE = 60_000;
const NOW = 1_764_000_000_000;

function sample(atMs: number, more: Partial<RunnerSample> = {}): RunnerSample {
  return {
    at_ms: atMs,
    cpu_cores: 0.001,
    memory_bytes: 1e9,
    disk_bytes_per_s: 0,
    net_bytes_per_s: 500,
    processes: 1,
    terminal_idle_seconds: null,
    gpus: [
      { index: 0, util_percent: 0, memory_used_mib: 1, memory_total_mib: 2, power_watts: null, temperature_c: null },
    ],
    ...more,
  };
}

/** A run of 40 quiet minutes with a sample each 10 s; `change` may alter each. */
function quiet(
  change: (s: RunnerSample, agoMs: number) => RunnerSample | null = (s) => s,
  more: Partial<IdleInput> = {},
): IdleInput {
  const samples = Array.from({ length: 241 }, (_, i) => (240 - i) * 10_000)
    .map((ago) => change(sample(NOW - ago), ago))
    .filter((s) => s !== null);
  return {
    nowMs: NOW,
    launchedAtMs: NOW - 40 * MINUTE,
    windowMs: 30 * MINUTE,
    sampleMs: 10_000,
    samples,
    lastLogAtMs: NOW - 39 * MINUTE,
    lastMetricAtMs: null,
    lastCheckpointAtMs: null,
    ...more,
  };
}

describe("judgeIdle", () => {
  it("calls a run idle when everything stayed quiet for the whole window, and says so with numbers", () => {
    expect(judgeIdle(quiet())).toMatchObject({
      idle: true,
      quietForMs: 39 * MINUTE,
      reason:
        "for 39 min no log, metric or checkpoint, and at most GPU 0 %, CPU 0.1 % of one core, disk 0.0 kB/s, network 0.5 kB/s",
    });
  });

  it.each<[string, Partial<RunnerSample>]>([
    ["CPU", { cpu_cores: 0.05 }],
    ["disk", { disk_bytes_per_s: 1_000_000 }],
    ["network", { net_bytes_per_s: 100_000 }],
    [
      "one of the GPUs",
      {
        gpus: [0, 5].map((util_percent, index) => ({
          index,
          util_percent,
          memory_used_mib: 0,
          memory_total_mib: 0,
          power_watts: 0,
          temperature_c: 0,
        })),
      },
    ],
    ["nothing that could be read", { cpu_cores: null, gpus: null }],
  ])("is not idle when a single sample within the window shows %s in use", (_, use) => {
    const verdict = judgeIdle(quiet((s, ago) => (ago === 20 * MINUTE ? { ...s, ...use } : s)));
    expect(verdict).toMatchObject({ idle: false, quietForMs: 20 * MINUTE });
    expect(verdict.reason).toMatch(/^20 min ago /);
  });

  it.each(["lastLogAtMs", "lastMetricAtMs", "lastCheckpointAtMs"] as const)(
    "is not idle within the window after %s",
    (field) => {
      expect(judgeIdle(quiet(undefined, { [field]: NOW - 29 * MINUTE })).idle).toBe(false);
      expect(judgeIdle(quiet(undefined, { [field]: NOW - 30 * MINUTE })).idle).toBe(true);
    },
  );

  it("counts typing as work, but not a forgotten shell", () => {
    const typed = judgeIdle(
      quiet((s, ago) => ({ ...s, terminal_idle_seconds: Math.max(0, ago - 12 * MINUTE) / 1000 })),
    );
    expect(typed.idle).toBe(false);
    const shell = quiet((s, ago) => ({ ...s, terminal_idle_seconds: (35 * MINUTE - ago) / 1000 + 240 }));
    expect(judgeIdle(shell)).toMatchObject({ idle: true, quietForMs: 39 * MINUTE });
    const left = quiet((s, ago) =>
      ago > 29 * MINUTE ? s : { ...s, terminal_idle_seconds: (29 * MINUTE - ago) / 1000 },
    );
    expect(judgeIdle(left)).toMatchObject({
      idle: false,
      quietForMs: 29 * MINUTE,
      reason: "29 min ago a key was pressed at a terminal of the machine",
    });
  });

  it("ignores a signal that cannot be read", () => {
    expect(judgeIdle(quiet((s) => ({ ...s, gpus: null, disk_bytes_per_s: null }))).idle).toBe(true);
    expect(judgeIdle(quiet((s) => ({ ...s, cpu_cores: null }))).idle).toBe(true);
  });

  it("starts the window again after a gap in the samples", () => {
    const slept = judgeIdle(quiet((s, ago) => (ago > 10 * MINUTE && ago < 25 * MINUTE ? null : s)));
    expect(slept).toMatchObject({ idle: false, quietForMs: 10 * MINUTE });
    expect(judgeIdle(quiet((s, ago) => (ago < 5 * MINUTE ? null : s)))).toMatchObject({ idle: false, quietForMs: 0 });
    expect(judgeIdle(quiet(() => null))).toMatchObject({ idle: false, quietForMs: 0 });
    expect(judgeIdle(quiet((s, ago) => (ago === 20 * MINUTE ? null : s))).idle).toBe(true);
  });

  it("counts from launch and can be turned off", () => {
    expect(judgeIdle(quiet(undefined, { launchedAtMs: NOW - 29 * MINUTE, lastLogAtMs: null }))).toMatchObject({
      idle: false,
    });
    expect(judgeIdle(quiet(undefined, { windowMs: 0 })).idle).toBe(false);
  });
});

describe("the warning", () => {
  it.each([
    [14, null],
    [16, /^for 16 min no log, metric or checkpoint, and at most GPU 0 %/],
    [29, /^for 29 min /],
  ])("comes from half of the window on, with the numbers: after %i quiet minutes", (ago, words) => {
    const { idle, warning } = judgeIdle(quiet(undefined, { lastLogAtMs: NOW - ago * MINUTE }));
    expect(idle).toBe(false);
    if (words === null) expect(warning).toBeNull();
    else expect(warning).toMatch(words);
  });

  it("needs samples for half of the window", () => {
    const gap = quiet((s, ago) => (ago > 10 * MINUTE && ago < 20 * MINUTE ? null : s), {
      lastLogAtMs: NOW - 25 * MINUTE,
    });
    expect(judgeIdle(gap)).toMatchObject({ idle: false, warning: null });
  });
});

describe("text alone", () => {
  /** A line a minute and nothing else since the launch. */
  const beating = (forMinutes: number, more: Partial<IdleInput> = {}): IdleInput =>
    quiet(undefined, {
      samples: Array.from({ length: forMinutes * 6 + 1 }, (_, i) => sample(NOW - (forMinutes * 6 - i) * 10_000)),
      launchedAtMs: NOW - forMinutes * MINUTE,
      windowMs: 10 * MINUTE,
      lastLogAtMs: NOW - 30_000,
      ...more,
    });

  it("delays the rule for four windows at most", () => {
    expect(judgeIdle(beating(34))).toMatchObject({ idle: false, warning: null });
    expect(judgeIdle(beating(36)).warning).toMatch(/^for 36 min nothing but lines in its log, and at most GPU 0 %/);
    expect(judgeIdle(beating(39)).idle).toBe(false);
    expect(judgeIdle(beating(41))).toMatchObject({
      idle: true,
      reason: expect.stringMatching(/^for 41 min nothing but/),
    });
  });

  it("counts from the last work of any other kind", () => {
    expect(judgeIdle(beating(60, { lastMetricAtMs: NOW - 20 * MINUTE }))).toMatchObject({ idle: false, warning: null });
    const working = beating(60);
    working.samples = working.samples.map((s) => (s.at_ms === NOW - 30 * MINUTE ? { ...s, cpu_cores: 1 } : s));
    expect(judgeIdle(working).idle).toBe(false);
  });
});

describe("judgeStall", () => {
  const busy = (s: RunnerSample, util: number | null = 100): RunnerSample => ({
    ...s,
    cpu_cores: 1,
    gpus: s.gpus?.map((g) => ({ ...g, util_percent: util })) ?? null,
  });

  it("reports GPUs at 100 % without any result, which does not count as idle", () => {
    const stuck = quiet((s) => busy(s), { lastLogAtMs: NOW - 31 * MINUTE });
    expect(judgeStall(stuck)).toBe("for 31 min every GPU was at 100 %, and neither log, metric nor checkpoint came");
    expect(judgeIdle(stuck).idle).toBe(false);
  });

  it.each<[string, IdleInput]>([
    ["a line came within the window", quiet((s) => busy(s), { lastLogAtMs: NOW - 29 * MINUTE })],
    ["a metric came within the window", quiet((s) => busy(s), { lastMetricAtMs: NOW - MINUTE })],
    ["a GPU was lower once", quiet((s, ago) => busy(s, ago === 5 * MINUTE ? 90 : 100))],
    [
      "one GPU of two was lower",
      quiet((s) => {
        const all = busy(s);
        return { ...all, gpus: [...(all.gpus ?? []), ...(s.gpus ?? []).map((gpu) => ({ ...gpu, index: 1 }))] };
      }),
    ],
    ["nothing is known of the GPUs", quiet((s) => busy(s, null))],
    ["samples are missing", quiet((s, ago) => (ago > 5 * MINUTE && ago < 10 * MINUTE ? null : busy(s)))],
    ["no sample came", quiet(() => null)],
    ["the rule is off", quiet((s) => busy(s), { windowMs: 0 })],
  ])("says nothing if %s", (_, input) => {
    expect(judgeStall(input)).toBeNull();
  });
});
