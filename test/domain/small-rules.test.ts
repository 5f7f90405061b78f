import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../src/domain/clock.ts";
import { candidateSpecs } from "../../src/domain/candidates.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { bytes } from "../../src/domain/bytes.ts";
import { downsample } from "../../src/domain/downsample.ts";
import { endpointOf } from "../../src/domain/endpoint.ts";
import { GPU_CATALOGUE, listGpus, vramFor } from "../../src/domain/gpus.ts";
import { JobIds } from "../../src/domain/ids.ts";
import { orAborted } from "../../src/domain/or-aborted.ts";
import { keepsSecrets } from "../../src/schemas/address.ts";

const seed = Number(process.env["SEED"] ?? Date.now() % 2 ** 31);
console.log(`small-rules seed ${seed}`);

describe("the address that a provider gives", () => {
  it("has no host, port or user that a command line would read as something else", () => {
    expect(endpointOf(" 10.0.0.1 ", "22", "root")).toEqual({ host: "10.0.0.1", port: 22, user: "root" });
    for (const host of ["-oProxyCommand=id", "a b", "a;id", "$(id)", "a/../b", "u@h", "::1%lo", ""])
      expect(endpointOf(host, 22, "root"), host).toBeNull();
    for (const user of ["-l", "root id", "$(id)", "a/b", ""]) expect(endpointOf("a", 22, user), user).toBeNull();
    for (const port of ["22; id", 0, 65_536, 1.5]) expect(endpointOf("a", port, "root"), String(port)).toBeNull();
  });
});

describe("downsample", () => {
  const value = fc.oneof(
    { weight: 9, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
    fc.constantFrom("NaN" as const, "Infinity" as const),
  );

  it("keeps order, ends and bounds, and the global extremes if a bucket has room", () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 300 }), fc.integer({ min: 2, max: 60 }), (values, max) => {
        const points = values.map((v, step) => ({ step, value: v }));
        const kept = downsample(points, max);
        expect(kept.length).toBeLessThanOrEqual(max);
        expect(kept.map((p) => p.step)).toEqual(kept.map((p) => p.step).toSorted((a, b) => a - b));
        if (points.length <= max) {
          expect(kept).toEqual(points);
          return;
        }
        expect([kept[0], kept.at(-1)]).toEqual([points[0], points.at(-1)]);
        const numbers = (ps: typeof points) => ps.map((p) => p.value).filter((v) => typeof v === "number");
        if (max >= 6 && numbers(points).length > 0) {
          expect(Math.min(...numbers(kept))).toBe(Math.min(...numbers(points)));
          expect(Math.max(...numbers(kept))).toBe(Math.max(...numbers(points)));
        }
      }),
      { seed, numRuns: 500 },
    );
  });

  it("keeps a lone NaN and a lone spike among a million points", () => {
    const points = Array.from({ length: 1_000_000 }, (_, step) => ({ step, value: 1 as number | "NaN" }));
    points[400_001]!.value = "NaN";
    points[700_003]!.value = 9;
    const kept = downsample(points, 500);
    expect(kept).toContainEqual({ step: 400_001, value: "NaN" });
    expect(kept).toContainEqual({ step: 700_003, value: 9 });
  });

  it("thins non-finite values before they displace the rest", () => {
    const points = Array.from({ length: 1_000 }, (_, step) => ({ step, value: step % 2 ? ("NaN" as const) : step }));
    const kept = downsample(points, 100);
    expect(kept.length).toBeLessThanOrEqual(100);
    expect(kept.filter((p) => p.value === "NaN").length).toBeGreaterThan(40);
    expect(kept.filter((p) => p.value !== "NaN").length).toBeGreaterThan(40);
  });
});

describe("candidates", () => {
  it("leaves out a candidate that wants only spot once the run rents on demand", () => {
    const of = (spot: "never" | "prefer" | "only") => ({ provider: "market" as const, spot });
    const candidates = [of("only"), of("prefer"), of("never")];
    const spec = RunSpec.parse({ entrypoint: "train.py", candidates });
    const told = (onDemand: boolean) => candidateSpecs(spec, onDemand).map((one) => `${one.index} ${one.spec.spot}`);
    expect(told(false)).toEqual(["0 only", "1 prefer", "2 never"]);
    expect(told(true)).toEqual(["1 never", "2 never"]);
  });
});

