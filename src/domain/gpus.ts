// The GPU catalogue: a menu for people, not a limit. Any model may be requested. If a provider's own catalogue can be
// read, it alone decides which machine is rented (src/providers/gpu-names.ts). As of November 2026.

import type { Gpu } from "../schemas/job.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { gpuKey } from "./gpu-name.ts";

const gpu = (model: string, vramGb: number, ...providers: ProviderName[]): Gpu => ({
  model,
  vram_gb: vramGb,
  providers,
});

/** Typical memory per GPU, and where it is commonly offered: the models of the specification first, then newer and smaller ones. */
export const GPU_CATALOGUE: readonly Gpu[] = [
  gpu("H200", 141, "market", "podhost"),
  gpu("H100", 80, "market", "podhost", "cloudvm"),
  gpu("A100", 80, "market", "podhost", "cloudvm", "notebook"),
  gpu("A100-PCIe", 40, "market", "cloudvm"),
  gpu("L40S", 48, "market", "podhost"),
  gpu("L40", 48, "market", "podhost"),
  gpu("A6000", 48, "market", "podhost"),
  gpu("A40", 48, "market", "podhost"),
  gpu("RTX5090", 32, "market"),
  gpu("RTX4090", 24, "market", "podhost"),
  gpu("RTX3090", 24, "market"),
  gpu("L4", 24, "cloudvm", "market"),
  gpu("A10", 24, "market", "podhost"),
  gpu("A4000", 16, "market"),
  gpu("V100", 16, "cloudvm", "notebook"),
  gpu("T4", 16, "cloudvm", "notebook"),
  gpu("B300", 288, "podhost", "market"),
  gpu("MI300X", 192, "podhost"),
  gpu("B200", 180, "podhost", "market", "cloudvm"),
  gpu("RTX-PRO-6000", 96, "podhost", "market", "cloudvm"),
  gpu("RTX6000Ada", 48, "podhost", "market"),
  gpu("RTX5000Ada", 32, "podhost", "market"),
  gpu("RTX-PRO-4500", 32, "podhost", "market"),
  gpu("RTX3090Ti", 24, "podhost", "market"),
  gpu("A5000", 24, "podhost", "market"),
  gpu("A30", 24, "podhost", "market"),
  gpu("RTX4000Ada", 20, "podhost", "market"),
  gpu("A4500", 20, "podhost", "market"),
  gpu("RTX5080", 16, "podhost", "market"),
  gpu("RTX4080SUPER", 16, "podhost", "market"),
  gpu("RTX4080", 16, "podhost", "market"),
  gpu("RTX2000Ada", 16, "podhost", "market"),
  gpu("RTX4070Ti", 12, "podhost", "market"),
  gpu("RTX3080Ti", 12, "podhost", "market"),
  gpu("RTX3080", 10, "podhost", "market"),
  gpu("RTX3070", 8, "podhost", "market"),
];

/** The catalogue, or the part of it that one provider commonly offers (none for `local`). */
export function listGpus(provider?: ProviderName): Gpu[] {
  return GPU_CATALOGUE.filter((entry) => provider === undefined || entry.providers.includes(provider)).map((entry) => ({
    ...entry,
    providers: [...entry.providers],
  }));
}

/** Typical GiB per GPU of a model, in any spelling; undefined for a model that the catalogue does not have. */
export function vramFor(model: string): number | undefined {
  const key = gpuKey(model);
  return GPU_CATALOGUE.find((entry) => gpuKey(entry.model) === key)?.vram_gb;
}

const CPU = /^cpu(?::([1-9][0-9]{0,2}))?$/;

/** Whether a request asks for a machine without GPUs: `cpu`, or `cpu:N` for N processes on it. */
export const isCpu = (request: string): boolean => CPU.test(request);

/** How many processes a data-parallel launch has on one machine: one for each GPU, or the N of `cpu:N`. */
export const processCount = (request: string): number =>
  isCpu(request) ? Number(CPU.exec(request)?.[1] ?? 1) : Math.max(1, gpuCount(request));

/** Model and count of a request that passed the schema; null without GPUs. */
export function parseGpus(request: string): { model: string; count: number } | null {
  if (isCpu(request)) return null;
  const [, model, count] = /^(.*?)(?::([0-9]+))?$/.exec(request) ?? [];
  return { model: model ?? request, count: count === undefined ? 1 : Number(count) };
}

/** How many GPUs one machine of the request has; 0 for `cpu` and `cpu:N`. */
export const gpuCount = (request: string): number => parseGpus(request)?.count ?? 0;
