// When the gate is started, read and ended, and what a run sees of it. The test plays the machine;
// test/ssh/gate.test.ts uses a real one.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { SvcError } from "../../../src/errors/index.ts";
import type { GateAsk, MachineAccess, MachineGate } from "../../../src/providers/host.ts";
import type { GateLook } from "../../../src/schemas/gate.ts";
import { beginGate, endGate, lookThroughGate } from "../../../src/steps/rental/gate.ts";
import { heldMachine } from "../../../src/steps/rental/held-machine.ts";
import { provisionStep } from "../../../src/steps/provision.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import type { StepContext } from "../../../src/steps/step.ts";
import { removeHomes } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";

const GPU = {
  uuid: "GPU-00000000-aaaa-bbbb-cccc-000000000000",
  bus: "00000000:01:00.0",
  memory_mib: 24_564,
  free_mib: 24_164,
  driver: "570.86.15",
  name: "NVIDIA GeForce RTX 4090",
};
const DEAD = {
  probe: "cuda",
  ok: { library: true, code: 999, name: "CUDA_ERROR_UNKNOWN", driver: 12_080, gpus: null },
};
const SLOW_DISK = { probe: "disk", ok: { free_bytes: 50e9, bytes: 60e9, write_bytes_per_second: 1e6 } };
const gpus = (...list: Partial<typeof GPU>[]) => ({
  probe: "gpus",
  ok: { tool: true, fault: null, gpus: list.map((each) => ({ ...GPU, ...each })) },
});

