// The simulated market's offers, and the search over them. Offers come from a seed, so that a test can be repeated.

import { numbersFrom } from "./numbers.ts";

export interface MarketOffer {
  id: number;
  machineId: number;
  hostId: number;
  gpuName: string;
  gpuRamMb: number;
  numGpus: number;
  dphBase: number;
  minBid: number;
  /** USD per GB and month. */
  storageCost: number;
  diskSpaceGb: number;
  reliability: number;
  verification: "verified" | "unverified" | "deverified";
  hostingType: 0 | 1;
  cudaMaxGood: number;
  inetDown: number;
  directPorts: number;
  geolocation: string | null;
  durationS: number;
  rentable: boolean;
  rented: boolean;
  external: boolean;
}

/** A refusal of a search that the server does not understand. */
export class BadSearch extends Error {}

const GPUS: readonly (readonly [name: string, ramMb: number, usdPerGpuHour: number])[] = [
  ["H200", 143_771, 2.4],
  ["H200 NVL", 143_771, 2.2],
  ["H100 SXM", 81_559, 1.9],
  ["H100 PCIE", 81_559, 1.7],
  ["H100 NVL", 95_830, 1.8],
  ["A100 SXM4", 81_920, 0.9],
  ["A100 SXM4", 40_960, 0.6],
  ["A100 PCIE", 81_920, 0.8],
  ["A100 PCIE", 40_960, 0.55],
  ["L40S", 46_068, 0.6],
  ["L40", 46_068, 0.5],
  ["RTX A6000", 49_140, 0.4],
  ["A40", 46_068, 0.35],
  ["RTX 5090", 32_607, 0.5],
  ["RTX 4090", 24_564, 0.3],
  ["RTX 4090D", 24_564, 0.25],
  ["RTX 3090", 24_576, 0.15],
  ["L4", 23_034, 0.3],
  ["A10", 23_028, 0.2],
  ["RTX A4000", 16_376, 0.1],
  ["Tesla V100", 32_768, 0.2],
  ["Tesla V100", 16_384, 0.15],
  ["Tesla T4", 15_360, 0.1],
];
const PLACES = [
  "Montreal, CA",
  "Utah, US",
  ", US",
  "Oslo, NO",
  "Frankfurt, DE",
  "Osaka, JP",
  "Sofia, BG",
  null,
] as const;

/**
 * Every GPU name at several prices and counts. The cheapest offers of each name must not be used: not verified, not
 * rentable, rented, too old, without a port, of another market. `RTX 4090` has more good offers than one answer holds.
 */
export function marketOffers(seed = 1): MarketOffer[] {
  const next = numbersFrom(seed);
  const offers: MarketOffer[] = [];
  const add = (gpu: (typeof GPUS)[number], numGpus: number, factor: number, odd: Partial<MarketOffer> = {}): void => {
    const [gpuName, gpuRamMb, usd] = gpu;
    const n = offers.length;
    const dphBase = Math.round(usd * numGpus * factor * 10_000) / 10_000;
    offers.push({
      id: 7_100_000 + n * 13,
      machineId: 4_000 + n,
      hostId: 70 + (n % 9),
      gpuName,
      gpuRamMb,
      numGpus,
      dphBase,
      minBid: Math.round(dphBase * 0.45 * 10_000) / 10_000,
      storageCost: 0.1 + Math.round(next() * 10) / 100,
      diskSpaceGb: 400 + Math.round(next() * 1600),
      reliability: 0.981 + next() * 0.018,
      verification: "verified",
      hostingType: next() < 0.5 ? 0 : 1,
      cudaMaxGood: next() < 0.5 ? 12.8 : 13.0,
      inetDown: 600 + Math.round(next() * 5_000),
      directPorts: 4 + Math.round(next() * 200),
      geolocation: PLACES[Math.floor(next() * PLACES.length)] ?? null,
      durationS: 86_400 * (30 + Math.round(next() * 300)),
      rentable: true,
      rented: false,
      external: false,
      ...odd,
    });
  };
  for (const gpu of GPUS) {
    for (const numGpus of [1, 2, 4, 8]) {
      for (let i = 0; i < 4; i += 1) add(gpu, numGpus, 1 + i * 0.08 + next() * 0.05);
    }
    add(gpu, 1, 0.3, { verification: "unverified" });
    add(gpu, 1, 0.31, { rentable: false });
    add(gpu, 1, 0.32, { rented: true, rentable: false });
    add(gpu, 1, 0.33, { reliability: 0.61 });
    add(gpu, 1, 0.34, { directPorts: 0 });
    add(gpu, 1, 0.35, { diskSpaceGb: 6 });
    add(gpu, 1, 0.36, { durationS: 1_800 });
    add(gpu, 1, 0.37, { verification: "deverified" });
    add(gpu, 1, 0.38, { external: true });
  }
  const crowd = GPUS.find(([name]) => name === "RTX 4090");
  if (crowd) for (let i = 0; i < 90; i += 1) add(crowd, 1, 1.4 + i * 0.01);
  return offers;
}

