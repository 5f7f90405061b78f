// The memory of hosts over a real store: which machines it counts, which hosts it avoids, and for how long.

import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { gpuModelOf, historyOf, historyWords } from "../../src/domain/host-history.ts";
import { DurableHosts } from "../../src/engine/hosts.ts";
import { SvcError } from "../../src/errors/index.ts";
import { whyNotOthers, withoutOthers, type Provider } from "../../src/providers/provider.ts";
import { affordable, provisionStep } from "../../src/steps/provision.ts";
import type { RentedMachine } from "../../src/steps/ports.ts";
import { withHostVerdicts } from "../../src/steps/rental/host-verdicts.ts";
import type { StepDefinition } from "../../src/steps/step.ts";
import { migrations } from "../../src/store/migrations.ts";
import { openStore, prepareHome } from "../../src/store/database.ts";
import { HostStore } from "../../src/store/host-store.ts";
import { Rent } from "../steps/rent.ts";
import { removeHomes } from "./harness.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

let rent: Rent;
let hosts: DurableHosts;
let reports: string[];
beforeEach(async () => {
  [rent, reports] = [await Rent.open(), []];
  rent.want({ gpus: "RTX4090" });
  hosts = new DurableHosts({
    engine: rent.h.engine,
    ledger: rent.ledger,
    gpusOf: () => rent.spec.gpus,
    report: (line) => reports.push(line),
    without: (offers, from, reasons) => withoutOthers(offers, [...whyNotOthers(from), ...reasons]),
  });
  hosts.attendTo(rent.cloud);
});
afterEach(async () => {
  expect(reports).toEqual([]);
  await rent.h.end();
});
afterAll(removeHomes);

let made = 0;
const machine = (changes: Partial<RentedMachine> = {}): RentedMachine => ({
  name: `m${++made}`,
  provider: "podhost",
  host: "h1",
  gpu: "RTX4090",
  seconds: 74,
  ...changes,
});
const stats = () => rent.h.reads.hostStats();
const offers = async () =>
  affordable(rent.cloud, rent.spec, await (rent.cloud as Provider).listOffers(rent.spec, rent.controller.signal));

describe("Statistics", () => {
  it("count each machine once, by provider and GPU, with the median of the good ones to SSH", async () => {
    for (const seconds of [60, 74, 300]) await hosts.good(machine({ seconds }));
    await hosts.bad(machine(), "no GPU");
    const turned = machine({ seconds: 10 });
    await hosts.good(turned);
    await hosts.bad(turned, "CUDA fails");
    // A verdict that is bad stays.
    await hosts.good(turned);
    await hosts.good(machine({ provider: "market", gpu: "A40" }));
    expect(stats().stats.toSorted((a, b) => a.provider.localeCompare(b.provider))).toEqual([
      { provider: "market", gpu: "A40", good: 1, of: 1, seconds_to_ssh_p50: 74 },
      { provider: "podhost", gpu: "RTX4090", good: 3, of: 5, seconds_to_ssh_p50: 74 },
    ]);
  });

  it("are found by any spelling of the GPU, and say what to expect", async () => {
    await hosts.good(machine({ gpu: gpuModelOf("NVIDIA GeForce RTX 4090:2") }));
    const found = historyOf(stats(), { provider: "podhost", gpus: "rtx-4090:4" });
    expect(found && historyWords(found)).toBe("1 of 1 good, 74 s to SSH");
    expect(historyOf(stats(), { provider: "market", gpus: "RTX4090" })).toBeNull();
    expect(historyWords({ good: 0, of: 2, seconds_to_ssh_p50: null })).toBe("0 of 2 good");
    expect([gpuModelOf("cpu"), gpuModelOf("cpu:4"), gpuModelOf("Odd One")]).toEqual(["cpu", "cpu", "Odd One"]);
  });

  it("are kept for 90 days", async () => {
    await hosts.bad(machine(), "no GPU");
    await rent.h.clock.advance(91 * DAY);
    expect(stats()).toEqual({ stats: [], avoided: [] });
    await hosts.good(machine());
    expect(rent.h.store.db.prepare("SELECT count(*) FROM host_verdict").pluck().get()).toBe(1);
  });
});

describe("A host that was bad", () => {
  beforeEach(async () => {
    rent.cloud.offers = [
      { id: "cheap", priceMicro: 1_000_000, host: "h1" },
      { id: "dear", priceMicro: 2_000_000, host: "h2" },
      { id: "nameless", priceMicro: 3_000_000 },
    ];
    await hosts.bad(machine(), "nvidia-smi exits 9");
  });

  it("is left out for an hour, and a refusal names it", async () => {
    await rent.h.clock.advance(5 * 60_000);
    expect((await offers()).map(({ id }) => id)).toEqual(["dear", "nameless"]);
    rent.cloud.offers = rent.cloud.offers.slice(0, 1);
    await expect(offers()).rejects.toMatchObject({
      code: "no_offer",
      message: expect.stringContaining("its host was unfit 5 min ago: nvidia-smi exits 9"),
    });
  });

  it("is tried last for seven days, whatever its price", async () => {
    await rent.h.clock.advance(2 * DAY);
    expect(await offers()).toMatchObject([
      { id: "dear" },
      { id: "nameless" },
      { id: "cheap", avoided: "its host was unfit 2 days ago: nvidia-smi exits 9" },
    ]);
    expect(stats().avoided).toMatchObject([{ provider: "podhost", host: "h1", reason: "nvidia-smi exits 9" }]);
    await rent.h.clock.advance(5 * DAY + HOUR);
    expect((await offers()).map(({ id }) => id)).toEqual(["cheap", "dear", "nameless"]);
    expect(stats().avoided).toEqual([]);
  });

  it("is offered again after it has served a run", async () => {
    await rent.h.clock.advance(2 * HOUR);
    await hosts.good(machine());
    expect((await offers())[0]).toEqual({ id: "cheap", priceMicro: 1_000_000, host: "h1" });
  });

  it("is avoided at its own provider only", async () => {
    rent.cloud.offers = [{ id: "cheap", priceMicro: 1_000_000, host: "h9" }];
    await hosts.bad(machine({ provider: "market", host: "h9" }), "no GPU");
    expect((await offers()).map(({ id }) => id)).toEqual(["cheap"]);
  });
});

