// The other work during a checkpoint's download, and during a question to the provider about the machine.

import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LogRecord } from "../../../src/domain/log-stream.ts";
import { SvcError } from "../../../src/errors/index.ts";
import { Redactor } from "../../../src/domain/redaction.ts";
import type { RemoteFile, RunHost } from "../../../src/providers/host.ts";
import type { MachineStatus } from "../../../src/providers/provider.ts";
import { CheckpointCollector } from "../../../src/steps/checkpoints/collector.ts";
import type { FollowedRun, Pulled } from "../../../src/steps/follow/log-follower.ts";
import type { HeldMachine } from "../../../src/steps/rental/held-machine.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import { MachineLooks } from "../../../src/steps/rental/machine-looks.ts";
import { RunWatch } from "../../../src/steps/follow/run-watch.ts";
import type { StepContext } from "../../../src/steps/step.ts";
import { DEADLINE_MS } from "../../deadline.ts";

const SIZE = 7;
let top: string;
let now: number;
let recorded: string[];
/** Whether the run was ended because it does nothing. */
let isIdle: boolean;
let listed: string[];
/** Names of the files whose download has begun, and the promise that lets the current one continue. */
let fetching: string[];
let arrive: PromiseWithResolvers<void>;
let collector: CheckpointCollector;
let notices: string[];
/** Of the listing that ends at its bounds: the first file that is left out. */
let beyond: string | null;
/** The names with which the last listing was requested. */
let requested: readonly string[] | undefined;
let controller: AbortController;
/** The provider's answer about the machine. */
let inspect: () => Promise<MachineStatus>;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "svc-watch-"));
  mkdirSync(join(top, "home"));
  now = 1_000_000;
  [recorded, listed, fetching] = [[], [], []];
  [notices, beyond, requested] = [[], null, undefined];
  isIdle = false;
  arrive = Promise.withResolvers();
  collector = new CheckpointCollector({ targetDir: join(top, "home"), now: () => now });
  controller = new AbortController();
  inspect = () => Promise.reject(new Error("it was not to be asked"));
});
afterEach(async () => {
  vi.useRealTimers();
  await collector.stop();
  rmSync(top, { recursive: true });
});

const host = {
  listCheckpoints: async (_: AbortSignal, announced?: readonly string[]): Promise<RemoteFile[]> => {
    requested = announced;
    const files = listed.map((path, inode) => ({ path, size: SIZE, mtimeMs: 1_764_000_000_000, inode }));
    if (beyond === null) return files;
    return [
      ...files,
      { path: beyond, size: 0, mtimeMs: 0, inode: 0, refused: "it and what follows it", isLimit: true },
    ];
  },
  fetchCheckpoint: async (file: RemoteFile, target: string, signal: AbortSignal): Promise<void> => {
    fetching.push(file.path);
    const aborted = new Promise<never>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason as Error)),
    );
    await Promise.race([arrive.promise, aborted]);
    writeFileSync(target, "x".repeat(SIZE));
  },
} as unknown as RunHost;

const sink = {
  checkpoints: async (_: string, files: { path: string }[]) => void recorded.push(...files.map((f) => f.path)),
  idle: async () => void (isIdle = true),
  notice: async (_: string, level: string, words: string) => void notices.push(`${level}: ${words}`),
};
const redactor = new Redactor([]);

function watchOf(stream: "run" | "install" = "run"): RunWatch {
  // The watch uses only these.
  const services = {
    now: () => now,
    facts: () => ({ spec: { provider: "podhost", nodes: 1, price_cap: 1, idle_timeout_minutes: 30 } }),
    collector: () => collector,
    ledger: { open: () => [], known: async () => undefined },
    looks: new MachineLooks(() => now),
    sink,
  } as unknown as RunServices;
  const run = { jobId: "job1", node: 0, stream, host, sink, redactor, signal: controller.signal };
  const provider = { name: "podhost", info: { capabilities: {} }, inspect: () => inspect() };
  const access = { inPlace: false, layout: () => ({ checkpoints: "/ckpt" }) };
  const held = { provider, handle: { name: "m1", priceMicro: 1 }, access } as unknown as HeldMachine;
  const context = { jobId: "job1", node: 0, signal: controller.signal } as StepContext;
  return new RunWatch(services, context, run as unknown as FollowedRun, held);
}

