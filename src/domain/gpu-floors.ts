// How fast a GPU multiplies, by its datasheet: what the gate's matmul is compared with.

import { chipOf } from "./gpu-fit.ts";

/**
 * TFLOPS of dense bf16 with fp32 accumulation. Source: NVIDIA's datasheets and architecture papers, as of November 2026; the slowest card of
 * a name (H100: PCIe). GPUs without bf16 in hardware (V100, T4) are left out.
 */
const BF16_TFLOPS: Readonly<Record<string, number>> = {
  b200: 2_250,
  h200: 835,
  h100: 756,
  a100: 312,
  a40: 150,
  a30: 165,
  a10: 125,
  l40s: 362,
  l40: 181,
  l4: 121,
  rtx5090: 210,
  rtx4090: 165,
  rtx3090: 71,
  rtx3090ti: 80,
  rtx6000ada: 364,
  a6000: 155,
  a5000: 111,
  a4500: 95,
  a4000: 77,
};

/** Null for a GPU that is not in the table. */
export function bf16TflopsOf(name: string): number | null {
  const chip = chipOf(name);
  return chip === null ? null : (BF16_TFLOPS[chip] ?? null);
}
