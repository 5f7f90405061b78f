// The pod host's answers, in either of its two APIs, and their conversion. Unimportant fields may be missing or odd;
// ids, addresses and prices pass the strict patterns of the domain or become null.

import { z } from "zod";
import { endpointOf, idOf, oddIdOf, type SshEndpoint } from "../../domain/endpoint.ts";
import { priceMicroOf, rentMicroOf } from "../../domain/money.ts";
import type { SoldGpu } from "../gpu-names.ts";
import type { SvcError } from "../../errors/index.ts";
import type { List } from "../paging.ts";
import type { Account } from "../provider.ts";

export interface Pod {
  /** Null if the provider sent an id of an unusable form. */
  id: string | null;
  /** The id that it sent instead, if it can be used in a request. */
  oddId: string | null;
  name: string;
  /** In upper case; empty if none was sent. */
  status: string;
  /** The reason of the last status change, in the provider's words. */
  lastChange: string;
  priceMicro: number | null;
  machineId: string | null;
  /** Whether its container runs; the status alone only shows the request. */
  up: boolean;
  ssh: SshEndpoint | null;
  /** Port 22 is listed without a public address. */
  privateOnly: boolean;
  privateAddress: string | null;
  /** The provider says that it no longer exists, but still lists it. */
  deleted: boolean;
}

/** One kind of GPU in one of the two clouds. */
export interface GpuType {
  id: string;
  memoryGb: number | null;
  /** Dollars per hour for one GPU; null if the price is missing or malformed. */
  unitMicro: number | null;
  inStock: boolean;
  /** Maximum of such GPUs on one machine; null if unknown. */
  countMax: number | null;
}

export type Cloud = "SECURE" | "COMMUNITY";

export interface Place {
  cloud: Cloud;
  dataCenterId: string | null;
  countryCode: string | null;
}

export interface PodOrder extends Place {
  name: string;
  gpuTypeId: string;
  gpuCount: number;
  image: string;
  minCudaVersion: string | null;
  diskGb: number;
  /** Replaces the image's own command. */
  args: string;
  env: Readonly<Record<string, string>>;
  globalNetwork: boolean;
}

/** Distinguishes the pods of one list. */
export const podKey = ({ id, oddId, name }: Pod): string => (id === null ? `odd ${oddId ?? ""} ${name}` : `id ${id}`);

/** The readable pods in a list. A row that may be any pod leaves the list incomplete, and hides no other row. */
export function readablePods(
  { rows, missing }: List<unknown>,
  podOf: (raw: unknown) => Pod | null,
  damaged: () => SvcError,
): List<Pod> {
  const pods = rows
    .map(podOf)
    .filter((pod) => pod !== null && (pod.id !== null || pod.oddId !== null || pod.name !== ""));
  return {
    rows: pods.filter((pod) => pod !== null),
    missing: missing ?? (pods.length < rows.length ? damaged() : null),
  };
}
/** Distinguishes the rows of one list before they are read. */
export const rowKey =
  (podOf: (raw: unknown) => Pod | null) =>
  (raw: unknown): string => {
    const pod = podOf(raw);
    return pod === null ? `unreadable ${JSON.stringify(raw)}` : podKey(pod);
  };

/** The operations of both APIs. */
export interface PodApi {
  gpuTypes(ids: readonly string[], count: number, place: Place, signal: AbortSignal): Promise<GpuType[]>;
  /** Every kind of GPU in the catalogue; throws if it cannot be read completely. */
  gpuNames(signal: AbortSignal): Promise<SoldGpu[]>;
  /** Every existing data centre and country, in upper case; empty for a kind that this API does not list. */
  placeNames(signal: AbortSignal): Promise<string[]>;
  /** Throws one of NOTHING_MADE only if the answer says so. */
  create(order: PodOrder): Promise<Pod>;
  /** Null: not found. Undefined: the answer does not tell. */
  get(id: string, signal: AbortSignal): Promise<Pod | null | undefined>;
  /** The account's pods; throws if not even the first page can be read, and is incomplete if a row cannot be. */
  list(purpose?: "read" | "look"): Promise<List<Pod>>;
  /** Whether the provider accepted the termination; false if it does not know the pod. Neither answer proves that the pod is gone. */
  terminate(id: string, signal: AbortSignal): Promise<boolean>;
  /** The last lines of a pod's log; null if this API does not serve it. */
  log(id: string, signal: AbortSignal): Promise<string | null>;
  account(signal: AbortSignal): Promise<Account>;
  /** The provider's name of the key's account; null if this API does not report it. */
  accountId(signal: AbortSignal): Promise<string | null>;
}