describe("JobIds", () => {
  it("makes ids that are safe names of twelve characters and grow within a millisecond and when the clock is set back", () => {
    const times = [1_764_000_000_000, 1_764_000_000_000, 1_763_000_000_000, 1_764_000_000_001, 2_500_000_000_000];
    const ids = new JobIds(() => times.shift() ?? 0);
    const given = Array.from({ length: 8 }, () => ids.next());
    for (const id of given) expect(id).toMatch(/^[a-z0-9]{12}$/);
    expect(given.map((id) => id.slice(0, 8))).toEqual([...new Set(given.map((id) => id.slice(0, 8)))].sort());
  });

  it("uses the given randomness", () => {
    expect(
      new JobIds(
        () => 36 ** 7,
        () => "zzzz",
      ).next(),
    ).toBe("10000000zzzz");
  });
});

describe("the GPU catalogue", () => {
  it("lists all models, or those of one provider", () => {
    expect(listGpus()).toHaveLength(36);
    expect(listGpus("notebook").map((g) => g.model)).toEqual(["A100", "V100", "T4"]);
    expect(listGpus("local")).toEqual([]);
    listGpus()[0]!.providers.length = 0;
    expect(GPU_CATALOGUE[0]!.providers).toHaveLength(2);
  });

  it("knows the memory of a model in upper and lower case", () => {
    expect([vramFor("A100"), vramFor(" a100-pcie "), vramFor("h200"), vramFor("TPU")]).toEqual([
      80,
      40,
      141,
      undefined,
    ]);
  });
});

describe("systemClock", () => {
  afterEach(() => void vi.useRealTimers());

  it("waits longer than the platform's timers can", () => {
    vi.useFakeTimers();
    const fired = vi.fn();
    systemClock.setTimer(30 * 86_400_000, fired);
    vi.advanceTimersByTime(30 * 86_400_000 - 1);
    expect(fired).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(fired).toHaveBeenCalledTimes(1);
  });

  it("never fires after it was cancelled, even in a later part of a long wait", () => {
    vi.useFakeTimers();
    const fired = vi.fn();
    const timer = systemClock.setTimer(60 * 86_400_000, fired);
    timer.unref?.();
    vi.advanceTimersByTime(40 * 86_400_000);
    timer.cancel();
    timer.cancel();
    vi.advanceTimersByTime(40 * 86_400_000);
    expect(fired).not.toHaveBeenCalled();
  });
});

describe("keepsSecrets", () => {
  it.each([
    "https://api.example.com",
    "http://localhost:9",
    "http://LOCALHOST",
    "http://127.0.0.1",
    "http://127.9.8.7:1/x",
  ])("%s may be sent a secret", (url) => expect(keepsSecrets(new URL(url))).toBe(true));
  it.each(["http://[::1]:80", "http://127.1", "http://2130706433"])("%s is this computer by another name", (url) =>
    expect(keepsSecrets(new URL(url))).toBe(true),
  );
  it.each([
    "http://api.example.com",
    "http://localhost.example.com",
    "http://127.0.0.1.example.com",
    "http://10.0.0.1",
    "http://0.0.0.0",
    "http://[::ffff:7f00:1]",
    "http://notlocalhost",
    "ftp://localhost",
    "ws://127.0.0.1",
  ])("%s must not be sent a secret", (url) => expect(keepsSecrets(new URL(url))).toBe(false));
});

describe("orAborted", () => {
  it("settles with the promise, and rejects at an abort before, meanwhile or never", async () => {
    const controller = new AbortController();
    const never = new Promise<string>(() => {});
    expect(await orAborted(Promise.resolve("kept"), controller.signal)).toBe("kept");
    const leaving = orAborted(never, controller.signal);
    controller.abort(new Error("enough"));
    await expect(leaving).rejects.toThrow("enough");
    await expect(orAborted(never, controller.signal)).rejects.toThrow("enough");
    // A failure after every caller has left would end the process if it were unhandled.
    const late = Promise.withResolvers<string>();
    await expect(orAborted(late.promise, controller.signal)).rejects.toThrow("enough");
    late.reject(new Error("too late"));
    await new Promise((resolve) => setImmediate(resolve));
    await expect(orAborted(late.promise, undefined)).rejects.toThrow("too late");
  });
});

it.each([
  [0, "0 B"],
  [999, "999 B"],
  [1_000, "1.0 kB"],
  [9_949, "9.9 kB"],
  [9_960, "10 kB"],
  [999_499, "999 kB"],
  [999_500, "1.0 MB"],
  [2 ** 30, "1.1 GB"],
  [5e15, "5000 TB"],
])("an amount of %i bytes reads %s", (n, words) => {
  expect(bytes(n)).toBe(words);
});
