// Friendly names of GPUs to the words of the providers that take a name of their own for each.

import type { GpuOnlyName } from "../schemas/provider-names.ts";
import { parseGpus } from "../domain/gpus.ts";
import { nearestFew } from "../domain/nearest.ts";
import { SvcError } from "../errors/index.ts";
import NAMES from "./gpu-names.json" with { type: "json" };

/** Providers whose words are in the table. */
type Speaker = "podhost" | "market";

const byPlainName = new Map(Object.entries(NAMES).map(([name, entry]) => [plainGpuName(name), entry]));

/** `RTX 4090`, `rtx-4090` and `RTX4090` are one. */
export function plainGpuName(name: string): string {
  return name.toLowerCase().replace(/[\s_-]/g, "");
}

/** The provider's identifiers of a model, best first. A model that the table does not have passes through unchanged. */
export function gpuIds(provider: Speaker, model: string): readonly string[] {
  return byPlainName.get(plainGpuName(model))?.[provider] ?? [model];
}

/** Names that are near to one that the provider does not know: of our own table, and of what the provider says it has. */
export function nearGpus(speaker: Speaker, model: string, sold: readonly string[]): string[] {
  const has = new Set(sold.map(plainGpuName));
  const own = Object.entries(NAMES).filter(([, entry]) => entry[speaker].some((name) => has.has(plainGpuName(name))));
  return nearestFew(model, [...own.map(([name]) => name), ...sold], plainGpuName);
}

/** For a model, or a number of them on one machine, that a provider never has: to try again would change nothing. */
export function neverSold(provider: string, gpus: string, why: string): SvcError {
  const message = `${gpus}: ${why}`;
  return new SvcError(
    "gpus_unsupported",
    { provider, gpus: `${gpus} (${why})` },
    { errors: [{ field: "spec.gpus", message }] },
  );
}

/** `it knows no GPU of that name; near it are L4 and L40`. */
export const unknownName = (near: readonly string[]): string =>
  `it knows no GPU of that name${near.length === 0 ? "" : `; near it: ${near.join(", ")}`}`;

export interface GpuWish {
  model: string;
  count: number;
}

/** What `gpus` of a spec asks for; null for `cpu` and `cpu:N`. */
export function gpuWish(gpus: string): GpuWish | null {
  const wish = parseGpus(gpus);
  return wish && { ...wish, model: wish.model.trim() };
}

/** As `gpuWish`, for providers that have nothing but machines with GPUs. Throws `gpus_unsupported`. */
export function gpuWishOf(provider: GpuOnlyName, gpus: string): GpuWish {
  const wish = gpuWish(gpus);
  if (wish !== null) return wish;
  throw new SvcError(
    "gpus_unsupported",
    { provider, gpus },
    { errors: [{ field: "spec.gpus", message: `must name a GPU: ${provider} rents no machines without one` }] },
  );
}