/** Missing, too. */
const anything = z.unknown().optional();
const text = z.string().nullish().catch(null);
const whole = z
  .union([z.number(), z.string().regex(/^\d+$/).transform(Number)])
  .nullish()
  .catch(null);
const listOf = <T extends z.ZodType>(item: T) => z.array(item).nullish().catch(null);

const GraphqlPort = z.looseObject({
  ip: text,
  isIpPublic: z.boolean().nullish().catch(null),
  privatePort: whole,
  publicPort: whole,
  type: text,
});
const GraphqlPod = z.looseObject({
  id: anything,
  name: text,
  desiredStatus: text,
  lastStatusChange: text,
  costPerHr: anything,
  adjustedCostPerHr: anything,
  machineId: anything,
  runtime: z
    .looseObject({ ports: listOf(GraphqlPort) })
    .nullish()
    .catch(null),
});

const RestPort = z.looseObject({ ip: text, private: whole, public: whole, type: text });
const RestPod = z.looseObject({
  id: anything,
  name: text,
  status: text,
  cost: anything,
  machineId: anything,
  ssh: z
    .looseObject({
      direct: z.looseObject({ host: text, port: whole, username: text }).nullish().catch(null),
    })
    .nullish()
    .catch(null),
  ports: listOf(RestPort),
  globalNetworking: anything,
  runtime: z
    .looseObject({ ports: listOf(RestPort) })
    .nullish()
    .catch(null),
});

const isSsh = (port: number | null | undefined, type: string | null | undefined): boolean =>
  port === 22 && (type ?? "tcp").toLowerCase() === "tcp";

/** Null if it is not even an object. */
export function podOfGraphql(raw: unknown): Pod | null {
  const parsed = GraphqlPod.safeParse(raw);
  if (!parsed.success) return null;
  const pod = parsed.data;
  const ports = (pod.runtime?.ports ?? []).filter((port) => isSsh(port.privatePort, port.type));
  const inside = ports.find((port) => port.isIpPublic === false);
  return {
    id: idOf(pod.id),
    oddId: oddIdOf(pod.id),
    name: pod.name ?? "",
    status: (pod.desiredStatus ?? "").toUpperCase(),
    lastChange: pod.lastStatusChange ?? "",
    priceMicro: higher(rentMicroOf(pod.costPerHr), rentMicroOf(pod.adjustedCostPerHr)),
    machineId: idOf(pod.machineId),
    up: pod.runtime !== null && pod.runtime !== undefined,
    ssh: firstWay(ports.filter((port) => port.isIpPublic !== false).map((port) => [port.ip, port.publicPort, "root"])),
    privateOnly: ports.length > 0 && ports.every((port) => port.isIpPublic === false),
    privateAddress: endpointOf(inside?.ip, 22, "root")?.host ?? null,
    deleted: false,
  };
}

/** Null if it is not even an object. */
export function podOfRest(raw: unknown): Pod | null {
  const parsed = RestPod.safeParse(raw);
  if (!parsed.success) return null;
  const pod = parsed.data;
  const status = (pod.status ?? "").toUpperCase();
  const direct = pod.ssh?.direct;
  const ports = [...(pod.runtime?.ports ?? []), ...(pod.ports ?? [])].filter((port) => isSsh(port.private, port.type));
  return {
    id: idOf(pod.id),
    oddId: oddIdOf(pod.id),
    name: pod.name ?? "",
    status,
    lastChange: "",
    priceMicro: rentMicroOf(pod.cost),
    machineId: idOf(pod.machineId),
    up: status === "RUNNING",
    ssh: firstWay([
      [direct?.host, direct?.port, direct?.username ?? "root"],
      ...ports.map((port): [unknown, unknown, unknown] => [port.ip, port.public, "root"]),
    ]),
    // Its answers do not show which addresses are public.
    privateOnly: false,
    privateAddress: endpointOf(field(pod.globalNetworking, "ip"), 22, "root")?.host ?? null,
    deleted: status === "TERMINATED",
  };
}

