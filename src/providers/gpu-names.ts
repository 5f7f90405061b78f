// Maps friendly names of GPUs to the identifiers of providers that have their own. A provider's own catalogue comes
// first; the table replaces an unreadable catalogue, and gives the date and source of each entry.

import { gpuCovers, gpuKey, readGpuName } from "../domain/gpu-name.ts";
import { GPU_CATALOGUE, parseGpus } from "../domain/gpus.ts";
import { nearestFew } from "../domain/nearest.ts";
import { SvcError } from "../errors/index.ts";
import TABLE from "./gpu-names.json" with { type: "json" };

/** Providers with identifiers in the table. */
type Speaker = keyof typeof TABLE.seen;

/** A kind of GPU in a provider's own catalogue. */
export interface SoldGpu {
  /** Its identifier in an order or a search. */
  id: string;
  /** Its displayed name, if that differs. */
  shownAs?: string;
  memoryGb?: number | null;
}

interface Known {
  id: string;
  memoryGb: number;
}

const known = (speaker: Speaker): Known[] =>
  Object.values(TABLE.gpus).flatMap((entry) => entry[speaker].map((id) => ({ id, memoryGb: entry.memory_gb })));
const SPEAKERS = Object.keys(TABLE.seen) as Speaker[];
const KNOWN = new Map(SPEAKERS.map((speaker) => [speaker, known(speaker)]));

/** `RTX 4090`, `rtx-4090` and `RTX4090` are one. */
export function plainGpuName(name: string): string {
  return name.toLowerCase().replace(/[\s_-]/g, "");
}

/** The minimum memory, in GB, of a GPU that is ordered by this name: 80 for `A100`, although some have 40. */
export function leastMemoryOf(model: string): number | null {
  const wanted = readGpuName(model);
  if (wanted.memoryGb !== null) return wanted.memoryGb;
  const key = gpuKey(model);
  const entries = GPU_CATALOGUE.map(({ model: name, vram_gb }) => ({
    ...readGpuName(name),
    key: gpuKey(name),
    vram_gb,
  }));
  const entry = entries.find((one) => one.key === key) ?? entries.find((one) => one.card === wanted.card);
  return entry?.vram_gb ?? null;
}

/** Some cards have up to this many times the memory of their kind (an RTX 4090 with 48 GB, for example). */
const MODIFIED_FACTOR = 2;

/** The most gigabytes that any variant of this model has; null if the model is not known. */
function mostMemoryOf(model: string): number | null {
  const { card, memoryGb } = readGpuName(model);
  if (memoryGb !== null) return memoryGb;
  const listed = GPU_CATALOGUE.map(({ model: name, vram_gb }) => ({ name, gb: vram_gb }));
  const sold = Object.entries(TABLE.gpus).map(([name, { memory_gb }]) => ({ name, gb: memory_gb }));
  const sizes = [...listed, ...sold].filter(({ name }) => readGpuName(name).card === card).map(({ gb }) => gb);
  return sizes.length === 0 ? null : Math.max(...sizes);
}

/** Throws, naming the field, if no GPU of the model has `min_vram_gb`: to wait for one would be useless. */
export function refuseMemory(provider: string, spec: { gpus: string; min_vram_gb?: number | undefined }): void {
  const { model } = gpuWish(spec.gpus) ?? { model: null };
  const most = model === null ? null : mostMemoryOf(model);
  if (model !== null && most !== null && (spec.min_vram_gb ?? 0) > most * MODIFIED_FACTOR)
    throw lessMemory(provider, spec.gpus, `a ${model} has at most ${most} GB`);
}

/** The error for `min_vram_gb` that no GPU of the requested model has. */
export const lessMemory = (provider: string, gpus: string, why: string): SvcError =>
  new SvcError(
    "gpus_unsupported",
    { provider, gpus: `${gpus} with that much memory (${why})` },
    { errors: [{ field: "spec.min_vram_gb", message: why }] },
  );

/** The table's identifiers of a model, or the model itself if the table does not have it. */
export function gpuIds(speaker: Speaker, model: string): readonly string[] {
  const ids = tableIds(speaker, model);
  if (ids.length > 0) return ids;
  return isNeverSold(speaker, model) ? [] : [model];
}

