// Searches for offers, and validates the results.
//
// S1. The provider may ignore filters, so every number is checked again in the answer. A row that lacks a requested
//     property is not an offer.
// S2. A price that is not a finite number of 0 or more does not count, and a row without a price is not an offer.
// S3. Each machine on demand also accepts bids, and its row gives the minimum bid, so one search serves both.

import { firstChars } from "../../domain/terminal-text.ts";
import { idOf } from "../../domain/endpoint.ts";
import { priceMicroOf } from "../../domain/money.ts";
import { cudaOfImage, cudaServes, cudaText, parseCuda, type CudaVersion } from "../../domain/cuda.ts";
import { readGpuName } from "../../domain/gpu-name.ts";
import type { RunSpec, SpotChoice } from "../../schemas/spec.ts";
import { gpuIds, gpuWishOf, leastMemoryOf, neverSold, refuseMemory } from "../gpu-names.ts";
import { bidFor } from "./bid.ts";
import { LIMIT, type Found, type SearchBody } from "./joint-search.ts";
import { withoutOthers, type Offer } from "../provider.ts";
import { countriesFor, countryOf } from "./places.ts";
import { numberOf, textOf, type OfferRow } from "./wire.ts";
import { stopGraceSeconds } from "../../domain/stop-grace.ts";

/** Python, PyTorch and CUDA on a Debian family system, which the provider's own sshd set-up needs. */
export const DEFAULT_IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime";
const DEFAULT_DISK_GB = 50;
const LEAST_DISK_GB = 8;
/** Cards report less memory than their nominal size. */
const VRAM_TOLERANCE = 0.9;
const LEAST_RELIABILITY = 0.9;
const DAY_S = 86_400;
/** Rental time in addition to the run itself: installing, collecting. */
const SPARE_S = 3_600;
/** Searches are six seconds apart. */
const SEARCHES_MAX = 4;

export interface Wish {
  names: readonly string[];
  count: number;
  gpuRamMb: number | null;
  diskGb: number;
  seconds: number;
  countries: readonly string[] | null;
  cuda: CudaVersion | null;
  capUsd: number | null;
  spot: SpotChoice;
}

export const diskGbOf = (spec: RunSpec): number => Math.max(LEAST_DISK_GB, spec.disk_gb ?? DEFAULT_DISK_GB);

/**
 * Throws `gpus_unsupported` and `invalid_request`, naming the field, and `credential_missing` for a wrong `region`.
 * @param region of the credential; undefined for none, and where only the run itself is checked
 */
export function wishOf(spec: RunSpec, region: string | undefined): Wish {
  const { model, count } = gpuWishOf("market", spec.gpus);
  refuseMemory("market", spec);
  const vramGb = spec.min_vram_gb ?? leastMemoryOf(model);
  return {
    names: gpuIds("market", model).map((name) => name.replaceAll("_", " ")),
    count,
    gpuRamMb: vramGb === null ? null : Math.floor(vramGb * 1024 * VRAM_TOLERANCE),
    diskGb: diskGbOf(spec),
    seconds: spec.max_runtime_minutes
      ? Math.ceil(spec.max_runtime_minutes * 60) + stopGraceSeconds(spec) + SPARE_S
      : DAY_S,
    countries: countriesFor(spec, region),
    cuda: cudaOfImage(spec.image ?? defaultImageFor(model)),
    capUsd: spec.price_cap ?? null,
    spot: spec.spot ?? "never",
  };
}

/** The newest PyTorch of the default image has no code for this card any more. */
export const defaultImageFor = (model: string): string =>
  readGpuName(model).card === "v100" ? "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime" : DEFAULT_IMAGE;

export function searchBody(wish: Wish, withCap: boolean): SearchBody {
  return {
    verified: { eq: true },
    rentable: { eq: true },
    rented: { eq: false },
    external: { eq: false },
    type: "on-demand",
    gpu_name: { in: wish.names },
    num_gpus: { eq: wish.count },
    ...(wish.gpuRamMb === null ? {} : { gpu_ram: { gte: wish.gpuRamMb } }),
    disk_space: { gte: wish.diskGb },
    allocated_storage: wish.diskGb,
    direct_port_count: { gte: 1 },
    reliability: { gte: LEAST_RELIABILITY },
    duration: { gte: wish.seconds },
    ...(wish.cuda === null ? {} : { cuda_max_good: { gte: Number(cudaText(wish.cuda)) } }),
    ...(wish.countries === null ? {} : { geolocation: { in: wish.countries } }),
    // A machine above the cap on demand may be below it as a bid, so only runs without spot filter by price.
    ...(withCap && wish.capUsd !== null && wish.spot === "never" ? { dph_total: { lte: wish.capUsd } } : {}),
    order: [["dph_total", "asc"]],
    limit: LIMIT,
  };
}

/** Every machine with that name, rented or not, on any terms: shows whether such machines exist at all. */
const everySuch = (wish: Wish): SearchBody => ({
  type: "on-demand",
  gpu_name: { in: wish.names },
  order: [["num_gpus", "desc"]],
  limit: LIMIT,
});

