// The collect step of a new control plane: what it does for a machine that an earlier one rented.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { Guard, MachineAccess } from "../../src/providers/host.ts";
import type { CheckpointScan, ScanResult } from "../../src/steps/checkpoints/scan.ts";
import type { CheckpointHost } from "../../src/steps/checkpoints/home-names.ts";
import { collectStep } from "../../src/steps/collect.ts";
import type { RunnerStatus } from "../../src/schemas/runner.ts";
import type { RunServices } from "../../src/steps/run-services.ts";
import { withHiddenWords } from "../../src/steps/redact-step.ts";
import { removeHomes } from "../engine/harness.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
let calls: string[];
/** The answer of both runs about their status. */
let status: () => Promise<Partial<RunnerStatus> | null>;
let stop: () => Promise<void>;
/** Of each scan: whether it was the last one. */
let finals: boolean[];
let pending: string[];
let skipped: ScanResult["skipped"];
let torn: string[];
/** Of each scan: whether it was told that the script succeeded. */
let succeeded: boolean[];
let noRoom: { path: string; needs: number; free: number; total: number }[];
/** Throws while the run's secrets cannot be read. */
let redactor: () => Redactor;
/** The names under which the scan would store the files. */
let stored: string[];
let notices: string[];
let log: () => Promise<{ bytes: Buffer }>;
const noLog = () => Promise.reject(new SvcError("runner_failed", { why: "no log" }));
beforeEach(async () => {
  [rent, calls, status] = [await Rent.open(), [], () => Promise.resolve(null)];
  [stop, finals, pending, log] = [() => Promise.resolve(), [], [], noLog];
  notices = [];
  [skipped, noRoom, torn, succeeded, stored, redactor] = [[], [], [], [], [], () => new Redactor([])];
  await rent.h.create("job1");
  const name = rent.name(1);
  await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: 0 });
  const extra = { home: "/root" };
  await rent.ledger.held(name, { v: 1, provider: "podhost", id: "m1", name, address: null, priceMicro: 1, extra });
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

function services(): RunServices {
  const access = {
    inPlace: false,
    layout: () => ({ checkpoints: "/root/checkpoints" }),
    keep: (guard: Guard) => Promise.resolve(void calls.push(`keep ${guard.graceSeconds}`)),
    host: () => ({
      status: () => status(),
      stop: () => stop(),
      readLog: () => log(),
      ackLog: () => Promise.resolve(),
      listCheckpoints: () =>
        Promise.resolve(["model.pt", "of-swordfish.pt"].map((path) => ({ path, size: 1, mtimeMs: 1, inode: 1 }))),
      readSamples: () => Promise.resolve({ samples: [], next: 0 }),
    }),
  } as unknown as MachineAccess;
  rent.cloud.access = () => access;
  const scan = async (host: CheckpointHost, { final, hasSucceeded = false }: CheckpointScan) => {
    calls.push("scan");
    succeeded.push(hasSucceeded);
    finals.push(final);
    stored = (await host.listCheckpoints(rent.controller.signal)).map(({ path }) => path);
    return { saved: [], skipped, pending, noRoom, torn };
  };
  return {
    ...rent.ports,
    // Until the provider is asked about the machine, half a minute passes.
    pause: (ms: number, signal?: AbortSignal) => (ms < 30_000 ? Promise.resolve() : rent.ports.pause(ms, signal)),
    sink: {
      cursor: () => ({ sourceOffset: 0, displayOffset: 0 }),
      notice: async (_job: string, _level: string, words: string) => void notices.push(words),
    },
    guard: () => ({ graceSeconds: 1_800, selfEnd: "true", stopSeconds: 10 }),
    secrecy: () => ({
      mark: "mark",
      get redactor() {
        return redactor();
      },
    }),
    collector: () => ({ scan, atHome: () => Promise.resolve([]), home: { folder: "/home", others: 0 } }),
  } as unknown as RunServices;
}

test("Its machine's lease is renewed before the downloads, which may last longer than the lease", async () => {
  await rent.run(() => collectStep(services()));
  expect(calls).toEqual(["keep 1800", "scan"]);
});