let rent: Rent;
let services: RunServices;
let asked: GateAsk[];
let looks: Parameters<MachineGate["look"]>[0][];
let look: Partial<GateLook>;
let failure: Error | null;
let notices: string[];
let told: string[][];
let earlier: string | null;
let onStart: () => unknown;
let runStatus: object | null;
beforeEach(async () => {
  rent = await Rent.open();
  rent.want({ gpus: "RTX4090" });
  [asked, looks, look, failure, notices] = [[], [], { results: [gpus({})] }, null, []];
  [told, earlier, onStart, runStatus] = [[], null, () => undefined, null];
  const gate: MachineGate = {
    start: (ask) => {
      asked.push(ask);
      onStart();
      return failure === null ? Promise.resolve() : Promise.reject(failure);
    },
    look: (how) => {
      looks.push(how);
      const all = { started: true, over: false, age_ms: 1, now_ms: 1, results: [], told: [], clockAheadMs: 0, ...look };
      return failure === null ? Promise.resolve(all) : Promise.reject(failure);
    },
  };
  const host = () => ({ status: () => Promise.resolve(runStatus) });
  rent.cloud.access = () => ({ inPlace: false, gate, host }) as unknown as MachineAccess;
  const sink = { notice: (_job: string, _level: string, words: string) => Promise.resolve(void notices.push(words)) };
  services = {
    ...rent.ports,
    sink,
    hosts: { gpus: (name: string, uuids: string[]) => (told.push([name, ...uuids]), Promise.resolve(earlier)) },
  } as unknown as RunServices;
  await rent.h.create("job1");
  await rent.run(provisionStep);
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

const context = { jobId: "job1", node: 0, signal: new AbortController().signal } as StepContext;
const held = () => heldMachine(services, context);
const begin = () => beginGate(services, context, held());
const after = () => lookThroughGate(services, context, held());
const end = () => endGate(services, context, held());

test("The gate runs every probe within 20 s, waits a second for the GPUs after the upload, and ends before the script starts", async () => {
  await begin();
  expect(asked).toEqual([
    expect.objectContaining({ seconds: 20, probes: expect.arrayContaining(["gpus", "torch", "download"]) }),
  ]);
  expect(await after()).toMatchObject({ gate: { gpus: [GPU.name] } });
  expect(await end()).toMatchObject({ gate: { unfinished: expect.arrayContaining(["cuda", "torch"]) } });
  expect(looks).toEqual([
    { need: ["gpus", "cuda"], waitMs: 1_000, end: false },
    { need: ["gpus", "cuda"], waitMs: 20_000, end: true },
  ]);
  expect(notices).toEqual([]);
});

test("A run without GPUs tests no GPU and waits for nothing", async () => {
  rent.want({ gpus: "cpu" });
  await begin();
  await after();
  expect([asked[0]?.probes, looks[0]?.need]).toEqual([["shm", "disk", "download"], []]);
});

test("The gate downloads from the configured index, and `off` prevents the download", async () => {
  services.gateIndex = "https://index.example/simple";
  await begin();
  services.gateIndex = "off";
  await begin();
  expect(asked.map(({ index, probes }) => [index, probes.includes("download")])).toEqual([
    ["https://index.example/simple", true],
    [undefined, false],
  ]);
});

test("A hard finding ends the machine as unfit, with the numbers and the money", async () => {
  look = { results: [gpus({}), DEAD] };
  await rent.h.clock.advance(60_000);
  await expect(after()).rejects.toMatchObject({
    code: "machine_unfit",
    message: expect.stringMatching(/cuInit returns 999 \(CUDA_ERROR_UNKNOWN\); it has cost about \$\S+ so far/),
  });
});

test("On a machine that svc does not own the same finding is a notice", async () => {
  Object.assign(rent.cloud.info.capabilities, { owns_machine: false });
  look = { results: [gpus({}), DEAD] };
  expect(await after()).toMatchObject({ gate: { findings: [expect.stringContaining("999")] } });
  expect(notices).toEqual([expect.stringContaining("999")]);
});

test("svc reports a soft finding once, and both steps record it", async () => {
  look = { results: [gpus({}), SLOW_DISK] };
  const first = await after();
  look = { ...look, told: ["gpus", "disk"] };
  expect([first, await end()]).toEqual([
    { gate: expect.objectContaining({ findings: ["its disk writes 1.0 MB/s"], disk_write_mb_s: 1 }) },
    { gate: expect.objectContaining({ findings: ["its disk writes 1.0 MB/s"] }) },
  ]);
  expect(notices).toHaveLength(1);
});

test("The ids of the GPUs are stored, and one that was bad before causes one notice", async () => {
  earlier = "a machine with one of its GPUs was unfit 3 h ago: CUDA fails";
  await after();
  look = { ...look, told: ["gpus"] };
  await end();
  expect(told[0]).toEqual([rent.name(1), GPU.uuid]);
  expect(notices).toEqual([expect.stringContaining(earlier)]);
});

describe("a gate whose results were lost with their connection", () => {
  beforeEach(() => void (look = { started: false }));

  test("is run again before the script starts, and waits for every fast test that can refuse the machine", async () => {
    onStart = () => (look = { results: [gpus({})] });
    expect(await end()).toMatchObject({ gate: { gpus: [GPU.name] } });
    expect(asked).toHaveLength(1);
    expect(looks.at(-1)).toEqual({ need: ["gpus", "cuda", "gpu_health", "xid", "disk"], waitMs: 20_000, end: true });
  });

  test("refuses the machine by its second run", async () => {
    onStart = () => (look = { results: [gpus({}), DEAD] });
    await expect(end()).rejects.toMatchObject({ code: "machine_unfit" });
  });

  test("is not run again once the script was started, because the script uses the GPUs", async () => {
    runStatus = { phase: "running" };
    expect([await end(), asked]).toEqual([{}, []]);
  });

  test("waits for the disk alone where no GPU was ordered", async () => {
    rent.want({ gpus: "cpu" });
    onStart = () => (look = { results: [] });
    await end();
    expect(looks.at(-1)?.need).toEqual(["disk"]);
  });

  test("lets the script start if no test can be started", async () => {
    expect([await end(), notices]).toEqual([{}, []]);
  });
});

test("`health: off` starts no gate", async () => {
  rent.want({ gpus: "RTX4090", health: "off" });
  await begin();
  expect([await after(), await end(), asked, looks]).toEqual([{}, {}, [], []]);
});

test("The run continues if the gate fails; the step handles a machine that cannot be reached", async () => {
  failure = new SvcError("machine_unfit", { machine: "m", why: "its answer to gate_look cannot be read" });
  await begin();
  expect(await after()).toEqual({});
  expect(notices).toEqual([expect.stringContaining("could not be tested"), expect.stringContaining("gate_look")]);
  failure = new SvcError("ssh_unreachable", { machine: "m", why: "the link is down" });
  await expect(begin()).rejects.toMatchObject({ code: "ssh_unreachable" });
  await expect(end()).rejects.toMatchObject({ code: "ssh_unreachable" });
});
