// Chooses the machine type for a request, and its zones. The table shows what the provider listed at the time of
// writing; it does not limit requests: an unknown GPU passes through by its name, and the machine type can be set.

import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { gpuKey, readGpuName } from "../../domain/gpu-name.ts";
import { GPU_CATALOGUE } from "../../domain/gpus.ts";
import { nearestFew } from "../../domain/nearest.ts";
import { gpuWish, neverSold, plainGpuName, unknownName } from "../gpu-names.ts";
import { NAME } from "./place.ts";
import TABLE from "./machine-types.json" with { type: "json" };

const PROVIDER = "cloudvm";
const ZONE = /-[a-z]$/;
const CPU_MACHINE_TYPE = "e2-standard-4";
/** For an N1 with GPUs that the table does not know: enough processors for each. */
const N1_BY_COUNT: Readonly<Record<number, string>> = {
  1: "n1-standard-8",
  2: "n1-standard-16",
  4: "n1-standard-32",
  8: "n1-standard-64",
};
/** Machine types that come with their GPUs. */
const BUNDLED_FAMILY = /^(a2|a3|a4|a4x|g2|g4)-/;
const HYPERDISK_ONLY = /^(a3-ultragpu|a4|a4x|g4|c4|n4)-/;
const DISK_GB_MIN = 50;
const DISK_GB_DEFAULT = 100;
const DISK_GB_MAX = 65_536;

export type Settings = Readonly<Record<string, string>>;

interface TableEntry {
  accelerator: string;
  memory_gb: number;
  attach: string;
  boot_disk: string;
  machine_types: Readonly<Partial<Record<string, string>>>;
  on_demand: readonly number[];
  zones: Readonly<Partial<Record<string, string>>>;
}

/** The provider's own names for the terms of a rental. */
export type Provisioning = "STANDARD" | "SPOT" | "FLEX_START" | "RESERVATION_BOUND";
const PROVISIONING: Readonly<Record<string, Provisioning>> = {
  "": "STANDARD",
  standard: "STANDARD",
  ondemand: "STANDARD",
  spot: "SPOT",
  preemptible: "SPOT",
  flexstart: "FLEX_START",
  reservationbound: "RESERVATION_BOUND",
};
/** Arm processors: the usual images do not start there. */
const ARM_FAMILY = /^(a4x|c4a|t2a)-/;

export interface MachinePlan {
  machineType: string;
  /** Named in the request; null if the machine type includes its GPUs, or has none. */
  accelerator: { type: string; count: number } | null;
  hasGpu: boolean;
  diskType: string;
  diskGb: number;
  /** Full path of the image family. */
  image: string;
  /** A warning if the table says that it is rarely available on these terms. */
  terms: string | null;
  provisioning: Provisioning;
  /** Whether type and accelerator are from the table: then a zone that lacks them does not end the search. */
  known: boolean;
  /** Names in the table that are near to a GPU which it does not have. */
  near: readonly string[];
  /** Zones that list it, by region: letters of the zones. Null if the table does not know. */
  zones: Readonly<Partial<Record<string, string>>> | null;
}

interface Found {
  name: string;
  entry: TableEntry;
}

/** Every name of a model. */
const SPELLINGS: [spelling: string, Found][] = [];
for (const [name, entry] of Object.entries<TableEntry>(TABLE.gpus)) {
  // The only 40 GB model of its kind here, under all its names.
  const others = name === "A100-PCIe" ? ["A100-40GB", "A100-SXM4-40GB"] : [];
  for (const one of [name, entry.accelerator, `${name}-${entry.memory_gb}GB`, ...others])
    SPELLINGS.push([one, { name, entry }]);
}
const ENTRIES = new Map(SPELLINGS.map(([spelling, found]) => [plainGpuName(spelling), found]));

/** In any spelling; a name in the table's own spelling takes precedence over all others with the same meaning. */
const BY_KEY = new Map(SPELLINGS.map(([, found]) => [gpuKey(found.name), found]));
for (const [spelling, found] of SPELLINGS) if (!BY_KEY.has(gpuKey(spelling))) BY_KEY.set(gpuKey(spelling), found);
/** The forms that the GPUs of this provider have: a name may contain them. */
const FORMS: ReadonlySet<string> = new Set(["sxm", "server"]);

