// The simulated cloud's catalogue: machine types with their accelerators, their zones, their terms and their disks.

export interface AcceleratorType {
  name: string;
  /** The name that nvidia-smi prints on the machine. */
  gpuName: string;
  /** `bundled`: the machine type includes the GPUs. `n1`: they are attached to an N1 machine type. */
  attach: "bundled" | "n1";
  diskTypes: readonly string[];
  /** Number of GPUs → the machine type, or for `n1` the largest number of vCPUs. */
  counts: Readonly<Record<number, string>>;
  onDemand: readonly number[];
  spot: readonly number[];
  quotaMetric: string;
  zones: readonly string[];
}

const words = (text: string): string[] => text.split(" ");

export const ACCELERATOR_TYPES: readonly AcceleratorType[] = [
  {
    name: "nvidia-h200-141gb",
    gpuName: "NVIDIA H200",
    attach: "bundled",
    diskTypes: ["hyperdisk-balanced"],
    counts: { 8: "a3-ultragpu-8g" },
    onDemand: [],
    spot: [8],
    quotaMetric: "GPUS_PER_GPU_FAMILY",
    zones: words(
      "asia-south1-b asia-south2-c europe-west1-b europe-west4-a us-central1-b us-east4-b us-east5-a us-south1-b us-west1-c",
    ),
  },
  {
    name: "nvidia-h100-80gb",
    gpuName: "NVIDIA H100 80GB HBM3",
    attach: "bundled",
    diskTypes: ["pd-balanced", "pd-ssd", "hyperdisk-balanced"],
    counts: { 1: "a3-highgpu-1g", 2: "a3-highgpu-2g", 4: "a3-highgpu-4g", 8: "a3-highgpu-8g" },
    onDemand: [8],
    spot: [1, 2, 4, 8],
    quotaMetric: "GPUS_PER_GPU_FAMILY",
    zones: words(
      "asia-east1-c asia-northeast1-b asia-south1-c asia-south2-b asia-southeast1-b asia-southeast1-c australia-southeast1-c europe-north1-c europe-west1-b europe-west1-c europe-west3-c europe-west4-b europe-west4-c europe-west9-c us-central1-a us-central1-b us-central1-c us-east4-a us-east4-b us-east4-c us-east5-a us-west1-a us-west1-b us-west4-a",
    ),
  },
  {
    name: "nvidia-a100-80gb",
    gpuName: "NVIDIA A100-SXM4-80GB",
    attach: "bundled",
    diskTypes: ["pd-balanced", "pd-ssd", "pd-standard"],
    counts: { 1: "a2-ultragpu-1g", 2: "a2-ultragpu-2g", 4: "a2-ultragpu-4g", 8: "a2-ultragpu-8g" },
    onDemand: [1, 2, 4, 8],
    spot: [1, 2, 4, 8],
    quotaMetric: "NVIDIA_A100_80GB_GPUS",
    zones: words("asia-southeast1-c europe-west4-a us-central1-a us-central1-c us-east4-c us-east5-a us-east5-b"),
  },
  {
    name: "nvidia-tesla-a100",
    gpuName: "NVIDIA A100-SXM4-40GB",
    attach: "bundled",
    diskTypes: ["pd-balanced", "pd-ssd", "pd-standard"],
    counts: { 1: "a2-highgpu-1g", 2: "a2-highgpu-2g", 4: "a2-highgpu-4g", 8: "a2-highgpu-8g", 16: "a2-megagpu-16g" },
    onDemand: [1, 2, 4, 8, 16],
    spot: [1, 2, 4, 8, 16],
    quotaMetric: "NVIDIA_A100_GPUS",
    zones: words(
      "asia-northeast1-a asia-northeast1-c asia-northeast3-a asia-northeast3-b asia-southeast1-a asia-southeast1-b asia-southeast1-c europe-west4-a europe-west4-b me-west1-a me-west1-c us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-west1-b us-west3-b us-west4-b",
    ),
  },
  {
    name: "nvidia-l4",
    gpuName: "NVIDIA L4",
    attach: "bundled",
    diskTypes: ["pd-balanced", "pd-ssd", "hyperdisk-balanced"],
    counts: { 1: "g2-standard-8", 2: "g2-standard-24", 4: "g2-standard-48", 8: "g2-standard-96" },
    onDemand: [1, 2, 4, 8],
    spot: [1, 2, 4, 8],
    quotaMetric: "NVIDIA_L4_GPUS",
    zones: words(
      "asia-east1-a asia-east1-b asia-east1-c asia-northeast1-a asia-northeast1-b asia-northeast1-c asia-northeast3-a asia-northeast3-b asia-south1-a asia-south1-b asia-south1-c asia-southeast1-a asia-southeast1-b asia-southeast1-c europe-west1-b europe-west1-c europe-west2-a europe-west2-b europe-west3-a europe-west3-b europe-west4-a europe-west4-b europe-west4-c europe-west6-b europe-west6-c me-central2-a me-central2-c northamerica-northeast1-b northamerica-northeast1-c northamerica-northeast2-a northamerica-northeast2-b us-central1-a us-central1-b us-central1-c us-east1-b us-east1-c us-east1-d us-east4-a us-east4-c us-west1-a us-west1-b us-west1-c us-west4-a us-west4-c",
    ),
  },
  {
    name: "nvidia-tesla-v100",
    gpuName: "Tesla V100-SXM2-16GB",
    attach: "n1",
    diskTypes: ["pd-balanced", "pd-ssd", "pd-standard"],
    counts: { 1: "12", 2: "24", 4: "48", 8: "96" },
    onDemand: [1, 2, 4, 8],
    spot: [1, 2, 4, 8],
    quotaMetric: "NVIDIA_V100_GPUS",
    zones: words(
      "asia-east1-c europe-west4-a europe-west4-b europe-west4-c us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-east1-c us-west1-a us-west1-b",
    ),
  },
  {
    name: "nvidia-tesla-t4",
    gpuName: "Tesla T4",
    attach: "n1",
    diskTypes: ["pd-balanced", "pd-ssd", "pd-standard"],
    counts: { 1: "48", 2: "48", 4: "96" },
    onDemand: [1, 2, 4],
    spot: [1, 2, 4],
    quotaMetric: "NVIDIA_T4_GPUS",
    zones: words(
      "asia-east1-a asia-east1-c asia-east2-a asia-east2-c asia-northeast1-a asia-northeast1-c asia-northeast3-b asia-northeast3-c asia-south1-a asia-south1-b asia-southeast1-a asia-southeast1-b asia-southeast1-c asia-southeast2-a asia-southeast2-b australia-southeast1-a australia-southeast1-c europe-central2-b europe-central2-c europe-west1-b europe-west1-c europe-west1-d europe-west2-a europe-west2-b europe-west3-b europe-west4-a europe-west4-b europe-west4-c me-west1-b me-west1-c northamerica-northeast1-c southamerica-east1-a southamerica-east1-b southamerica-east1-c us-central1-a us-central1-b us-central1-c us-central1-f us-east1-b us-east1-c us-east1-d us-east4-a us-east4-b us-east4-c us-west1-a us-west1-b us-west2-b us-west2-c us-west3-b us-west4-a us-west4-b",
    ),
  },
  {
    name: "nvidia-tesla-p100",
    gpuName: "Tesla P100-PCIE-16GB",
    attach: "n1",
    diskTypes: ["pd-balanced", "pd-ssd", "pd-standard"],
    counts: { 1: "16", 2: "32", 4: "96" },
    onDemand: [1, 2, 4],
    spot: [1, 2, 4],
    quotaMetric: "NVIDIA_P100_GPUS",
    zones: words(
      "asia-east1-a asia-east1-c australia-southeast1-b europe-west1-b europe-west1-d europe-west4-a us-central1-c us-central1-f us-east1-b us-east1-c us-west1-a us-west1-b",
    ),
  },
  {
    name: "nvidia-b200",
    gpuName: "NVIDIA B200",
    attach: "bundled",
    diskTypes: ["hyperdisk-balanced"],
    counts: { 8: "a4-highgpu-8g" },
    onDemand: [],
    spot: [8],
    quotaMetric: "GPUS_PER_GPU_FAMILY",
    zones: words(
      "asia-northeast1-b asia-southeast1-b europe-north1-b europe-west4-b us-central1-b us-east1-b us-east4-b us-south1-b us-west2-c us-west3-b us-west3-c",
    ),
  },
];

