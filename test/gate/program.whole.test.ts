// The gate's program as the agent starts it: what it measures on good and bad machines, and that it ends whatever a probe does.
// @module-tag needs/cc
// @module-tag needs/linux

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { answersOf, PROBE_NAMES, type GateAnswers, type ProbeName } from "../../src/schemas/gate.ts";
import { gate } from "../runner/programs.ts";
import { python } from "../runner/harness.ts";
import { FakeGpus } from "./fake-gpus.ts";

const LOAD = "import sys; t = sys.stdin.buffer.read(); exec(compile(t, 'svc_gate', 'exec')); main(t)";

let gpus: FakeGpus;
let folder: string;
beforeEach(() => {
  gpus = new FakeGpus();
  folder = join(gpus.folder, "machine");
});
afterEach(() => gpus.close());

function started(ask: { probes: readonly ProbeName[]; seconds?: number; index?: string }) {
  const whole = { seconds: 20, python, folder, ...ask };
  const child = spawn(python, ["-I", "-S", "-B", "-c", LOAD, JSON.stringify(whole)], {
    env: gpus.env,
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
  });
  onTestFinished(() => {
    try {
      if (child.pid) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  });
  child.stdin.end(gate.text);
  return child;
}

/** Runs the gate to its end and returns its lines by probe. */
async function measured(ask: Parameters<typeof started>[0]): Promise<GateAnswers> {
  const child = started(ask);
  let [out, err] = ["", ""];
  child.stdout.on("data", (data: Buffer) => (out += data.toString()));
  child.stderr.on("data", (data: Buffer) => (err += data.toString()));
  await once(child, "close");
  expect(err).toBe("");
  const lines = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.at(-1)).toEqual({ over: true });
  return answersOf({ results: lines.slice(0, -1) as never });
}

/** The process group of a living process; null for a zombie or no process. */
function groupOf(pid: string): number | null {
  try {
    const [state, , group] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    return state === "Z" ? null : Number(group);
  } catch {
    return null;
  }
}

it("A good machine is measured by every probe, and no file of the gate stays on it", async () => {
  gpus.cuda();
  gpus.torch();
  const answers = await measured({ probes: PROBE_NAMES.filter((name) => name !== "download") });
  expect(answers).toMatchObject({
    gpus: {
      ok: {
        tool: true,
        fault: null,
        gpus: [{ name: "NVIDIA GeForce RTX 4090", memory_mib: 24_564, free_mib: 24_164 }],
      },
    },
    gpu_health: { ok: { gpus: [{ uncorrected: null, pending: false, failure: false }] } },
    cuda: { ok: { code: 0, driver: 12_080, gpus: 1 } },
    shm: { ok: { bytes: expect.any(Number) } },
    disk: { ok: { free_bytes: expect.any(Number) } },
    torch_found: { ok: { version: "2.9.0", cuda: "12.8" } },
    torch: { ok: { gpus: [{ tflops: expect.any(Number), right: true }], all_reduce: null } },
  });
  expect(readdirSync(folder)).toEqual([]);
});

it("No probe fails on a machine without GPUs, CUDA and torch", async () => {
  gpus.smi("exit 127");
  const answers = await measured({ probes: ["cuda", "torch_found", "torch", "shm"] });
  expect(answers).toMatchObject({
    cuda: { ok: { library: false, code: null } },
    torch_found: { ok: { version: null } },
  });
  expect(answers.torch).toBeUndefined();
});

it("The gate reports an nvidia-smi that fails twice, with its message, and retries one that fails once", async () => {
  gpus.smi("echo 'Unable to determine the device handle for GPU 0: GPU is lost.'; exit 15");
  expect(await measured({ probes: ["gpus"] })).toMatchObject({
    gpus: { ok: { fault: { exit: 15, words: expect.stringContaining("GPU is lost") } } },
  });
  const once = join(gpus.folder, "once");
  gpus.smi(`[ -e ${once} ] || { touch ${once}; exit 9; }
echo '0, GPU-1, 00000000:01:00.0, 24564, 24000, 570.86.15, NVIDIA L4, odd'`);
  expect(await measured({ probes: ["gpus"] })).toMatchObject({
    gpus: { ok: { fault: null, gpus: [{ name: "NVIDIA L4, odd", free_mib: 24_000 }] } },
  });
});

