// The verdict for each measurement of the gate, as the table in docs/internals/gate.md states.

import { describe, expect, test } from "vitest";
import type { GateAnswers } from "../../../src/schemas/gate.ts";
import { RunSpec, type RunSpecInput } from "../../../src/schemas/spec.ts";
import { gateDetail, judgeGate } from "../../../src/steps/rental/gate-verdict.ts";

const spec = (changes: Partial<RunSpecInput> = {}) =>
  RunSpec.parse({ entrypoint: "train.py", provider: "podhost", gpus: "RTX4090", ...changes });

type Ok<N extends keyof GateAnswers> = Extract<NonNullable<GateAnswers[N]>, { ok: unknown }>["ok"];
const GPU = {
  uuid: "GPU-1",
  bus: "00000000:01:00.0",
  memory_mib: 24_564,
  free_mib: 24_164,
  driver: "570.86.15",
  name: "NVIDIA GeForce RTX 4090",
};
const gpus = (...list: Partial<typeof GPU>[]): Pick<GateAnswers, "gpus"> => ({
  gpus: { ok: { tool: true, fault: null, gpus: list.map((each) => ({ ...GPU, ...each })) } },
});
const cuda = (changes: Partial<Ok<"cuda">> = {}): Pick<GateAnswers, "cuda"> => ({
  cuda: { ok: { library: true, code: 0, name: null, driver: 12_080, gpus: 1, ...changes } },
});
const torch = (changes: Partial<Ok<"torch">>): Pick<GateAnswers, "torch"> => ({
  torch: { ok: { gpus: [], all_reduce: null, ...changes } },
});
const multiplied = (tflops: number | null, right: boolean | null = true, name = GPU.name) =>
  torch({ gpus: [{ name, tflops, right }] });
const health = (changes: Partial<Ok<"gpu_health">["gpus"][number]>): GateAnswers => ({
  gpu_health: { ok: { gpus: [{ uuid: "GPU-1", uncorrected: 0, pending: false, failure: false, ...changes }] } },
});
const xid = (number: number, bus = "0000:01:00"): GateAnswers => ({
  ...gpus({}),
  xid: { ok: { readable: true, xids: [{ bus, xid: number, seconds_ago: 600 }] } },
});
const disk = (changes: Partial<Ok<"disk">>): GateAnswers => ({
  disk: { ok: { free_bytes: 50e9, bytes: 60e9, write_bytes_per_second: 800e6, ...changes } },
});

/** Each finding as `hard` or `soft` and its words. */
const judged = (answers: GateAnswers, changes: Partial<RunSpecInput> = {}, clockAheadMs: number | null = 0): string[] =>
  judgeGate(spec(changes), answers, clockAheadMs).map(({ hard, words }) => `${hard ? "hard" : "soft"}: ${words}`);

const GOOD: GateAnswers = {
  ...gpus({}),
  ...cuda(),
  ...multiplied(158),
  ...disk({}),
  ...health({ uncorrected: null, pending: null, failure: null }),
  xid: { ok: { readable: false, xids: [] } },
  shm: { ok: { bytes: 8e9, free_bytes: 8e9 } },
  download: { ok: { host: "pypi.org", bytes_per_second: 90e6 } },
  torch_found: { ok: { version: "2.9.0", cuda: "12.8" } },
};

test("A good machine has no finding, and neither has a machine without any result", () => {
  expect(judged(GOOD)).toEqual([]);
  expect(judged({}, {}, null)).toEqual([]);
});