test("A log that cannot be taken does not keep the checkpoints from being downloaded, and no retry at once repeats that", async () => {
  const step = collectStep(services());
  const attempt = () => rent.run(() => step);
  const failure = { code: "runner_failed", message: expect.stringContaining("no log") };
  status = () => Promise.resolve({ phase: "exited", log_bytes: 1 });
  await expect(attempt()).rejects.toMatchObject(failure);
  expect(calls).toEqual(["keep 1800", "scan"]);
  await expect(attempt()).rejects.toMatchObject(failure);
  expect(calls).toEqual(["keep 1800", "scan", "keep 1800"]);
  await rent.h.clock.advance(60_000);
  await expect(attempt()).rejects.toMatchObject(failure);
  expect(calls.filter((call) => call === "scan")).toHaveLength(2);
  status = () => Promise.resolve(null);
  await attempt();
  expect(calls.filter((call) => call === "scan")).toHaveLength(3);
});

test("Only a script that is known to have ended has its checkpoints downloaded as those of an ended one", async () => {
  const attempt = async () => {
    await expect(rent.run(() => collectStep(services()))).rejects.toMatchObject({ code: "runner_failed" });
    return finals.pop();
  };
  const failure = () => Promise.reject(new SvcError("runner_failed", { why: "no answer" }));
  status = failure;
  expect(await attempt()).toBe(false);
  status = () => Promise.resolve({ phase: "running" });
  stop = failure;
  expect(await attempt()).toBe(false);
  // The log fails after that.
  stop = () => Promise.resolve();
  expect(await attempt()).toBe(true);
  status = () => Promise.resolve({ phase: "exited", log_bytes: 1 });
  expect(await attempt()).toBe(true);
  status = () => Promise.resolve(null);
  await rent.run(() => collectStep(services()));
  expect(finals).toEqual([true]);
});

test("The next attempt scans again while files have not settled, or the script may write more", async () => {
  const step = collectStep(services());
  const scans = async () => {
    await expect(rent.run(() => step)).rejects.toThrow();
    return finals.length;
  };
  status = () => Promise.reject(new SvcError("runner_failed", { why: "no answer" }));
  expect([await scans(), await scans()]).toEqual([1, 2]);
  status = () => Promise.resolve({ phase: "exited", log_bytes: 1 });
  pending = ["last.pt"];
  expect([await scans(), await scans()]).toEqual([3, 4]);
  pending = [];
  expect([await scans(), await scans()]).toEqual([5, 5]);
  expect(finals).toEqual([false, false, true, true, true]);
});

test("A script that may have outlived the request to end has its checkpoints downloaded as those of a running one", async () => {
  const step = collectStep(services());
  const attempt = () => rent.run(() => step);
  log = () => Promise.resolve({ bytes: Buffer.alloc(0) });
  status = () => Promise.resolve({ phase: "running", log_bytes: null });
  for (const code of ["machine_unfit", "machine_disk_full"] as const) {
    stop = () => Promise.reject(new SvcError(code, { machine: "m", why: "it is read-only" }));
    pending = ["model.bin"];
    await expect(attempt()).rejects.toMatchObject({ code: "runner_failed", retry: "backoff" });
    pending = [];
    skipped = [{ path: "model.bin", why: "it cannot be read", again: true }];
    await expect(attempt()).rejects.toMatchObject({ code: "runner_failed", retry: "backoff" });
    skipped = [];
    noRoom = [{ path: "model.bin", needs: 2, free: 1, total: 3 }];
    await expect(attempt()).rejects.toMatchObject({ code: "disk_full" });
    noRoom = [];
    expect(await attempt()).toMatchObject({ done: { exit_code: null } });
  }
  expect(finals).toEqual(Array(8).fill(false));
  stop = () => Promise.resolve();
  await attempt();
  expect(finals.at(-1)).toBe(true);
});