/** The same search for rows that cost as much as the last of these, or more; null if these are all. */
function dearerThan({ fullTo }: Found, body: SearchBody): SearchBody | null {
  const asked = (body["dph_total"] ?? {}) as { gte?: number };
  if (fullTo === null || asked.gte === fullTo) return null;
  return { ...body, dph_total: { ...asked, gte: fullTo } };
}

/**
 * One answer holds a limited number of offers: while it is full and none of them fits, more expensive ones are
 * requested.
 */
async function offersFor(
  search: (body: SearchBody) => Promise<Found>,
  wish: Wish,
  first: SearchBody,
): Promise<Offer[]> {
  let body: SearchBody | null = first;
  let offers: Offer[] = [];
  for (let page = 1; body !== null && offers.length === 0 && page <= SEARCHES_MAX; page++) {
    const found = await search(body);
    offers = offersOf(found.rows, wish);
    if (found.agoMs > 0) for (const offer of offers) offer.agoMs = found.agoMs;
    body = dearerThan(found, body);
  }
  return offers;
}

/** Throws `gpus_unsupported` if no host has such machines, rented or not: waiting would change nothing. */
export async function soldOffers(
  search: (body: SearchBody) => Promise<Found>,
  wish: Wish,
  gpus: string,
  signal: AbortSignal,
): Promise<Offer[]> {
  const within = await offersFor(search, wish, searchBody(wish, true));
  if (within.length > 0) return within;
  // Searches without the cap, for the cheapest price: the user learns what the machine would cost.
  const isCapped = wish.capUsd !== null && wish.spot === "never";
  const offers = isCapped ? await offersFor(search, wish, searchBody(wish, false)) : within;
  if (offers.length > 0) return offers;
  const every = await search(everySuch(wish)).catch(() => null);
  signal.throwIfAborted();
  const why = every === null ? null : neverThatMany(every, wish);
  if (why !== null) throw neverSold("market", gpus, why);
  return offers;
}

/** Common counts: having none now does not mean never. */
const USUAL_COUNTS: ReadonlySet<number> = new Set([1, 2, 4, 8]);

/** Why such a machine will never be rented out, as text; null if it may be. Found are all machines with that name. */
function neverThatMany({ rows, fullTo }: Found, wish: Wish): string | null {
  const { count } = wish;
  // Filters are only requests: other cards may be among the rows.
  const named = rows.filter((row) => isNamed(row, wish));
  const counts = [...new Set(named.map((row) => numberOf(row.num_gpus)).filter((n) => n !== null))];
  const most = Math.max(...counts);
  // An answer of the maximum length may have omitted some offers.
  if (counts.length === 0 || counts.includes(count) || (fullTo !== null && count < most)) return null;
  if (USUAL_COUNTS.has(count) && count < most) return null;
  return `machines with it have ${counts.toSorted((a, b) => a - b).join(", ")} of them`;
}

/**
 * The offers that match the request, cheapest first. Offers above the cap stay, so that the user learns the cheapest
 * price.
 */
export function offersOf(rows: readonly OfferRow[], wish: Wish): Offer[] {
  const onDemand = rows.flatMap((row) => offerOf(row, wish) ?? []);
  const bids = wish.spot === "never" ? [] : onDemand.flatMap(({ offer, row }) => bidFor(offer, row, wish.capUsd) ?? []);
  const offers = wish.spot === "only" ? bids : [...bids, ...onDemand.map(({ offer }) => offer)];
  const unpriced = rows.filter((row) => priceMicroOf(row.dph_total) === null);
  const unfit = rows.length - unpriced.length - onDemand.length;
  const dear = wish.spot === "only" ? onDemand.length - bids.length : 0;
  const [odd] = unpriced;
  return withoutOthers(
    offers.toSorted((a, b) => (a.priceMicro ?? 0) - (b.priceMicro ?? 0)),
    [
      ...(odd ? [`${unpriced.length} of its offers have no price that is a number of 0 or more (${shown(odd)})`] : []),
      ...(unfit > 0 ? [`${unfit} of its offers do not match the request`] : []),
      ...(dear > 0 ? [`${dear} of its offers accept no bid below their price on demand and the price cap`] : []),
      `asked for ${wordsOf(wish)}`,
    ],
  );
}

const shown = (row: OfferRow): string => `dph_total is ${firstChars(JSON.stringify(row.dph_total ?? null), 40)}`;

/** The search criteria as text, for a person who wonders why the search found no offer. */
const wordsOf = (wish: Wish): string =>
  [
    `${wish.count} × ${wish.names.join(" or ")} on a verified host`,
    ...(wish.gpuRamMb === null ? [] : [`${Math.floor(wish.gpuRamMb / 1024)} GB of GPU memory or more`]),
    `${wish.diskGb} GB of disk`,
    ...(wish.cuda === null ? [] : [`CUDA ${cudaText(wish.cuda)} or newer`]),
    ...(wish.countries === null ? [] : [`in ${wish.countries.join(", ")}`]),
    `free for ${Math.ceil(wish.seconds / 3_600)} hours`,
  ].join(", ");