function entryOf(model: string): Found | undefined {
  const found = ENTRIES.get(plainGpuName(model)) ?? BY_KEY.get(gpuKey(model));
  if (found !== undefined) return found;
  const { card, variants, memoryGb } = readGpuName(model);
  if ([...variants].some((variant) => !FORMS.has(variant))) return undefined;
  return BY_KEY.get(memoryGb === null ? card : `${card} ${memoryGb}gb`);
}

/** A card that others have and this provider does not. Its own names of accelerators (`nvidia-…`) are for it to judge. */
const isOfOthers = (model: string): boolean =>
  !model.startsWith("nvidia-") && GPU_CATALOGUE.some((gpu) => readGpuName(gpu.model).card === readGpuName(model).card);

/** Every zone in the table, by region. */
const ALL_ZONES: Readonly<Record<string, string>> = Object.values<TableEntry>(TABLE.gpus).reduce<
  Record<string, string>
>((all, { zones }) => {
  for (const [region, letters = ""] of Object.entries(zones))
    all[region] = [...new Set((all[region] ?? "") + letters)].toSorted().join("");
  return all;
}, {});

export const CURRENT_FAMILIES: readonly string[] = TABLE.images.families;

/**
 * The machine for a spec, without asking the provider. Throws an error that names the field if no machine type fits.
 * @param spot whether this order is for a spot machine; for a run without `spec.spot` the setting decides
 */
export function planFor(spec: RunSpec, settings: Settings, spot = spec.spot === "only"): MachinePlan {
  const wish = gpuWish(spec.gpus);
  const override = settings["machine_type"]?.trim() || null;
  if (override !== null && !NAME.test(override))
    throw new SvcError("credential_missing", {
      provider: PROVIDER,
      missing: `machine_type ${JSON.stringify(override.slice(0, 80))} is not a machine type; write it like g2-standard-8`,
    });
  const image = imageOf(spec.image ?? settings["image"]);
  const disk = diskGbOf(spec, image);
  const set = provisioningOf(settings);
  const provisioning = spec.spot === undefined ? set : spot ? "SPOT" : set === "SPOT" ? "STANDARD" : set;
  const found = wish === null ? undefined : entryOf(wish.model);
  const machineType =
    override ?? (wish === null ? CPU_MACHINE_TYPE : typeOf(spec, wish.model, wish.count, found?.entry));
  if (ARM_FAMILY.test(machineType) && spec.image === undefined && !settings["image"]?.trim())
    throw refusal("spec.image", `must name an image for Arm processors: a ${machineType} has them`);
  const bundled = BUNDLED_FAMILY.test(machineType);
  if (found !== undefined && spec.min_vram_gb !== undefined && spec.min_vram_gb > found.entry.memory_gb)
    throw refusal(
      "spec.min_vram_gb",
      `must be at most ${found.entry.memory_gb}: a ${found.name} of ${PROVIDER} has no more`,
    );
  const accelerator =
    wish === null || (bundled && (override !== null || found === undefined))
      ? null
      : { type: found?.entry.accelerator ?? wish.model, count: wish.count };
  const offTerms =
    found !== undefined &&
    override === null &&
    provisioning === "STANDARD" &&
    !found.entry.on_demand.includes(wish?.count ?? 1)
      ? `${found.name}:${wish?.count ?? 1} is had here only as a spot machine, by flex-start or by a reservation (set spot in the run, or provisioning to spot, flex-start or reservation-bound)`
      : null;
  return {
    machineType,
    accelerator,
    hasGpu: wish !== null || bundled,
    diskType: HYPERDISK_ONLY.test(machineType) ? "hyperdisk-balanced" : "pd-balanced",
    diskGb: disk,
    image,
    terms: offTerms,
    provisioning,
    known: override === null && (wish === null || found !== undefined),
    near: wish === null || found !== undefined || override !== null ? [] : nearTo(wish.model),
    zones: wish === null ? null : (found?.entry.zones ?? null),
  };
}

function provisioningOf(settings: Settings): Provisioning {
  const word = settings["provisioning"]?.trim() ?? "";
  const found = PROVISIONING[word.toLowerCase().replace(/[\s_-]/g, "")];
  if (found === undefined)
    throw new SvcError("credential_missing", {
      provider: PROVIDER,
      missing: `provisioning ${JSON.stringify(word.slice(0, 80))} is none; it may be spot, flex-start or reservation-bound, and is left out for on demand`,
    });
  if (found === "RESERVATION_BOUND" && !settings["reservation"]?.trim())
    throw new SvcError("credential_missing", {
      provider: PROVIDER,
      missing: "reservation is not set; provisioning reservation-bound needs its name",
    });
  return found;
}

