// Reads the CUDA version that a container image needs from its name, and knows which driver runs that version.

export interface CudaVersion {
  major: number;
  /** Null where the name gives the major version alone, as in `cu12`. */
  minor: number | null;
}

/** Spellings seen in tags on Docker Hub, 2025 and 2026: `cuda12.8`, `cuda-12.8.1`, `cuda:12.4.1`, `cuda121`, `cuda_12_4`, `cu128`, `cu1281`, `cu12.8.1`, `cu12`, `12.4.1-cuda`. */
const SPELLINGS = [
  /cuda[-_:]?v?(\d{2})(?:\.(\d{1,2})|[-_](\d)(?![\d.]))?(?!\d)/i,
  /cuda[-_:]?v?(\d{2})(\d)(?!\d)/i,
  /(?<![a-z0-9])cu(\d{2})(?:\.(\d{1,2})|(\d)\d?)?(?![a-z0-9])/i,
  /(?<![\d.])(1\d)\.(\d{1,2})(?:\.\d{1,2})?-cuda(?!\d)/i,
];

/** The version in an image's name or tag; null where there is none. */
export function cudaOfImage(image: string): CudaVersion | null {
  for (const spelling of SPELLINGS) {
    const [, major, dotted, minor = dotted] = spelling.exec(image) ?? [];
    if (major !== undefined) return { major: Number(major), minor: minor === undefined ? null : Number(minor) };
  }
  return null;
}

/** `12.8`; a version without a minor part counts as `.0`. */
export const cudaText = ({ major, minor }: CudaVersion): string => `${major}.${minor ?? 0}`;

/** Reads `12.8`, `12` and the number 12.8. `12.10` is newer than `12.9`: as a decimal number it would not be. */
export function parseCuda(value: unknown): CudaVersion | null {
  const [, major, minor] = /^(\d{1,2})(?:\.(\d{1,2}))?$/.exec(String(value).trim()) ?? [];
  return major === undefined ? null : { major: Number(major), minor: minor === undefined ? null : Number(minor) };
}

/** Whether a host whose driver supports `host` starts an image that needs `image`. */
export const cudaServes = (host: CudaVersion, image: CudaVersion): boolean =>
  host.major === image.major ? (host.minor ?? 0) >= (image.minor ?? 0) : host.major > image.major;

/**
 * First driver branch that runs each major version of CUDA. Source: CUDA Toolkit release notes, table "minimum required driver for
 * CUDA minor version compatibility" (11.x: 450.80.02, 12.x: 525.60.13, 13.x: 580.65.06), as of November 2026.
 */
const DRIVER_MIN: Readonly<Record<number, number>> = { 11: 450, 12: 525, 13: 580 };

/** The oldest driver branch for an image; null where nothing is known. */
export const driverMinOf = (image: CudaVersion): number | null => DRIVER_MIN[image.major] ?? null;