it("The gate reads memory errors and rows that wait for a reset, and accepts a driver that knows neither field", async () => {
  gpus.show([{ name: "NVIDIA A100-SXM4-80GB", memory_mib: 81_920, uncorrected: 3, remapping: "pending" }]);
  expect(await measured({ probes: ["gpu_health"] })).toMatchObject({
    gpu_health: { ok: { gpus: [{ uncorrected: 3, pending: true, failure: false }] } },
  });
  gpus.smi('echo "Field is not a valid field to query."; exit 2');
  expect(await measured({ probes: ["gpu_health"] })).toEqual({ gpu_health: { ok: { gpus: [] } } });
});

describe("CUDA", () => {
  it("returns a code and its name if it cannot be initialized", async () => {
    gpus.cuda({ init: 999 });
    expect(await measured({ probes: ["cuda"] })).toMatchObject({
      cuda: { ok: { code: 999, name: "CUDA_ERROR_UNKNOWN", driver: 12_080, gpus: null } },
    });
  });

  it("does not disturb the other probes if its library crashes", async () => {
    gpus.cuda({ init: "crash" });
    const answers = await measured({ probes: ["cuda", "gpus", "shm"] });
    expect(answers).toMatchObject({
      cuda: { error: expect.stringContaining("ended") },
      gpus: { ok: {} },
      shm: { ok: {} },
    });
  });

  it("ends with the gate if it hangs, after the other probes have answered", async () => {
    gpus.cuda({ init: "hang" });
    gpus.torch();
    const answers = await measured({ probes: ["cuda", "gpus", "torch_found", "torch"], seconds: 2 });
    expect(answers).toMatchObject({ cuda: { late: true }, gpus: { ok: {} } });
    // A GPU that hangs in CUDA must not get further work.
    expect(answers.torch).toBeUndefined();
  });
});

it("The gate detects a GPU that multiplies wrongly or slowly, and a sum over several GPUs that is wrong or fails", async () => {
  gpus.show(Array.from({ length: 2 }, () => ({ name: "NVIDIA GeForce RTX 4090", memory_mib: 24_564 })));
  gpus.cuda({ count: 2 });
  gpus.torch({ count: 2, right: false, mm_seconds: 0.2, sum_right: false });
  const probes = ["gpus", "cuda", "torch_found", "torch"] as const;
  const bad = await measured({ probes });
  expect(bad.torch).toMatchObject({ ok: { gpus: [{ right: false }, { right: false }], all_reduce: { right: false } } });
  const slow = bad.torch && "ok" in bad.torch ? (bad.torch.ok.gpus[0]?.tflops ?? 0) : 0;
  // The calculation takes 0.2 s (1.1 Tflop), whatever else the computer does.
  expect(slow).toBeLessThan(6);
  gpus.torch({ count: 2, nccl_error: "NCCL error: unhandled system error" });
  expect((await measured({ probes })).torch).toMatchObject({
    ok: { all_reduce: { error: "RuntimeError: NCCL error: unhandled system error" } },
  });
});

it("The gate measures a download of the index's newest wheel, and reports an index that answers with an error", async () => {
  const wheel = Buffer.alloc(200_000, 1);
  const paths: string[] = [];
  const server = createServer((request, answer) => {
    paths.push(request.url ?? "");
    if (request.url === "/simple/numpy/")
      answer.end('<a href="../../old-x86_64.whl#sha256=0">old</a><a href="../../new-x86_64.whl#sha256=1">new</a>');
    else if (request.url === "/new-x86_64.whl") answer.end(wheel);
    else answer.writeHead(503).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect(await measured({ probes: ["download"], index: `${at}/simple` })).toMatchObject({
    download: { ok: { host: "127.0.0.1", bytes_per_second: expect.any(Number) } },
  });
  expect(paths).toEqual(["/simple/numpy/", "/new-x86_64.whl"]);
  expect(await measured({ probes: ["download"], index: `${at}/gone` })).toMatchObject({
    download: { error: expect.stringContaining("503") },
  });
});

it("The disk probe fails if its folder cannot be written to", async () => {
  writeFileSync(join(gpus.folder, "machine"), "a file where the folder should be");
  expect(await measured({ probes: ["disk"] })).toMatchObject({
    disk: { error: expect.stringContaining("FileExistsError") },
  });
});

it("The gate ends at once, with all its processes, when no process reads its output any more", async () => {
  gpus.cuda({ init: "hang" });
  const child = started({ probes: ["cuda", "shm"] });
  const { pid = 0 } = child;
  child.stdout.destroy();
  expect(await once(child, "exit")).toEqual([null, "SIGKILL"]);
  const left = (): boolean => readdirSync("/proc").some((name) => /^\d+$/.test(name) && groupOf(name) === pid);
  await expect.poll(left).toBe(false);
});
