// The pod host's checks of orders, and its answers, for both of its APIs.

import { during } from "./faults.ts";
import type { Reply } from "./http-server.ts";
import type { SimParts } from "./parts.ts";
import { DATA_CENTERS, type PodGpu } from "./podhost-catalogue.ts";
import type { Pod, PodhostPods, PodRequest } from "./podhost-pods.ts";
import { podOfGraphql, podOfRest } from "./podhost-shapes.ts";

export type Caller = { kind: "owner" } | { kind: "reader" } | { kind: "nobody" } | { kind: "pod"; pod: Pod };

/** Returned with status 200 and `errors`, or with 403. */
export class Refused extends Error {
  readonly code: string;
  readonly field: string | null;
  readonly forbidden: boolean;
  constructor(message: string, more: { code?: string; field?: string; forbidden?: boolean } = {}) {
    super(message);
    this.code = more.code ?? "INTERNAL_SERVER_ERROR";
    this.field = more.field ?? null;
    this.forbidden = more.forbidden ?? false;
  }
}

export const NO_CAPACITY = [
  "There are no longer any instances available with the requested specifications. Please refresh and try again.",
  "This machine does not have the resources to deploy your pod. Please try a different machine",
  "There are no instances currently available",
  "There are no longer any instances available with enough disk space.",
] as const;
const NO_FUNDS = "Your account balance is too low to rent a pod. Please add funds to your account.";
/** Marks a malformed number in JSON; 1e999 is valid JSON and reads as infinity. */
const NO_NUMBER = "@no-number@";

export class PodOrders {
  balanceUsd: number;
  /** Keys of the account: `startSsh` puts them into a pod without a key of its own. */
  pubKey = "";
  readonly #parts: SimParts;
  readonly #pods: PodhostPods;
  #refusals = 0;

  constructor(parts: SimParts, pods: PodhostPods, balanceUsd: number) {
    this.#parts = parts;
    this.#pods = pods;
    this.balanceUsd = balanceUsd;
  }

  mayChange(caller: Caller, podId: unknown): void {
    if (caller.kind === "owner" || (caller.kind === "pod" && caller.pod.id === podId)) return;
    throw new Refused("Forbidden", { forbidden: true, code: "FORBIDDEN" });
  }

  /** Converts a create call of the first API into an order; throws its error. */
  request(name: string, input: Record<string, unknown>): PodRequest {
    const text = (key: string): string | null => (typeof input[key] === "string" ? input[key] : null);
    const number = (key: string): number | null => (typeof input[key] === "number" ? input[key] : null);
    const list = Array.isArray(input["gpuTypeIdList"]) ? input["gpuTypeIdList"].map(String) : [];
    const env = Array.isArray(input["env"]) ? (input["env"] as { key?: unknown; value?: unknown }[]) : [];
    const cloud = text("cloudType");
    if (text("imageName") === null && text("templateId") === null)
      throw new Refused("imageName is required", { field: name });
    return this.checked(name, {
      name: text("name") ?? "",
      imageName: text("imageName") ?? "template",
      gpuIds: [text("gpuTypeId"), ...list].filter((id) => id !== null),
      gpuCount: number("gpuCount") ?? 1,
      cloud: cloud === "COMMUNITY" ? "COMMUNITY" : "SECURE",
      dataCenterId: text("dataCenterId"),
      env: Object.fromEntries(env.map(({ key, value }) => [String(key), String(value)])),
      dockerArgs: text("dockerArgs"),
      ports: text("ports") ?? "",
      containerDiskInGb: number("containerDiskInGb") ?? 10,
      volumeInGb: number("volumeInGb") ?? 0,
      interruptible: name === "podRentInterruptable",
      startSsh: input["startSsh"] === true,
      private: false,
    });
  }

