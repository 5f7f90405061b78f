// The GPU catalogue: a menu for people, not a limit. Any model may be requested. If a provider's own catalogue can be
// read, it alone decides which machine is rented (src/providers/gpu-names.ts). As of November 2026.

import { DESCRIPTORS, PROVIDER_NAMES } from "../providers/descriptors.ts";
import type { Gpu } from "../schemas/job.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { gpuKey } from "./gpu-name.ts";

/** Providers that commonly have a model, in their order. */
const offering = (model: string): ProviderName[] =>
  PROVIDER_NAMES.filter((name) => DESCRIPTORS[name].gpus.includes(model));

const gpu = (model: string, vramGb: number): Gpu => ({ model, vram_gb: vramGb, providers: offering(model) });

/** Typical memory per GPU, and where it is commonly offered: the models of the specification first, then newer and smaller ones. */
export const GPU_CATALOGUE: readonly Gpu[] = [
  gpu("H200", 141),
  gpu("H100", 80),
  gpu("A100", 80),
  gpu("A100-PCIe", 40),
  gpu("L40S", 48),
  gpu("L40", 48),
  gpu("A6000", 48),
  gpu("A40", 48),
  gpu("RTX5090", 32),
  gpu("RTX4090", 24),
  gpu("RTX3090", 24),
  gpu("L4", 24),
  gpu("A10", 24),
  gpu("A4000", 16),
  gpu("V100", 16),
  gpu("T4", 16),
  gpu("B300", 288),
  gpu("MI300X", 192),
  gpu("B200", 180),
  gpu("RTX-PRO-6000", 96),
  gpu("RTX6000Ada", 48),
  gpu("RTX5000Ada", 32),
  gpu("RTX-PRO-4500", 32),
  gpu("RTX3090Ti", 24),
  gpu("A5000", 24),
  gpu("A30", 24),
  gpu("RTX4000Ada", 20),
  gpu("A4500", 20),
  gpu("RTX5080", 16),
  gpu("RTX4080SUPER", 16),
  gpu("RTX4080", 16),
  gpu("RTX2000Ada", 16),
  gpu("RTX4070Ti", 12),
  gpu("RTX3080Ti", 12),
  gpu("RTX3080", 10),
  gpu("RTX3070", 8),
];

/** The catalogue, or the part of it that one provider commonly offers (none where machines have no GPUs). */
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