function typeOf(spec: RunSpec, model: string, count: number, entry: TableEntry | undefined): string {
  if (entry === undefined && isOfOthers(model)) throw unsupported(spec.gpus, unknownName(nearTo(model)));
  if (entry === undefined && !/^[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?$/.test(model))
    throw unsupported(spec.gpus, "is not a GPU of this provider; write it like L4 or nvidia-l4");
  const types: Readonly<Partial<Record<string, string>>> = entry?.machine_types ?? N1_BY_COUNT;
  const type = types[String(count)];
  if (type !== undefined) return type;
  const counts = Object.keys(types);
  const list = counts.length === 1 ? counts[0] : `${counts.slice(0, -1).join(", ")} or ${counts.at(-1)}`;
  throw unsupported(spec.gpus, `comes as ${list} on one machine`);
}

const unsupported = (gpus: string, why: string): SvcError => neverSold(PROVIDER, gpus, why);

const nearTo = (model: string): string[] =>
  nearestFew(
    model,
    [...ENTRIES.values()].map(({ name }) => name),
    plainGpuName,
  );

const refusal = (field: string, message: string): SvcError =>
  new SvcError("invalid_request", { summary: `${field} ${message}.` }, { errors: [{ field, message }] });

/** Deep-learning images need some space for themselves: a smaller request gets that much. */
function diskGbOf(spec: RunSpec, image: string): number {
  const wish = spec.disk_gb ?? DISK_GB_DEFAULT;
  if (wish > DISK_GB_MAX) throw refusal("spec.disk_gb", `must be at most ${DISK_GB_MAX}`);
  return image.startsWith(`projects/${TABLE.images.project}/`) ? Math.max(DISK_GB_MIN, wish) : wish;
}

function imageOf(wish: string | undefined): string {
  const image = wish?.trim() || TABLE.images.default;
  if (NAME.test(image)) return `projects/${TABLE.images.project}/global/images/family/${image}`;
  const path =
    /^(?:https:\/\/[a-z.]+\/compute\/v1\/)?(projects\/[a-z0-9.:-]+\/global\/images\/(?:family\/)?[a-z][-a-z0-9]*)$/;
  const full = path.exec(image)?.[1];
  if (full !== undefined) return full;
  throw refusal(
    "spec.image",
    `must be an image family such as ${TABLE.images.default}, or projects/<project>/global/images/family/<family>`,
  );
}

export const regionOf = (zone: string): string => zone.replace(ZONE, "");

/** The requested place: from the run, else from the credential. Throws, naming the field. */
export function placeFor(spec: RunSpec, settings: Settings): { zone: string | null; region: string } {
  const zone = settings["zone"]?.trim() || null;
  if (zone !== null && !NAME.test(zone)) throw badPlace("zone", zone);
  if (spec.region !== undefined) {
    const hint = spec.region.trim().toLowerCase();
    if (!NAME.test(hint))
      throw refusal("spec.region", "must be a region or a zone, such as us-central1 or us-central1-a");
    if (ZONE.test(hint)) return { zone: hint, region: regionOf(hint) };
    return { zone: zone !== null && regionOf(zone) === hint ? zone : null, region: hint };
  }
  if (zone !== null) return { zone, region: regionOf(zone) };
  const region = settings["region"]?.trim() || null;
  if (region !== null && !NAME.test(region)) throw badPlace("region", region);
  if (region !== null) return { zone: null, region };
  throw new SvcError("credential_missing", {
    provider: PROVIDER,
    missing: "zone is not set; give one such as us-central1-a",
  });
}

const badPlace = (field: string, value: string): SvcError =>
  new SvcError("credential_missing", {
    provider: PROVIDER,
    missing: `${field} ${JSON.stringify(value.slice(0, 80))} is none; write it like us-central1${field === "zone" ? "-a" : ""}`,
  });

/** Zones of a region in which the table expects the machine; empty if the region is unknown. */
export function zonesIn(region: string, plan: MachinePlan): string[] {
  const letters = (plan.zones ?? ALL_ZONES)[region] ?? "";
  return letters.split("").map((letter) => `${region}-${letter}`);
}
