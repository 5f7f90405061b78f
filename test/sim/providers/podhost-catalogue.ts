// The simulated pod host's catalogue.

export interface PodGpu {
  id: string;
  displayName: string;
  memoryInGb: number;
  securePrice: number;
  communityPrice: number;
  /** Data centers that have it. */
  dataCenters: string[];
  stock: "High" | "Medium" | "Low" | null;
  maxGpuCount: number;
}

export const DATA_CENTERS = ["EU-RO-1", "EU-SE-1", "EUR-IS-1", "US-CA-2", "US-GA-1", "US-KS-2", "US-TX-3"];
export const COUNTRIES = ["BG", "CA", "CZ", "FR", "NL", "SE", "US"];

const gpu = (id: string, displayName: string, memoryInGb: number, secure: number, community: number): PodGpu => ({
  id,
  displayName,
  memoryInGb,
  securePrice: secure,
  communityPrice: community,
  dataCenters: [...DATA_CENTERS],
  stock: "High",
  maxGpuCount: 8,
});

export const podGpus = (): PodGpu[] => [
  gpu("NVIDIA H200", "H200 SXM", 141, 3.99, 3.59),
  gpu("NVIDIA H100 80GB HBM3", "H100 SXM", 80, 2.99, 2.69),
  gpu("NVIDIA H100 PCIe", "H100 PCIe", 80, 2.39, 1.99),
  gpu("NVIDIA H100 NVL", "H100 NVL", 94, 2.79, 2.59),
  gpu("NVIDIA A100-SXM4-80GB", "A100 SXM", 80, 1.89, 1.39),
  gpu("NVIDIA A100 80GB PCIe", "A100 PCIe", 80, 1.64, 1.19),
  gpu("NVIDIA L40S", "L40S", 48, 0.86, 0.79),
  gpu("NVIDIA L40", "L40", 48, 0.99, 0.69),
  gpu("NVIDIA L4", "L4", 24, 0.43, 0.39),
  gpu("NVIDIA A40", "A40", 48, 0.4, 0.35),
  gpu("NVIDIA RTX A6000", "RTX A6000", 48, 0.49, 0.33),
  gpu("NVIDIA RTX A4000", "RTX A4000", 16, 0.25, 0.17),
  gpu("NVIDIA GeForce RTX 5090", "RTX 5090", 32, 0.94, 0.69),
  gpu("NVIDIA GeForce RTX 4090", "RTX 4090", 24, 0.69, 0.34),
  gpu("NVIDIA GeForce RTX 3090", "RTX 3090", 24, 0.46, 0.22),
  gpu("Tesla V100-SXM2-32GB", "V100 SXM2 32GB", 32, 0.49, 0.29),
  gpu("Tesla V100-PCIE-16GB", "Tesla V100", 16, 0.23, 0.19),
  { ...gpu("Tesla T4", "T4", 16, 0.2, 0.15), stock: null },
  { ...gpu("unknown", "unknown", 0, 0, 0), stock: null },
];