/** Every provider's identifiers of a model: a machine may show any of them. */
export const allGpuIds = (model: string): readonly string[] => SPEAKERS.flatMap((speaker) => gpuIds(speaker, model));

function tableIds(speaker: Speaker, model: string): string[] {
  const wanted = readGpuName(model);
  const least = leastMemoryOf(model);
  const ids = (KNOWN.get(speaker) ?? []).filter(({ id, memoryGb }) => {
    const sold = readGpuName(id);
    // If one name covers several sizes of memory, the name does not determine the size.
    const telling = TABLE.seen[speaker].name_tells_memory;
    return gpuCovers(wanted, sold, least, telling ? (sold.memoryGb ?? memoryGb) : null);
  });
  return [...new Set(ids.map(({ id }) => id))];
}

/** The table has this card, but never for this provider. */
function isNeverSold(speaker: Speaker, model: string): boolean {
  const { card } = readGpuName(model);
  const entries = Object.entries(TABLE.gpus).filter(([name]) => readGpuName(name).card === card);
  return entries.length > 0 && entries.every(([, entry]) => entry[speaker].length === 0);
}

/**
 * The identifiers that may serve a request for this model.
 * @param sold the provider's catalogue, which alone counts if it is known; null if it is not
 */
export function gpuIdsSold(speaker: Speaker, model: string, sold: readonly SoldGpu[] | null): readonly string[] {
  const listed = gpuIds(speaker, model);
  if (sold === null) return listed;
  const wanted = readGpuName(model);
  const least = leastMemoryOf(model);
  const written = new Set([...listed, model].map(plainGpuName));
  const isServed = ({ id, shownAs = id, memoryGb = null }: SoldGpu): boolean =>
    written.has(plainGpuName(id)) ||
    plainGpuName(shownAs) === plainGpuName(model) ||
    [id, shownAs].some((name) => gpuCovers(wanted, readGpuName(name), least, memoryGb));
  return [...new Set(sold.filter(isServed).map(({ id }) => id))];
}

/** Rentable names that are near to one that the provider does not know. */
export function nearGpus(speaker: Speaker, model: string, sold: readonly SoldGpu[]): string[] {
  const has = new Set(sold.map(({ id }) => id));
  const own = Object.keys(TABLE.gpus).filter((name) => tableIds(speaker, name).some((id) => has.has(id)));
  const shown = sold.map(({ id, shownAs }) => shownAs ?? id).filter((name) => name !== "unknown");
  return nearestFew(model, [...own, ...shown], (name) => {
    const key = gpuKey(name).replaceAll(" ", "");
    return key === "" ? plainGpuName(name) : key;
  });
}

/**
 * The error for a model, or a number of them on one machine, that a provider never has: a retry would change nothing.
 */
export function neverSold(provider: string, gpus: string, why: string): SvcError {
  const message = `${gpus}: ${why}`;
  return new SvcError(
    "gpus_unsupported",
    { provider, gpus: `${gpus} (${why})` },
    { errors: [{ field: "spec.gpus", message }] },
  );
}

/** `it rents out no GPU of that name; near it: L4, L40`. */
export const unknownName = (near: readonly string[]): string =>
  `it rents out no GPU of that name${near.length === 0 ? "" : `; near it: ${near.join(", ")}`}`;

export interface GpuWish {
  model: string;
  count: number;
}

/** The GPUs that `gpus` of a spec requests; null for `cpu` and `cpu:N`. */
export function gpuWish(gpus: string): GpuWish | null {
  const wish = parseGpus(gpus);
  return wish && { ...wish, model: wish.model.trim() };
}

/** Like `gpuWish`, for providers that only have machines with GPUs. Throws `gpus_unsupported`. */
export function gpuWishOf(provider: string, gpus: string): GpuWish {
  const wish = gpuWish(gpus);
  if (wish !== null) return wish;
  throw new SvcError(
    "gpus_unsupported",
    { provider, gpus },
    { errors: [{ field: "spec.gpus", message: `must name a GPU: ${provider} rents no machines without one` }] },
  );
}