const saw = (...announced: string[]): Pulled => ({
  bytes: 1,
  records: announced.map((path) => ({ kind: "checkpoint", path: `/ckpt/${path}` }) as unknown as LogRecord),
  samples: [],
});
const until = (done: () => boolean): Promise<void> => vi.waitFor(() => expect(done()).toBe(true), DEADLINE_MS);

test("the log is followed while a large checkpoint is downloaded, and later announcements come after it", async () => {
  const watch = watchOf();
  expect(watch.samplesDue()).toBe(true);
  listed = ["big.pt"];
  await watch.saw(saw("big.pt"));
  await until(() => fetching.length === 1);
  for (let pull = 0; pull < 5; pull++) await watch.saw(saw());
  listed = ["big.pt", "late.pt"];
  await watch.saw(saw("late.pt"));
  expect([fetching, recorded]).toEqual([["big.pt"], []]);
  // The watch does not poll every few milliseconds for a running scan.
  expect(watch.quietMs()).toBeGreaterThan(20);
  arrive.resolve();
  await until(() => recorded.length === 1);
  await until(() => {
    void watch.saw(saw());
    return recorded.length === 2;
  });
  expect(recorded).toEqual(["big.pt", "late.pt"]);
});

test("svc does not look for checkpoints every few milliseconds during a long installation", async () => {
  const watch = watchOf("install");
  listed = ["a.pt"];
  for (let minute = 0; minute < 3; minute++) {
    now += 60_000;
    watch.samplesDue();
    watch.look();
    // Lets the provider's pending answer arrive.
    await new Promise((resolve) => setImmediate(resolve));
    await watch.saw(saw());
    expect(watch.quietMs()).toBeGreaterThan(1_000);
  }
  expect(fetching).toEqual([]);
});

test("a scan's failure is reported by the next poll of the run", async () => {
  const watch = watchOf();
  listed = ["a.pt"];
  arrive.promise.catch(() => undefined);
  arrive.reject(new Error("no way"));
  await watch.saw(saw("a.pt"));
  await vi.waitFor(() => expect(watch.saw(saw())).rejects.toThrow("no way"), DEADLINE_MS);
});

test("a kill does not restart a half-finished download: the last scan waits for it", async () => {
  const watch = watchOf();
  listed = ["big.pt"];
  await watch.saw(saw("big.pt"));
  await until(() => fetching.length === 1);
  controller.abort(new Error("the step was cancelled"));
  const last = collector.scan(host, { final: true, announced: new Set(), signal: new AbortController().signal });
  arrive.resolve();
  await last;
  expect([fetching, recorded]).toEqual([["big.pt"], ["big.pt"]]);
  expect(readdirSync(join(top, "home")).toSorted()).toEqual([".svc-partial", ".svc-sets", "big.pt"]);
});

test("a caller that stops waiting for a scan ends it", async () => {
  const watch = watchOf();
  listed = ["big.pt"];
  await watch.saw(saw("big.pt"));
  await until(() => fetching.length === 1);
  const impatient = new AbortController();
  const last = collector.scan(host, { final: true, announced: new Set(), signal: impatient.signal });
  impatient.abort(new Error("long enough"));
  await expect(last).rejects.toThrow("long enough");
  expect(readdirSync(join(top, "home", ".svc-partial"))).toEqual([]);
});

test("the end of the process ends a scan, and none begins after it", async () => {
  const watch = watchOf();
  listed = ["big.pt"];
  await watch.saw(saw("big.pt"));
  await until(() => fetching.length === 1);
  await collector.stop();
  expect(readdirSync(join(top, "home", ".svc-partial"))).toEqual([]);
  await expect(collector.scan(host, { final: false, announced: new Set(["."]) })).rejects.toMatchObject({
    code: "shutting_down",
  });
  expect(fetching).toEqual(["big.pt"]);
});

const HALF_A_MINUTE_MS = 30_000;

/**
 * The results after each of the provider's answers: the next poll begins only when the answer before it was processed.
 */
