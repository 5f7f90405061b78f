// The GPU catalogue: a menu for people, not a limit. Any model may be asked for.

import type { Gpu } from "../schemas/job.ts";
import type { ProviderName } from "../schemas/spec.ts";

const gpu = (model: string, vramGb: number, ...providers: ProviderName[]): Gpu => ({
  model,
  vram_gb: vramGb,
  providers,
});

/** Typical memory per GPU, and where it is commonly offered; largest first. */
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
];

/** The catalogue, or the part of it that one provider commonly offers (none for `local`). */
export function listGpus(provider?: ProviderName): Gpu[] {
  return GPU_CATALOGUE.filter((entry) => provider === undefined || entry.providers.includes(provider)).map((entry) => ({
    ...entry,
    providers: [...entry.providers],
  }));
}

/** Typical GiB per GPU of a model, in any case of letters; undefined for a model that the catalogue does not have. */
export function vramFor(model: string): number | undefined {
  const name = model.trim().toLowerCase();
  return GPU_CATALOGUE.find((entry) => entry.model.toLowerCase() === name)?.vram_gb;
}

const CPU = /^cpu(?::([1-9][0-9]{0,2}))?$/;

/** Whether a request asks for a machine without GPUs: `cpu`, or `cpu:N` for N processes on it. */
export const isCpu = (request: string): boolean => CPU.test(request);

/** How many processes a data-parallel launch has on one machine: one for each GPU, or the N of `cpu:N`. */
export const processCount = (request: string): number =>
  isCpu(request) ? Number(CPU.exec(request)?.[1] ?? 1) : Math.max(1, gpuCount(request));

/** Model and count of a request that the schema has let in; null without GPUs. */
export function parseGpus(request: string): { model: string; count: number } | null {
  if (isCpu(request)) return null;
  const [, model, count] = /^(.*?)(?::([0-9]+))?$/.exec(request) ?? [];
  return { model: model ?? request, count: count === undefined ? 1 : Number(count) };
}

/** How many GPUs one machine of the request has; 0 for `cpu` and `cpu:N`. */
export const gpuCount = (request: string): number => parseGpus(request)?.count ?? 0;