function offerOf(row: OfferRow, wish: Wish): { offer: Offer; row: OfferRow } | null {
  const id = idOf(row.ask_contract_id) ?? idOf(row.id);
  const priceMicro = priceMicroOf(row.dph_total);
  if (id === null || priceMicro === null || !fits(row, wish)) return null;
  const machineId = idOf(row.machine_id);
  const { up, down } = trafficPrices(row);
  const offer = {
    id,
    priceMicro,
    ...(up === null || down === null ? {} : { trafficMicro: Math.round((up + down) * 1e6) }),
    facts: factsOf(row),
    ...(machineId ? { host: machineId } : {}),
    extra: {
      disk_gb: String(wish.diskGb),
      ...(machineId ? { machine_id: machineId } : {}),
      ...diskPriceOf(row, wish, priceMicro),
    },
  };
  return { offer, row };
}

/** Hours of a month by which the provider bills disks (source: its API guide, 2026). */
const HOURS_A_MONTH = 720;

/** The disk's price per hour in micro-dollars: it is all that is billed until the machine runs. */
function diskPriceOf(row: OfferRow, { diskGb }: Wish, priceMicro: number): { disk_micro?: string } {
  const monthly = numberOf(row.storage_cost);
  const micro = monthly === null ? null : Math.ceil((monthly * diskGb * 1e6) / HOURS_A_MONTH);
  return micro === null || micro < 0 || micro > priceMicro ? {} : { disk_micro: String(micro) };
}

/** Dollars per GB of traffic; null if the host does not report a number of 0 or more. */
function trafficPrices(row: OfferRow): { up: number | null; down: number | null } {
  const price = (value: unknown): number | null => {
    const dollars = numberOf(value);
    return dollars !== null && dollars >= 0 ? dollars : null;
  };
  return { up: price(row.inet_up_cost), down: price(row.inet_down_cost) };
}

function trafficOf(row: OfferRow): { traffic?: string } {
  const { up, down } = trafficPrices(row);
  const told = [
    ...(down === null ? [] : [`$${down.toFixed(3)} per GB in`]),
    ...(up === null ? [] : [`$${up.toFixed(3)} per GB out`]),
  ];
  return told.length === 0 ? {} : { traffic: told.join(", ") };
}

/** Facts by which a person chooses. The host's texts are shortened and only ever displayed. */
function factsOf(row: OfferRow): Record<string, string> {
  const memory = numberOf(row.gpu_ram);
  const reliability = numberOf(row.reliability2 ?? row.reliability);
  const disk = numberOf(row.disk_space);
  const place = textOf(row.geolocation)
    .replace(/^[,\s]+/, "")
    .slice(0, 60);
  return {
    gpu: `${numberOf(row.num_gpus) ?? 1} × ${textOf(row.gpu_name).slice(0, 60)}`,
    ...(memory === null ? {} : { memory: `${Math.round(memory / 1024)} GB` }),
    ...(place === "" ? {} : { place }),
    ...(disk === null ? {} : { disk: `${Math.floor(disk)} GB` }),
    ...trafficOf(row),
    ...(reliability === null ? {} : { reliability: `${(reliability * 100).toFixed(1)} %` }),
  };
}

function fits(row: OfferRow, wish: Wish): boolean {
  const verified = row.verification === undefined ? row.verified === true : textOf(row.verification) === "verified";
  const free = (row.rentable ?? true) === true && row.rented !== true && row.external !== true && row.is_bid !== true;
  const country = countryOf(row.geolocation);
  return (
    verified &&
    free &&
    isNamed(row, wish) &&
    numberOf(row.num_gpus) === wish.count &&
    (wish.gpuRamMb === null || atLeast(row.gpu_ram, wish.gpuRamMb, false)) &&
    atLeast(row.disk_space, wish.diskGb) &&
    atLeast(row.direct_port_count, 1) &&
    atLeast(row.reliability2 ?? row.reliability, LEAST_RELIABILITY) &&
    atLeast(row.duration, wish.seconds) &&
    (wish.cuda === null || runsCuda(row.cuda_max_good, wish.cuda)) &&
    (wish.countries === null || (country !== null && wish.countries.includes(country)))
  );
}

/** An image with CUDA 12.8 does not start on a host whose driver ends at 12.2, though both are 12. */
function runsCuda(value: unknown, image: CudaVersion): boolean {
  if (value === undefined || value === null) return true;
  const host = parseCuda(value);
  return host !== null && cudaServes(host, image);
}

function isNamed(row: OfferRow, wish: Wish): boolean {
  const plain = (name: string) => name.toLowerCase().replace(/[\s_]+/g, " ");
  return wish.names.some((name) => plain(name) === plain(textOf(row.gpu_name)));
}

/** `ifAbsent`: the result for a missing number. A value that is not a number is never enough. */
function atLeast(value: unknown, least: number, ifAbsent = true): boolean {
  if (value === undefined || value === null) return ifAbsent;
  const number = numberOf(value);
  return number !== null && number >= least;
}