describe("svc ends the machine, and gives the numbers, if", () => {
  test.each<[string, GateAnswers, RegExp, Partial<RunSpecInput>?]>([
    ["a GPU is missing", gpus({}), /2 × RTX4090 were ordered, and the machine shows 1/, { gpus: "RTX4090:2" }],
    ["another model is there", gpus({ name: "NVIDIA GeForce RTX 3060" }), /1 × RTX4090 was ordered/],
    ["it has less memory", gpus({ memory_mib: 12_000, free_mib: 12_000 }), /RTX4090 has 24 GB per GPU/],
    [
      "nvidia-smi is there and fails",
      { gpus: { ok: { tool: true, gpus: [], fault: { exit: 9, words: "no driver" } } } },
      /nvidia-smi exits 9 and says: no driver/,
    ],
    [
      "the driver is too old for the image",
      gpus({ driver: "470.1" }),
      /its GPU driver is 470.1, and the image x:cuda12.8 \(CUDA 12\) needs 525/,
      { image: "x:cuda12.8" },
    ],
    ["CUDA fails", cuda({ code: 999, name: "CUDA_ERROR_UNKNOWN" }), /cuInit returns 999 \(CUDA_ERROR_UNKNOWN\)/],
    ["CUDA shows fewer GPUs", cuda({ gpus: 1 }), /2 × RTX4090 ordered, and CUDA shows 1/, { gpus: "RTX4090:2" }],
    ["most of the memory is taken", gpus({ free_mib: 9_000 }), /only 8.8 GiB of the 24.0 GiB/],
    ["a row could not be remapped", health({ failure: true }), /GPU-1 could not remap/],
    ["a GPU fell off the bus", xid(79), /Xid 79 for the GPU at 0000:01:00 10 min ago/],
    ["the disk is full", disk({ free_bytes: 50e6 }), /50 MB free of 60 GB/],
    ["the disk cannot be written to", { disk: { error: "OSError: Read-only file system" } }, /Read-only file system/],
    ["a GPU is slow", multiplied(20), /bf16 at 20 TFLOPS, and its datasheet has 165/],
    ["a product is wrong", multiplied(150, false), /GPU 0 \(.*4090\) multiplies wrongly/],
    [
      "a sum is wrong",
      torch({ all_reduce: { right: false, bytes_per_second: null, error: null } }),
      /all-reduce\) is wrong/,
    ],
  ])("%s", (_, answers, words, changes) => {
    const found = judged(answers, changes);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^hard: .*${words.source}`));
  });
});

describe("svc only reports it, and the run continues, if", () => {
  test.each<[string, GateAnswers, RegExp, Partial<RunSpecInput>?]>([
    ["some memory is taken", gpus({ free_mib: 20_000 }), /19.5 GiB of the 24.0 GiB/],
    ["errors were not corrected", health({ uncorrected: 2 }), /2 uncorrected/],
    ["a remapping waits", health({ pending: true }), /waits for a reset/],
    ["another Xid was seen", xid(94), /Xid 94/],
    [
      "the wheel wants a newer driver",
      { ...cuda(), torch_found: { ok: { version: "2.11", cuda: "13.0" } } },
      /serves CUDA 12.8, .*2.11 needs CUDA 13.0/,
    ],
    ["/dev/shm is Docker's", { shm: { ok: { bytes: 67_108_864, free_bytes: 0 } } }, /\/dev\/shm has 67 MB/],
    [
      "the disk is smaller than ordered",
      disk({ free_bytes: 70e9 }),
      /70 GB free, and disk_gb asks for 100 GB/,
      { disk_gb: 100 },
    ],
    ["the disk is slow", disk({ write_bytes_per_second: 9e6 }), /writes 9.0 MB\/s/],
    [
      "the network is slow",
      { download: { ok: { host: "pypi.org", bytes_per_second: 200e3 } } },
      /200 kB\/s from pypi.org/,
    ],
    ["there is no index", { download: { error: "URLError: no route" } }, /package index failed: URLError/],
    ["a GPU is slower than it should be", multiplied(60), /60 TFLOPS/],
    [
      "a sum fails",
      torch({ all_reduce: { right: null, bytes_per_second: null, error: "NCCL error" } }),
      /failed: NCCL error/,
    ],
    ["a sum is slow", torch({ all_reduce: { right: true, bytes_per_second: 2e8, error: null } }), /moves 200 MB\/s/],
    ["a probe hangs", { cuda: { late: true } }, /initialization of CUDA gave no answer in time/],
  ])("%s", (_, answers, words, changes) => {
    const found = judged(answers, changes);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(new RegExp(`^soft: .*${words.source}`));
  });

  test("its clock is off by more than half a minute", () => {
    expect(judged({}, {}, -45_000)).toEqual(["soft: its clock is 45 s behind this computer's"]);
    expect(judged({}, {}, 29_000)).toEqual([]);
  });
});

describe("No finding is", () => {
  test.each<[string, GateAnswers, Partial<RunSpecInput>?]>([
    ["an Xid that scripts cause", xid(31)],
    ["an Xid of a GPU that another tenant has", xid(79, "0000:81:00")],
    ["a driver's library that the image lacks", cuda({ library: false, code: null })],
    ["a GPU without bf16", multiplied(null, null, "Tesla T4")],
    ["a GPU that no datasheet is known of", multiplied(1, true, "NVIDIA Something")],
    ["one of several GPUs that is taken, where fewer were ordered", gpus({ free_mib: 0 }, {})],
    ["whatever GPUs do on a run without", { ...cuda({ code: 999 }), ...gpus({ free_mib: 0 }) }, { gpus: "cpu" }],
    [
      "a minor version that the wheel is ahead",
      { ...cuda({ driver: 12_040 }), torch_found: { ok: { version: "2.9", cuda: "12.8" } } },
    ],
    ["a probe that the image has no means for", { shm: { error: "FileNotFoundError" }, cuda: { error: "it ended" } }],
  ])("%s", (_, answers, changes) => expect(judged(answers, changes)).toEqual([]));
});

test("The detail of the step has the numbers with their units, and leaves out what is unknown", () => {
  expect(gateDetail(GOOD, 40.4)).toEqual({
    gpus: ["NVIDIA GeForce RTX 4090"],
    gpu_free_mib: [24_164],
    gpu_driver: "570.86.15",
    cuda: "12.8",
    torch: "2.9.0",
    matmul_tflops: [158],
    shm_mb: 8_000,
    disk_free_mb: 50_000,
    disk_write_mb_s: 800,
    download_mb_s: 90,
    clock_ahead_ms: 40,
  });
  expect(gateDetail({}, null)).toEqual({});
});