it("A GPU that was bad in another machine is recognized by its id", async () => {
  const [first, second] = [machine({ host: null }), machine({ host: null })];
  await hosts.good(first);
  expect(await hosts.gpus(first.name, ["GPU-1", "GPU-2"])).toBeNull();
  await hosts.bad(first, "CUDA fails");
  expect(await hosts.gpus(first.name, ["GPU-1", "GPU-2"])).toBeNull();
  await rent.h.clock.advance(3 * HOUR);
  await hosts.good(second);
  expect(await hosts.gpus(second.name, ["GPU-2", "GPU-3"])).toBe(
    "a machine with one of its GPUs was unfit 3 h ago: CUDA fails",
  );
  await rent.h.clock.advance(7 * DAY);
  expect(await hosts.gpus(second.name, ["GPU-2"])).toBeNull();
});

describe("A verdict", () => {
  let result: Awaited<ReturnType<StepDefinition["run"]>> | SvcError;
  const step = (name: StepDefinition["name"]): StepDefinition => ({
    name,
    retry: { attemptsMax: 1, delayMsMin: 1, delayMsMax: 1 },
    run: () => (result instanceof SvcError ? Promise.reject(result) : Promise.resolve(result)),
  });
  const run = (name: StepDefinition["name"]) => rent.run(() => withHostVerdicts(step(name), { ...rent.ports, hosts }));
  const rows = () => rent.h.store.db.prepare("SELECT host, gpu, verdict, reason, boot_seconds FROM host_verdict").all();
  beforeEach(async () => {
    rent.cloud.offers = [{ id: "cheap", priceMicro: 1_000_000, host: "h7" }];
    await rent.h.create("job1");
    await rent.run(provisionStep);
    await rent.h.clock.advance(30_000);
  });
  const unfit = (changes: { image?: true } = {}) =>
    new SvcError("machine_unfit", { machine: "m", why: "cuInit returns 999", ...changes });

  it("is good after the first login, with the seconds from the order and the host of the offer", async () => {
    result = { later: { afterMs: 1, why: "booting" } };
    await run("await_ssh");
    expect(rows()).toEqual([]);
    result = { done: {} };
    await run("await_ssh");
    expect(rows()).toEqual([{ host: "h7", gpu: "RTX4090", verdict: "good", reason: null, boot_seconds: 30 }]);
    await run("sync");
    expect(rows()).toHaveLength(1);
  });

  it("becomes bad when a later step finds the machine unfit", async () => {
    result = { done: {} };
    await run("await_ssh");
    result = unfit();
    await expect(run("sync")).rejects.toBe(result);
    expect(rows()).toEqual([
      { host: "h7", gpu: "RTX4090", verdict: "bad", reason: "cuInit returns 999", boot_seconds: 30 },
    ]);
  });

  it("is bad for a start that the host failed, and missing for faults of an image or a connection", async () => {
    const about = { provider: "podhost", machine: "m", why: "w" };
    for (result of [
      unfit({ image: true }),
      new SvcError("machine_broken", { ...about, why: "no such image" }),
      new SvcError("ssh_unreachable", { machine: "m", why: "down" }),
    ])
      await expect(run("await_ssh")).rejects.toThrow();
    expect(rows()).toEqual([]);
    result = new SvcError("machine_broken", { ...about, why: "no space left on device", elsewhere: true });
    await expect(run("await_ssh")).rejects.toThrow();
    expect(rows()).toMatchObject([{ verdict: "bad", reason: "no space left on device" }]);
  });

  it("is missing for a machine that svc does not own", async () => {
    Object.assign(rent.cloud.info.capabilities, { owns_machine: false });
    result = { done: {} };
    await run("await_ssh");
    expect(rows()).toEqual([]);
  });

  it("is bad for a machine that was not reachable before the time limit", async () => {
    const event = (data: Record<string, unknown>) =>
      hosts.heard({ seq: 1, job_id: "job1", at: "", type: "job.transition", data });
    event({ from: "awaiting_ssh", to: "terminating", event: "job.kill" });
    event({ from: "running", to: "terminating", event: "timer.phase" });
    await rent.h.clock.advance(0);
    expect(rows()).toEqual([]);
    event({ from: "awaiting_ssh", to: "terminating", event: "timer.phase" });
    await expect.poll(rows).toMatchObject([{ host: "h7", verdict: "bad", reason: expect.stringContaining("SSH") }]);
  });
});

it("A store of the previous version gets the table, and keeps its data", async () => {
  const root = mkdtempSync(join(tmpdir(), "svc-hosts-"));
  try {
    const home = join(root, "home");
    prepareHome(home);
    const options = { newInstallationId: "abcdefgh12345678", now: 1 };
    const before = Object.fromEntries(Object.entries(migrations).filter(([name]) => name < "0008"));
    (await openStore(home, { ...options, migrations: before })).db.close();
    const { db } = await openStore(home, options);
    expect(new HostStore(db).get("m1")).toBeUndefined();
    db.close();
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
