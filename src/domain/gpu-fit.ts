// Compares the GPUs that a machine shows with those that were ordered.
//
// F1. A mismatch is reported only if both names have a known form. An unknown form, such as `AMD Radeon
//     Graphics`, is a warning: a correct machine must never be refused for its spelling.
// F2. Additional GPUs are accepted: as many as were ordered must match, not all of them.

import { cudaOfImage, driverMinOf } from "./cuda.ts";

export interface GpuOrder {
  model: string;
  count: number;
  /** Other spellings of the model: the provider's own identifiers. */
  alsoNamed: readonly string[];
  /** GB per GPU that the user asked for. */
  minVramGb: number | null;
  /** GB that such a GPU usually has. */
  usualVramGb: number | null;
  image: string | null;
}

export interface GpusShown {
  gpus: readonly { name: string; memory_mib: number | null }[];
  driver: string | null;
}

export interface Fit {
  /** Why the machine is not the one that was ordered, with the numbers; null if it fits. */
  unfit: string | null;
  /** Oddities that are not a reason to refuse the machine. */
  warnings: string[];
}

/** Cards report less memory than their name says: an L4 of 24 GB shows 22.5, a T4 of 16 GB shows 15. */
const MEMORY_TOLERANCE = 0.9;
/** Superchips: the number in their name is the memory of CPU and GPU together, not the GPU's memory. */
const SUPERCHIP = /\bG[BH]\d{3}/i;

const NOISE =
  /\b(nvidia|amd|instinct|geforce|tesla|quadro|grid|generation|blackwell|hopper|server|workstation|edition|laptop|mobile|max-?q|gpu|with|design|pcie|sxm\d?|nvl|oam|vf|fhhl|hbm\d?e?|mega|vws|ws)\b/g;

/**
 * The part of a GPU's name that tells the chip: `a100` of `NVIDIA A100-SXM4-80GB`, `rtx4090` of `RTX_4090`, `rtx6000ada` of
 * `NVIDIA RTX 6000 Ada Generation`. Null where the name has no form that is understood.
 */
export function chipOf(name: string): string | null {
  const words = name
    .toLowerCase()
    .replace(/\bmig\b.*$/, " ")
    // Profiles of virtual GPUs, such as `A100-40C`.
    .replace(/-\d{1,2}[abcq]\b/, " ")
    .replace(/(sxm\d?|pcie)(?=[\s_-]|$)/g, " ")
    .replace(/[_\-/()]+/g, " ")
    .replace(/\b\d{2,3} ?(gb?|gib)\b/g, " ")
    .replace(NOISE, " ")
    .replace(/\s+/g, "");
  const chip = words
    .replace(/^(\d{4})/, "rtx$1")
    .replace(/^q(?=rtx)/, "")
    .replace(/^rtx(?=a\d{4})/, "")
    .replace(/^(rtxpro\d{4})s$/, "$1");
  return /^(rtxpro|rtx|gtx|mi|[a-z]{1,2})\d{1,4}[a-z]{0,6}$/.test(chip) ? chip : null;
}

/** `rtx4090` is served by `rtx4090d`, `l4` not by `l40`, and `l40s` not by `l40`. */
const isSameChip = (ordered: string, shown: string): boolean =>
  shown.startsWith(ordered) && !/^\d/.test(shown.slice(ordered.length));

function memoryGbOf(order: GpuOrder): { gb: number; asked: boolean } | null {
  if (order.minVramGb !== null) return { gb: order.minVramGb, asked: true };
  if (/\bmig\b/i.test(order.model) || SUPERCHIP.test(order.model)) return null;
  const named = /(?<![0-9])(\d{2,3}) ?GB?\b/i.exec(order.model)?.[1];
  const gb = named === undefined ? order.usualVramGb : Number(named);
  return gb === null ? null : { gb, asked: false };
}

export function compareGpus(order: GpuOrder, { gpus, driver }: GpusShown): Fit {
  const warnings: string[] = [];
  const told = listed(gpus);
  const wish = `${order.count} × ${order.model}`;
  if (gpus.length < order.count)
    return {
      unfit: `${wish} ${order.count === 1 ? "was" : "were"} ordered, and the machine shows ${gpus.length} (${told})`,
      warnings,
    };
  const chips = [order.model, ...order.alsoNamed].map(chipOf).filter((chip) => chip !== null);
  const isNamed = (name: string): boolean => {
    const shown = chipOf(name);
    return chipOf(order.model) === null || shown === null || chips.some((chip) => isSameChip(chip, shown));
  };
  const named = gpus.filter(({ name }) => isNamed(name));
  if (named.length < order.count)
    return { unfit: `${wish} ${order.count === 1 ? "was" : "were"} ordered, and the machine has ${told}`, warnings };
  const memory = memoryGbOf(order);
  const hasMemory = ({ memory_mib }: GpusShown["gpus"][number]): boolean =>
    memory === null || memory_mib === null || memory_mib >= memory.gb * 1024 * MEMORY_TOLERANCE;
  if (memory !== null && named.filter(hasMemory).length < order.count) {
    const least = memory.asked ? `at least ${memory.gb} GB were asked for` : `${order.model} has ${memory.gb} GB`;
    return { unfit: `${least} per GPU, and the machine has ${told}`, warnings };
  }
  if (gpus.some(({ name }) => chipOf(name) === null))
    warnings.push(`The machine names its GPUs ${told}, which cannot be compared with the order (${wish}).`);
  const image = order.image === null ? null : cudaOfImage(order.image);
  const least = image === null ? null : driverMinOf(image);
  const branch = Number(/^(\d{3})\./.exec(driver ?? "")?.[1] ?? Number.NaN);
  if (image !== null && least !== null && branch < least) {
    const words = `its GPU driver is ${driver}, and the image ${order.image} (CUDA ${image.major}) needs ${least} or newer`;
    // Images may carry the user part of a newer driver (cuda-compat), which works only on data-centre cards.
    const mayCarryOwn = named.some(({ name }) => /^[abhltvp]\d/.test(chipOf(name) ?? ""));
    if (!mayCarryOwn) return { unfit: words, warnings };
    warnings.push(`The machine may not run CUDA: ${words}.`);
  }
  return { unfit: null, warnings };
}

/** `2 × NVIDIA GeForce RTX 3060 (12 GB)`. */
function listed(gpus: GpusShown["gpus"]): string {
  const counts = new Map<string, number>();
  for (const { name, memory_mib } of gpus) {
    const memory = memory_mib === null ? "" : ` (${Math.round(memory_mib / 1024)} GB)`;
    const text = `${name.replace(/[^\x20-\x7e]+/g, " ").trim()}${memory}`;
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return [...counts].map(([text, count]) => `${count} × ${text}`).join(", ") || "none";
}