test("Processes that could not be ended are named, with what becomes of them", async () => {
  const left = [
    { pid: 11, start: 1, name: "root-daemon" },
    { pid: 12, start: 1, name: "swordfish" },
  ];
  redactor = () => new Redactor(["swordfish"]);
  log = () => Promise.resolve({ bytes: Buffer.alloc(0) });
  // Of the installation and the script, twice.
  const statuses = [left.slice(0, 1), left.slice(1), [], left.slice(0, 1)];
  status = () => Promise.resolve({ phase: "exited", exit_code: 0, log_bytes: 0, left: statuses.shift() ?? [] });
  await rent.run(() => collectStep(services()));
  expect(notices).toEqual([
    "2 processes of the run could not be ended: 11 (root-daemon), 12 (***redacted***). They belong to another user, or wait for a device. The end of the machine removes them.",
  ]);
  const { info } = rent.cloud;
  const capabilities = { ...info.capabilities, owns_machine: false };
  Object.assign(rent.cloud, { info: { ...info, capabilities } });
  expect(await rent.run(() => collectStep(services()))).toMatchObject({
    detail: { processes_left: ["11 (root-daemon)"] },
  });
  expect(notices[1]).toBe(
    "A process of the run could not be ended: 11 (root-daemon). It belongs to another user, or waits for a device. svc leaves it on the machine; an administrator can end it.",
  );
});

test("Secrets that cannot be read keep the log on the machine, and no checkpoint", async () => {
  const unreadable = new SvcError("home_unusable", { home: "/h", why: "cannot be read" });
  const step = withHiddenWords(collectStep(services()), () => redactor());
  const attempt = () => rent.run(() => step);
  redactor = () => {
    throw unreadable;
  };
  log = () => Promise.resolve({ bytes: Buffer.from("swordfish") });
  status = () => Promise.resolve({ phase: "exited", log_bytes: 9 });
  await expect(attempt()).rejects.toMatchObject({ code: "home_unusable" });
  expect(finals).toEqual([true]);
  expect(stored).toEqual(["model.pt", "of-swordfish.pt"]);
  skipped = [{ path: "model.pt", why: "swordfish" }];
  status = () => Promise.resolve(null);
  const result = await attempt();
  expect(result).toMatchObject({ done: { exit_code: null } });
  expect(JSON.stringify([result, rent.progress, notices])).not.toContain("swordfish");
  redactor = () => new Redactor(["swordfish"]);
  await attempt();
  expect(stored).toEqual(["model.pt", "of-***redacted***.pt"]);
});

test("A listing that ended at its limit is named before all other reasons, with what is lost and what helps", async () => {
  const why = "it is a symlink that leaves the checkpoint directory";
  skipped = [
    { path: "a.jpg", why },
    { path: "b.jpg", why, others: 41 },
    { path: "cache/7", why: "it and what follows it are beyond the first 100000 files", isLimit: true },
  ];
  status = () => Promise.resolve({ phase: "exited", log_bytes: 0 });
  log = () => Promise.resolve({ bytes: Buffer.alloc(0) });
  expect(await rent.run(() => collectStep(services()))).toMatchObject({
    detail: {
      left_out: [expect.stringMatching(/^cache\/7: .*beyond the first 100000 files/), `a.jpg: ${why}`, `b.jpg: ${why}`],
    },
  });
  expect(notices).toEqual([
    expect.stringMatching(
      /^The checkpoint directory has more than svc lists \(100,000 files\): cache\/7 and .*lost with the machine.*svc.checkpoint/,
    ),
    `43 files of the checkpoint directory could not be downloaded: a.jpg: ${why}; b.jpg: ${why}; and 40 more, in the timeline.`,
  ]);
});

test("A checkpoint that the script was writing is named, and the scan knows whether the script succeeded", async () => {
  log = () => Promise.resolve({ bytes: Buffer.alloc(0) });
  torn = ["last"];
  status = () => Promise.resolve({ phase: "exited", log_bytes: 0, exit_code: 1 });
  const done = await rent.run(() => collectStep(services()));
  expect(notices).toEqual([
    expect.stringMatching(/^The checkpoint last may be incomplete: .*a run that resumes uses the version before/),
  ]);
  expect(done, "they outlast the end of the run").toMatchObject({ detail: { warnings: notices } });
  status = () => Promise.resolve({ phase: "exited", log_bytes: 0, exit_code: 0 });
  await rent.run(() => collectStep(services()));
  for (const sign of [{ stopped: true }, { preempted: true }]) {
    status = () => Promise.resolve({ phase: "exited", log_bytes: 0, exit_code: 0, ...sign });
    await rent.run(() => collectStep(services()));
  }
  expect(succeeded, "svc asked the script to end: exit code 0 says nothing of its files").toEqual([
    false,
    true,
    false,
    false,
  ]);
});
