// The gate over a real sshd: the agent starts it, returns its results so far, and leaves nothing of it behind.
// @module-tag needs/sshd
// @module-tag needs/cc

import { readdirSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { answersOf, type ProbeName } from "../../src/schemas/gate.ts";
import { remoteGate } from "../../src/ssh/remote-gate.ts";
import { FakeGpus } from "../gate/fake-gpus.ts";
import { gate } from "../runner/programs.ts";
import { python } from "../runner/harness.ts";
import { never, TestMachine } from "./machine.ts";

let gpus: FakeGpus;
let machine: TestMachine;
beforeEach(async () => {
  gpus = new FakeGpus();
  machine = await TestMachine.start({ env: gpus.env });
});
afterEach(async () => {
  await machine.close();
  gpus.close();
});

const open = () => remoteGate(machine.link(), () => gate.text, machine.base);
const ask = (...probes: ProbeName[]) => ({ seconds: 20, python, probes });

/** The gate's processes: those with the machine's GPUs in their environment, except the agent. */
function testing(): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
      return (
        environment.includes(`FAKE_GPUS=${gpus.folder}`) &&
        /svc_gate|nvidia-smi/.test(readFileSync(`/proc/${pid}/cmdline`, "utf8"))
      );
    } catch {
      return false;
    }
  });
}

it("The gate starts once, answers as soon as the needed probes have finished, and marks the results that it has already returned", async () => {
  gpus.cuda();
  const over = open();
  await over.start(ask("gpus", "cuda", "shm"), never);
  await over.start(ask("gpus", "cuda", "shm"), never);
  const first = await over.look({ need: ["gpus", "cuda"], waitMs: 20_000, end: false }, never);
  expect(answersOf(first)).toMatchObject({
    gpus: { ok: { gpus: [{ name: "NVIDIA GeForce RTX 4090" }] } },
    cuda: { ok: { code: 0 } },
  });
  expect([first.started, first.told]).toEqual([true, []]);
  const last = await over.look({ need: ["gpus", "cuda", "shm"], waitMs: 20_000, end: true }, never);
  expect(last.told).toEqual(expect.arrayContaining(["gpus", "cuda"]));
  expect(Math.abs(last.clockAheadMs)).toBeLessThan(20_000);
});

it("The end of the gate kills hanging probes before the script starts", async () => {
  gpus.cuda({ init: "hang" });
  gpus.smi("sleep 1000");
  const over = open();
  await over.start(ask("gpus", "cuda"), never);
  await expect.poll(() => testing().length).toBeGreaterThanOrEqual(3);
  const look = await over.look({ need: ["gpus", "cuda"], waitMs: 100, end: true }, never);
  expect([look.over, look.results]).toEqual([false, []]);
  await expect.poll(testing).toEqual([]);
  expect(await over.look({ need: [], waitMs: 0, end: true }, never)).toMatchObject({ started: true, over: true });
});

it("A new connection finds no gate, because the gate of the lost connection has ended", async () => {
  gpus.smi("sleep 1000");
  const link = machine.link();
  await remoteGate(link, () => gate.text, machine.base).start({ ...ask("gpus", "shm"), seconds: 2 }, never);
  link.close();
  expect(await open().look({ need: ["gpus"], waitMs: 20_000, end: false }, never)).toMatchObject({
    started: false,
    results: [],
  });
  await expect.poll(testing).toEqual([]);
});