  /** Checks that the order can be filled; throws the reason if it cannot. */
  checked(field: string, order: Omit<PodRequest, "gpu"> & { gpuIds: string[]; startSsh: boolean }): PodRequest {
    const { gpuIds, startSsh, ...rest } = order;
    const say = (message: string) => new Refused(message, { field });
    if (rest.name.length > 191) throw say("name must be at most 191 characters");
    if (Object.keys(rest.env).length > 50) throw say("env must have at most 50 entries");
    if (/\s/.test(rest.ports)) throw say("ports must not contain spaces");
    const gpu = this.#pods.gpus.find(({ id }) => gpuIds.includes(id));
    if (!gpu) throw say("Something went wrong. Please try again later or contact support.");
    const price = (rest.cloud === "SECURE" ? gpu.securePrice : gpu.communityPrice) * rest.gpuCount;
    if (this.balanceUsd < price) throw say(NO_FUNDS);
    const somewhere = rest.dataCenterId === null || gpu.dataCenters.includes(rest.dataCenterId);
    const { faults } = this.#parts;
    if (
      gpu.stock === null ||
      rest.gpuCount > gpu.maxGpuCount ||
      !somewhere ||
      this.#full() ||
      faults.take("offer_taken")
    )
      throw say(NO_CAPACITY[this.#refusals++ % NO_CAPACITY.length] ?? NO_CAPACITY[0]);
    const env = { ...(startSsh && this.pubKey !== "" ? { PUBLIC_KEY: this.pubKey } : {}), ...rest.env };
    return { ...rest, env, gpu };
  }

  /** Meanwhile the catalogue may still show stock: "High" often fails. */
  #full(): boolean {
    return this.#parts.faults.take("no_capacity") || during(this.#parts, "sold_out");
  }

  make(request: PodRequest): Pod {
    this.#parts.ledger.calls.push(`create ${request.name}`);
    return this.#pods.make(request);
  }

  find(id: unknown): Pod | undefined {
    return [...this.#pods.all.values()].find((pod) => pod.id === id && pod.exitedAtMs === null);
  }

  /** False if no such pod exists. */
  async terminate(id: string, caller: Caller): Promise<boolean> {
    this.#parts.ledger.calls.push(`terminate ${id}`);
    const pod = this.find(id);
    if (!pod) return false;
    if (this.#parts.faults.take("delete_ignored")) return true;
    // The answer must be sent before the machine that requested it ends.
    const ending = () => this.#pods.end(pod, caller.kind === "pod" ? "self" : "terminated");
    if (caller.kind === "pod") setTimeout(() => void ending(), 50);
    else await ending();
    return true;
  }

  async stop(pod: Pod): Promise<void> {
    this.#parts.ledger.calls.push(`stop ${pod.id}`);
    await this.#pods.stop(pod);
  }

  account(): Record<string, unknown> {
    const spend = this.#parts.ledger.alive().reduce((sum, line) => sum + line.usdPerHour, 0);
    return {
      id: "user_sim",
      email: "someone@example.com",
      clientBalance: this.balanceUsd,
      currentSpendPerHr: spend,
      spendLimit: 80,
      minBalance: 0,
      underBalance: this.balanceUsd <= 0,
      pubKey: this.pubKey,
      pods: this.#pods.seen().map((pod) => this.shown(pod)),
      podTemplates: [],
      networkVolumes: [],
    };
  }

  gpuTypes(filter: Record<string, unknown>, wanted: Record<string, unknown>): Record<string, unknown>[] {
    const ids = filter["id"] === undefined ? filter["ids"] : [filter["id"]];
    return this.#pods.gpus
      .filter(({ id }) => !Array.isArray(ids) || ids.includes(id))
      .map((gpu) => {
        const count = typeof wanted["gpuCount"] === "number" ? wanted["gpuCount"] : null;
        const stock = this.#stock(gpu, wanted["dataCenterId"], count ?? 1);
        const usual = wanted["secureCloud"] === false ? gpu.communityPrice : gpu.securePrice;
        return {
          id: gpu.id,
          displayName: gpu.displayName,
          manufacturer: "Nvidia",
          memoryInGb: gpu.memoryInGb,
          secureCloud: true,
          communityCloud: true,
          maxGpuCount: gpu.maxGpuCount,
          securePrice: this.#spoil(gpu.securePrice),
          communityPrice: this.#spoil(gpu.communityPrice),
          secureSpotPrice: this.#spoil(gpu.securePrice / 2),
          communitySpotPrice: this.#spoil(gpu.communityPrice / 2),
          lowestPrice: {
            uninterruptablePrice: stock === null || count === null ? null : this.#spoil(usual),
            minimumBidPrice: stock === null || count === null ? null : this.#spoil(usual / 2),
            stockStatus: stock,
            availableGpuCounts: stock === null ? [] : [1, 2, 4, 8],
            minVcpu: 8,
            minMemory: 60,
          },
        };
      });
  }

  #stock(gpu: PodGpu, dataCenterId: unknown, count: number): PodGpu["stock"] {
    if (during(this.#parts, "sold_out")) return null;
    const here = typeof dataCenterId !== "string" || gpu.dataCenters.includes(dataCenterId);
    return here && count <= gpu.maxGpuCount ? gpu.stock : null;
  }

  stockOf(dataCenterId: string): Record<string, unknown>[] {
    return this.#pods.gpus
      .filter((gpu) => gpu.dataCenters.includes(dataCenterId))
      .map((gpu) => ({
        gpuTypeId: gpu.id,
        displayName: gpu.displayName,
        stockStatus: gpu.stock,
        available: gpu.stock !== null,
      }));
  }

  /** The second API's catalogue. */
  catalogue(count: number): Record<string, unknown>[] {
    return this.#pods.gpus.map((gpu) => ({
      id: gpu.id,
      name: gpu.displayName,
      memory: gpu.memoryInGb,
      secure: true,
      community: true,
      maxCount: {
        secure: gpu.maxGpuCount,
        community: gpu.maxGpuCount,
      },
      price: {
        secure: this.#spoil(gpu.securePrice),
        community: this.#spoil(gpu.communityPrice),
      },
      availability: this.#stock(gpu, null, count)?.toUpperCase() ?? "NONE",
      dataCenters: DATA_CENTERS.map((id) => ({
        id,
        availability: this.#stock(gpu, id, count)?.toUpperCase() ?? "NONE",
      })),
    }));
  }

  #spoil(price: number): unknown {
    const { faults } = this.#parts;
    if (faults.take("price_nan")) return NO_NUMBER;
    if (faults.take("price_null")) return null;
    return faults.take("price_text") ? "about a dollar" : price;
  }

  #looks(pod: Pod) {
    return {
      nowMs: this.#parts.clock.now(),
      price: this.#spoil(this.#pods.price(pod)),
      hostile: this.#parts.faults.get("hostile_strings") !== null,
    };
  }

  shown(pod: Pod): Record<string, unknown> {
    return podOfGraphql(pod, this.#looks(pod));
  }

  shownByRest(pod: Pod): Record<string, unknown> {
    return podOfRest(pod, this.#looks(pod));
  }

  /** The answer, with malformed prices instead of the marked ones. */
  spoilt(reply: Reply): Reply {
    const text = JSON.stringify(reply.json).replaceAll(`"${NO_NUMBER}"`, "1e999");
    return { ...reply, text, headers: { "content-type": "application/json", ...reply.headers } };
  }
}