const higher = (a: number | null, b: number | null): number | null => Math.max(a ?? 0, b ?? 0) || null;

function firstWay(ways: [host: unknown, port: unknown, user: unknown][]): SshEndpoint | null {
  return ways.map(([host, port, user]) => endpointOf(host, port, user)).find((way) => way !== null) ?? null;
}

const GPU_ID = /^[A-Za-z0-9][A-Za-z0-9 ._/+()-]{0,79}$/;
const gpuId = (value: unknown): string | null =>
  typeof value === "string" && GPU_ID.test(value) && value !== "unknown" ? value : null;
export const amount = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;
export const field = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
const inStock = (level: unknown): boolean =>
  level === undefined || (typeof level === "string" && !/^(none|)$/i.test(level.trim()));

/**
 * The price of one GPU: the highest of the fields that contain one. A malformed price removes the offer, because the
 * billed price would be unknown.
 */
function unitPrice(...prices: unknown[]): number | null {
  const told = prices.filter((price) => price !== null && price !== undefined);
  const micro = told.map(priceMicroOf);
  return micro.length === 0 || micro.includes(null) ? null : Math.max(0, ...micro.map(Number));
}

/** Empty if it has no name that can be ordered. */
export function soldGpuOf(raw: unknown): SoldGpu[] {
  const id = gpuId(field(raw, "id"));
  if (id === null) return [];
  const shownAs = gpuId(field(raw, "displayName")) ?? gpuId(field(raw, "name"));
  const memoryGb = amount(field(raw, "memoryInGb")) ?? amount(field(raw, "memory"));
  return [{ id, memoryGb, ...(shownAs === null ? {} : { shownAs }) }];
}

/** The names in a list of places, or of objects with the name as their id. */
export const placeNamesOf = (raw: unknown): string[] =>
  (Array.isArray(raw) ? raw : [])
    .map((one: unknown) => (typeof one === "string" ? one : field(one, "id")))
    .filter((name) => typeof name === "string")
    .map((name) => name.toUpperCase());

/** Null if it has no usable name. */
export function gpuTypeOfGraphql(raw: unknown, cloud: Cloud, count: number): GpuType | null {
  const id = gpuId(field(raw, "id"));
  if (id === null) return null;
  const lowest = field(raw, "lowestPrice");
  const offered = field(raw, cloud === "SECURE" ? "secureCloud" : "communityCloud");
  const counts = field(lowest, "availableGpuCounts");
  const countMax = amount(field(raw, "maxGpuCount"));
  return {
    id,
    memoryGb: amount(field(raw, "memoryInGb")),
    unitMicro: unitPrice(
      field(raw, cloud === "SECURE" ? "securePrice" : "communityPrice"),
      field(lowest, "uninterruptablePrice"),
    ),
    inStock:
      offered !== false &&
      lowest !== null &&
      inStock(field(lowest, "stockStatus")) &&
      (countMax ?? count) >= count &&
      !(Array.isArray(counts) && counts.length > 0 && !counts.includes(count)),
    countMax,
  };
}

/** Null if it has no usable name. */
export function gpuTypeOfRest(raw: unknown, place: Place, count: number): GpuType | null {
  const id = gpuId(field(raw, "id"));
  if (id === null) return null;
  const cloud = place.cloud === "SECURE" ? "secure" : "community";
  const most = field(raw, "maxCount");
  const countMax = amount(field(most, cloud)) ?? amount(most);
  const centres = field(raw, "dataCenters");
  const here =
    place.dataCenterId !== null && Array.isArray(centres)
      ? // Its data centres do not include this one: unavailable there.
        (field(
          centres.find((centre) => field(centre, "id") === place.dataCenterId),
          "availability",
        ) ?? null)
      : field(raw, "availability");
  return {
    id,
    memoryGb: amount(field(raw, "memory")),
    unitMicro: unitPrice(field(field(raw, "price"), cloud)),
    inStock: field(raw, cloud) !== false && inStock(here) && (countMax ?? count) >= count,
    countMax,
  };
}
