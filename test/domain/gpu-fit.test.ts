import { describe, expect, test } from "vitest";
import { cudaOfImage, cudaServes, cudaText, parseCuda } from "../../src/domain/cuda.ts";
import { chipOf, compareGpus, type GpuOrder } from "../../src/domain/gpu-fit.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { orderOf } from "../../src/steps/rental/machine-fit.ts";

function order(gpus: string, over: Partial<GpuOrder> = {}): GpuOrder {
  const made = orderOf(RunSpec.parse({ entrypoint: "train.py", provider: "market", gpus }));
  if (made === null) throw new Error(`${gpus} orders no GPU`);
  return { ...made, ...over };
}
const shows = (name: string, gb: number | null, count = 1, driver = "570.86.15") => ({
  gpus: Array.from({ length: count }, () => ({ name, memory_mib: gb === null ? null : Math.round(gb * 1024) })),
  driver,
});

describe("An ordered machine passes", () => {
  test.each<[string, string, number | null]>([
    ["RTX4090", "NVIDIA GeForce RTX 4090", 23.99],
    ["rtx-4090", "NVIDIA GeForce RTX 4090 D", 23.99],
    ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", 23.99],
    ["A100", "NVIDIA A100-SXM4-80GB", 80],
    ["A100", "NVIDIA A100 80GB PCIe", 80],
    ["A100 SXM4", "NVIDIA A100-SXM4-80GB", 80],
    ["A100-40GB", "NVIDIA A100-SXM4-40GB", 40],
    ["A100", "NVIDIA A100-SXM4-80GB", null],
    ["A100 MIG 3g.40gb", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39.5],
    ["H100", "NVIDIA H100 80GB HBM3", 79.6],
    ["H100", "NVIDIA H100 NVL", 93.6],
    ["H100 SXM", "NVIDIA H100 80GB HBM3", 79.6],
    ["H100-mega", "NVIDIA H100 80GB HBM3", 79.6],
    ["nvidia-h200-141gb", "NVIDIA H200", 140.4],
    ["B200", "NVIDIA B200", 179],
    ["GB200", "NVIDIA GB200", 185],
    ["GH200", "NVIDIA GH200 480GB", 95],
    ["GH200 480GB", "NVIDIA GH200 480GB", 95],
    ["L4", "NVIDIA L4", 22.5],
    ["L40S", "NVIDIA L40S", 45],
    ["T4", "Tesla T4", 15],
    ["Tesla T4", "Tesla T4", 15],
    ["nvidia-tesla-t4", "Tesla T4", 15],
    ["V100", "Tesla V100-SXM2-16GB", 16],
    ["V100", "Tesla V100-SXM2-32GB", 32],
    ["A6000", "NVIDIA RTX A6000", 48],
    ["RTXA6000", "NVIDIA RTX A6000", 48],
    ["RTX6000Ada", "NVIDIA RTX 6000 Ada Generation", 48],
    ["RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 95],
    ["RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 95],
    ["RTX PRO 6000 S", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 95],
    ["nvidia-rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 95],
    ["RTX4080", "NVIDIA GeForce RTX 4080 SUPER", 16],
    ["RTX3070", "NVIDIA GeForce RTX 3070 Laptop GPU", 8],
    ["MI300X", "AMD Instinct MI300X OAM", 192],
    ["MI300X", "AMD Instinct MI300X VF", 192],
    ["A100", "GRID A100D-80C", 80],
    ["Frobnicator 9000 X2", "NVIDIA GeForce RTX 4090", 24],
  ])("%s is served by %s", (gpus, name, gb) => {
    expect(compareGpus(order(gpus), shows(name, gb))).toEqual({ unfit: null, warnings: [] });
  });

  test("A machine with more GPUs than ordered, one of another kind among them, passes", () => {
    const { gpus } = shows("NVIDIA A100-SXM4-80GB", 80, 4);
    for (const name of ["NVIDIA DGX Display", "NVIDIA T1000"]) {
      const machine = { gpus: [...gpus, { name, memory_mib: 4096 }], driver: "570.1" };
      expect(compareGpus(order("A100:4"), machine).unfit).toBeNull();
    }
  });
});

describe("A machine that differs from the order is named with its numbers", () => {
  test.each<[string, Partial<GpuOrder>, ReturnType<typeof shows>, RegExp]>([
    [
      "RTX4090",
      {},
      shows("NVIDIA GeForce RTX 3060", 12),
      /1 × RTX4090 was ordered.*1 × NVIDIA GeForce RTX 3060 \(12 GB\)/,
    ],
    ["RTX4090:4", {}, shows("NVIDIA GeForce RTX 4090", 24), /4 × RTX4090 were ordered.*shows 1 /],
    ["RTX4090", {}, shows("NVIDIA GeForce RTX 4090 Laptop GPU", 16), /RTX4090 has 24 GB.*\(16 GB\)/],
    ["A100", {}, shows("NVIDIA A100-SXM4-40GB", 40), /A100 has 80 GB/],
    ["A100", {}, shows("NVIDIA A800-SXM4-80GB", 80), /A100 was ordered.*A800/],
    ["L40", {}, shows("NVIDIA L4", 22.5), /L40 was ordered.*NVIDIA L4 /],
    ["L40S", {}, shows("NVIDIA L40", 45), /L40S was ordered.*NVIDIA L40 /],
    ["H200", {}, shows("NVIDIA H20", 141), /H200 was ordered.*NVIDIA H20 /],
    ["L4", { minVramGb: 40 }, shows("NVIDIA L4", 22.5), /at least 40 GB were asked for.*\(23 GB\)/],
    [
      "RTX4090",
      { image: "me/train:cuda12.8" },
      shows("NVIDIA GeForce RTX 4090", 24, 1, "470.256.02"),
      /driver is 470\.256\.02.*needs 525 or newer/,
    ],
  ])("%s %o", (gpus, over, machine, words) => {
    expect(compareGpus(order(gpus, over), machine).unfit).toMatch(words);
  });
});

test("An unclear name or driver causes a warning and refuses nothing", () => {
  const odd = compareGpus(order("MI300X"), shows("AMD Radeon Graphics", 192));
  expect(odd).toEqual({ unfit: null, warnings: [expect.stringContaining("AMD Radeon Graphics")] });
  const old = compareGpus(order("A100", { image: "me/train:cu121" }), shows("NVIDIA A100-SXM4-80GB", 80, 1, "470.1.1"));
  expect(old).toEqual({ unfit: null, warnings: [expect.stringContaining("470.1.1")] });
});

test("The chip is found in every spelling, and in no other word", () => {
  expect(chipOf("Quadro RTX 6000")).toBe("rtx6000");
  expect(chipOf("4090")).toBe("rtx4090");
  for (const name of ["TITAN RTX", "Graphics Device", "", "NVIDIA"]) expect(chipOf(name)).toBeNull();
});

describe("The CUDA version of an image", () => {
  test.each<[string, string | null]>([
    ["pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "12.8"],
    ["nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04", "12.4"],
    ["runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404", "12.8"],
    ["me/train:cu118", "11.8"],
    ["me/train:cuda121", "12.1"],
    ["me/train-cu12", "12.0"],
    ["me/train:torch2.8.0-cu12.8.1", "12.8"],
    ["me/train:cu12.4", "12.4"],
    ["me/train:cuda_12_4", "12.4"],
    ["me/train:cuda12-4-py311", "12.4"],
    ["me/train:cuda12-24.04", "12.0"],
    ["me/train:12.4.1-cuda", "12.4"],
    ["me/train:ubuntu22.04-cuda", null],
    ["nvidia/cuda:13.0.0-base", "13.0"],
    ["ubuntu:24.04", null],
    ["focus12:1", null],
    ["me/acu128", null],
    ["barracuda:5", null],
  ])("%s needs %s", (image, version) => {
    const cuda = cudaOfImage(image);
    expect(cuda && cudaText(cuda)).toBe(version);
  });

  test("is compared by its parts: 12.10 is newer than 12.9", () => {
    const [ten, nine, two] = [parseCuda("12.10"), parseCuda(12.9), parseCuda("12.2")];
    if (!ten || !nine || !two) throw new Error("a version was not read");
    expect([cudaServes(ten, nine), cudaServes(nine, ten), cudaServes(two, nine)]).toEqual([true, false, false]);
    expect(parseCuda("NaN")).toBeNull();
  });
});