/** The offer in the form of the API, with the price for so much disk. */
export function shownOffer(
  offer: MarketOffer,
  allocatedGb: number,
  bid: boolean,
  nowMs: number,
): Record<string, unknown> {
  const compute = bid ? offer.minBid : offer.dphBase;
  const cores = 16 * offer.numGpus;
  return {
    id: offer.id,
    ask_contract_id: offer.id,
    bundle_id: offer.id + 5,
    machine_id: offer.machineId,
    host_id: offer.hostId,
    gpu_name: offer.gpuName,
    num_gpus: offer.numGpus,
    gpu_frac: 1,
    gpu_ram: offer.gpuRamMb,
    gpu_total_ram: offer.gpuRamMb * offer.numGpus,
    dph_base: compute,
    dph_total: compute + (allocatedGb * offer.storageCost) / 720,
    min_bid: offer.minBid,
    storage_cost: offer.storageCost,
    inet_up_cost: 0.003,
    inet_down_cost: 0.003,
    inet_down: offer.inetDown,
    inet_up: offer.inetDown / 2,
    cpu_cores: cores,
    cpu_cores_effective: cores,
    cpu_ram: 65_536 * offer.numGpus,
    disk_space: offer.diskSpaceGb,
    disk_bw: 2_100.5,
    cuda_max_good: offer.cudaMaxGood,
    driver_version: offer.cudaMaxGood >= 13 ? "580.65.06" : "570.86.10",
    compute_cap: 890,
    reliability: offer.reliability,
    reliability2: offer.reliability,
    verification: offer.verification,
    hosting_type: offer.hostingType,
    score: 100 / offer.dphBase,
    dlperf: 50 * offer.numGpus,
    direct_port_count: offer.directPorts,
    static_ip: true,
    public_ipaddr: "203.0.113.45",
    geolocation: offer.geolocation,
    rentable: offer.rentable,
    rented: offer.rented,
    external: offer.external,
    is_bid: bid,
    duration: offer.durationS,
    start_date: nowMs / 1000 - 86_400,
    end_date: nowMs / 1000 + offer.durationS,
    cluster_id: null,
    vms_enabled: false,
  };
}

const OPERATORS: Record<string, (have: unknown, want: unknown) => boolean> = {
  eq: (have, want) => have === want,
  neq: (have, want) => have !== want,
  gt: (have, want) => Number(have) > Number(want),
  gte: (have, want) => Number(have) >= Number(want),
  lt: (have, want) => Number(have) < Number(want),
  lte: (have, want) => Number(have) <= Number(want),
  in: (have, want) => Array.isArray(want) && want.includes(have),
  notin: (have, want) => Array.isArray(want) && !want.includes(have),
};
const ON_DEMAND = new Set(["on-demand", "ondemand"]);
const SHOWN_MAX = 64;

/**
 * Answers a search like the market: at most 64 offers, whatever the requested limit. It ignores the filters in
 * `ignored`.
 */
export function searchOffers(
  offers: readonly MarketOffer[],
  query: unknown,
  nowMs: number,
  ignored: ReadonlySet<string> = new Set(),
): Record<string, unknown>[] {
  if (typeof query !== "object" || query === null || Array.isArray(query))
    throw new BadSearch("the query is no object");
  const {
    type = "on-demand",
    allocated_storage: storage = 5,
    order,
    limit = SHOWN_MAX,
    ...filters
  } = query as Record<string, unknown>;
  if (typeof type !== "string" || !(ON_DEMAND.has(type) || type === "bid" || type === "reserved"))
    throw new BadSearch(`type: ${JSON.stringify(type)}`);
  if (typeof storage !== "number" || !(storage >= 0)) throw new BadSearch("allocated_storage");
  if (typeof limit !== "number" || !Number.isInteger(limit)) throw new BadSearch("limit");
  const rows = offers.map((offer) => shownOffer(offer, storage, type === "bid", nowMs));
  const columns = new Set([...Object.keys(rows[0] ?? {}), "verified", "datacenter", "target_reliability"]);
  const tests = Object.entries(filters).flatMap(([column, conditions]) => {
    if (rows.length > 0 && !columns.has(column)) throw new BadSearch(`unknown column ${column}`);
    if (typeof conditions !== "object" || conditions === null || Array.isArray(conditions))
      throw new BadSearch(`${column}: not an object of operators`);
    return Object.entries(conditions).map(([operator, want]) => {
      const holds = OPERATORS[operator];
      if (!Object.hasOwn(OPERATORS, operator) || holds === undefined)
        throw new BadSearch(`${column}: operator ${operator}`);
      return (row: Record<string, unknown>) => ignored.has(column) || holds(valueOf(row, column), want);
    });
  });
  const found = rows.filter((row) => tests.every((holds) => holds(row)));
  for (const [column, direction] of orderOf(order, columns).toReversed()) {
    const sign = direction === "desc" ? -1 : 1;
    found.sort((a, b) => sign * (Number(a[column]) - Number(b[column])));
  }
  return found.slice(0, Math.min(SHOWN_MAX, limit > 0 ? limit : SHOWN_MAX));
}

function valueOf(row: Record<string, unknown>, column: string): unknown {
  switch (column) {
    // A search by `id` finds nothing; `ask_contract_id` works.
    case "id":
      return null;
    case "verified":
      return row["verification"] === "verified";
    case "datacenter":
      return row["hosting_type"] === 1;
    case "target_reliability":
      return row["reliability2"];
    case "geolocation":
      return typeof row["geolocation"] === "string" ? row["geolocation"].slice(-2) : null;
    default:
      return row[column];
  }
}

function orderOf(order: unknown, columns: ReadonlySet<string>): [string, string][] {
  if (order === undefined) return [["score", "desc"]];
  if (!Array.isArray(order)) throw new BadSearch("order");
  return order.map((entry: unknown) => {
    const [column, direction] = Array.isArray(entry) ? (entry as unknown[]) : [];
    if (typeof column !== "string" || !columns.has(column) || (direction !== "asc" && direction !== "desc"))
      throw new BadSearch("order");
    return [column, direction];
  });
}