/** Every zone of the simulated cloud; all of them have machines without GPUs. */
export const ZONES: readonly string[] = [
  ...new Set([
    ...ACCELERATOR_TYPES.flatMap((type) => type.zones),
    ...words("us-central1-f us-east1-c us-east1-d europe-west4-a"),
  ]),
].toSorted();

export const regionOf = (zone: string): string => zone.replace(/-[a-z]$/, "");

export const IMAGE_PROJECT = "deeplearning-platform-release";
export const IMAGE_FAMILIES: readonly string[] = [
  "common-cu129-ubuntu-2204-nvidia-580",
  "common-cu129-ubuntu-2404-nvidia-580",
  "pytorch-2-9-cu129-ubuntu-2204-nvidia-580",
  "pytorch-2-9-cu129-ubuntu-2404-nvidia-580",
];
/** Image families of other projects without a GPU driver. */
export const PLAIN_IMAGES: readonly string[] = [
  "ubuntu-os-cloud/ubuntu-2204-lts",
  "ubuntu-os-cloud/ubuntu-2404-lts-amd64",
  "debian-cloud/debian-12",
];
/** Smallest boot disk for each of the two kinds of images, in GB. */
export const IMAGE_GB = { learning: 50, plain: 10 } as const;

const SMALLER_L4 = new Set(["g2-standard-4", "g2-standard-12", "g2-standard-16", "g2-standard-32"]);
const CPU_TYPE =
  /^(?:(?:e2|n1|n2|n2d|n4|c2|c3|c3d|c4|t2d)-(?:standard|highmem|highcpu)-([1-9][0-9]{0,2})|e2-(?:micro|small|medium)|(?:n1-|n2-|e2-)?custom-([1-9][0-9]{0,2})-[0-9]+)$/;

/** A machine type; null if the zone has none with that name. */
export function machineType(
  zone: string,
  name: string,
): { vcpus: number; n1: boolean; bundled: { type: AcceleratorType; count: number } | null } | null {
  if (!ZONES.includes(zone)) return null;
  for (const type of ACCELERATOR_TYPES) {
    if (type.attach !== "bundled") continue;
    for (const [count, machine] of Object.entries(type.counts))
      if (machine === name || (count === "1" && SMALLER_L4.has(name) && type.name === "nvidia-l4"))
        return type.zones.includes(zone) ? { vcpus: 12, n1: false, bundled: { type, count: Number(count) } } : null;
  }
  const cpu = CPU_TYPE.exec(name);
  if (cpu === null) return null;
  return {
    vcpus: Number(cpu[1] ?? cpu[2] ?? 2),
    n1: name.startsWith("n1-") || name.startsWith("custom-"),
    bundled: null,
  };
}