async function looks(watch: RunWatch, ...answers: MachineStatus[]): Promise<void> {
  let asked = 0;
  inspect = () => Promise.resolve(answers[asked++] ?? { phase: "starting", why: "one more" });
  for (let look = 1; look <= answers.length + 1; look++)
    await until(() => {
      now += HALF_A_MINUTE_MS;
      watch.look();
      return asked >= look;
    });
}

test("a silent provider delays nothing, and receives no second request meanwhile", async () => {
  const watch = watchOf();
  let asked = 0;
  const answer = Promise.withResolvers<MachineStatus>();
  inspect = () => {
    asked++;
    return answer.promise;
  };
  watch.look();
  expect(asked).toBe(0);
  for (let pull = 0; pull < 5; pull++) {
    now += HALF_A_MINUTE_MS;
    watch.look();
    await watch.saw(saw());
  }
  expect(asked).toBe(1);
  watch.samplesDue();
  expect(watch.quietMs()).toBeGreaterThan(20);
  answer.resolve({ phase: "starting", why: "it is loading" });
  await until(() => {
    watch.look();
    return asked === 2;
  });
});

test.each<[string, MachineStatus]>([
  ["price_cap_exceeded", { phase: "ready", address: null, priceMicro: 1_000_001 }],
  ["machine_broken", { phase: "broken", why: "it was stopped" }],
  ["machine_preempted", { phase: "broken", why: "it was outbid", preempted: true }],
])("a poll reports the reason that an earlier poll found against the machine: %s", async (code, status) => {
  const watch = watchOf();
  inspect = () => Promise.resolve(status);
  now += HALF_A_MINUTE_MS;
  watch.look();
  await vi.waitFor(() => expect(() => watch.look()).toThrow(expect.objectContaining({ code })), DEADLINE_MS);
});

test("a listing that omits a machine which answers over SSH ends no run, nor does an unreachable provider", async () => {
  const watch = watchOf();
  await looks(watch, { phase: "gone" }, { phase: "gone", preempted: true });
  let asked = 0;
  inspect = () => {
    asked++;
    return Promise.reject(new SvcError("credential_refused", { provider: "podhost", why: "status 401" }));
  };
  await until(() => {
    now += HALF_A_MINUTE_MS;
    watch.look();
    return asked >= 2;
  });
});

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

test.each([
  ["is right", 0],
  ["is five hours behind", -5 * HOUR_MS],
  ["is five hours ahead", 5 * HOUR_MS],
])("a machine whose clock %s: a run is idle after thirty minutes without work, and not earlier", async (_, ahead) => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const watch = watchOf();
  /** Minutes of a machine at rest; its log has a line in the first poll of them. */
  const rest = async (minutes: number): Promise<void> => {
    for (let ms = 0, line = 1; ms < minutes * MINUTE_MS; ms += 10_000, line = 0) {
      vi.setSystemTime(Date.now() + 10_000);
      const none = { disk_bytes_per_s: 0, net_bytes_per_s: 0, terminal_idle_seconds: null, gpus: null };
      const sample = { at_ms: Date.now() + ahead, cpu_cores: 0, memory_bytes: 1, processes: 1, ...none };
      await watch.saw({ bytes: line, records: [], samples: [sample] });
    }
  };
  await rest(20);
  // The line begins the thirty minutes again.
  await rest(29);
  expect(isIdle).toBe(false);
  await rest(0.5);
  await rest(31);
  expect(isIdle).toBe(true);
});

test("a listing that leaves out files is reported once while they can still be saved, and is requested with the announced names", async () => {
  const watch = watchOf();
  beyond = "cache/9";
  for (const name of ["a.pt", "b.pt"]) {
    await watch.saw(saw(name));
    const isRequested = async (): Promise<void> => {
      await watch.saw(saw());
      expect(requested).toEqual([name]);
    };
    await vi.waitFor(isRequested, DEADLINE_MS);
  }
  expect(notices).toEqual([
    expect.stringMatching(
      /^warning: The checkpoint directory has more than svc lists .*: cache\/9 and .* before the run ends/,
    ),
  ]);
});
