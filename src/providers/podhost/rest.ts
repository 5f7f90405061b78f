// The pod host's second API, which stays when the first one is retired. Errors are problem documents with a status of
// their own.

import { SvcError } from "../../errors/index.ts";
import type { HttpAnswer, HttpRequest } from "../http.ts";
import type { SoldGpu } from "../gpu-names.ts";
import { readList, type List } from "../paging.ts";
import type { Account } from "../provider.ts";
import { DAMAGED, PODHOST, refusalOf, saysNothing, wordsOf, type PodTransport, type Purpose } from "./transport.ts";
import {
  field,
  gpuTypeOfRest,
  podOfRest,
  readablePods,
  rowKey,
  soldGpuOf,
  type GpuType,
  type Place,
  type Pod,
  type PodApi,
  type PodOrder,
} from "./wire.ts";

/** A log continues as long as its pod runs: the bytes within this time count. */
const LOG_MS = 4_000;
/**
 * Statuses that, with a clear message, mean that nothing was made. A conflict without such a message may be with the
 * pod that was just made.
 */
const REFUSALS = new Set([400, 404, 409, 410, 422]);
/** A "not found" about one of these made nothing. The pod is not among them: a pod that was not found may have just been made. */
const NO_SUCH_PART = /\b(gpu|template|registry|data ?cent(er|re)|volume|image)\b/i;

export class RestApi implements PodApi {
  readonly #transport: PodTransport;
  readonly #otherCatalogue: Pick<PodApi, "gpuTypes" | "gpuNames" | "placeNames">;

  /** @param otherCatalogue used because this API has no catalogue of its own; it accepts every key. */
  constructor(transport: PodTransport, otherCatalogue: Pick<PodApi, "gpuTypes" | "gpuNames" | "placeNames">) {
    this.#transport = transport;
    this.#otherCatalogue = otherCatalogue;
  }

  async gpuTypes(ids: readonly string[], count: number, place: Place, signal: AbortSignal): Promise<GpuType[]> {
    const path = "/v2/catalog/gpus";
    const query = {
      include: "AVAILABILITY",
      product: "POD",
      count,
      cloud: place.cloud,
      ...(place.countryCode === null ? {} : { countryCodes: place.countryCode }),
    };
    const answer = await this.#transport.call({ method: "GET", path, query, signal }, "read");
    if (answer.status === 404 || answer.status === 405)
      return this.#otherCatalogue
        .gpuTypes(ids, count, place, signal)
        .catch(() => Promise.reject(this.#refusal(answer)));
    // An offer on a readable page counts. Only `gpuNames` proves that a GPU does not exist.
    const { rows } = await this.#read({
      name: "gpus",
      path,
      query,
      first: answer,
      purpose: "read",
      key: keyOfGpu,
      signal,
    });
    return rows
      .map((raw) => gpuTypeOfRest(raw, place, count))
      .filter((type) => type !== null)
      .filter((type) => ids.includes(type.id))
      .toSorted((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
  }

  async gpuNames(signal: AbortSignal): Promise<SoldGpu[]> {
    const path = "/v2/catalog/gpus";
    const answer = await this.#transport.call({ method: "GET", path, signal }, "read");
    if (answer.status === 404 || answer.status === 405) return this.#otherCatalogue.gpuNames(signal);
    const list = await this.#read({ name: "gpus", path, first: answer, purpose: "read", key: keyOfGpu, signal });
    if (list.missing !== null) throw list.missing;
    return list.rows.flatMap(soldGpuOf);
  }

  /** It has no list of places: the places in its catalogue are those with some GPU, perhaps not all. */
  placeNames(signal: AbortSignal): Promise<string[]> {
    return this.#otherCatalogue.placeNames(signal);
  }

  async create(order: PodOrder): Promise<Pod> {
    const json = {
      name: order.name,
      image: order.image,
      args: order.args,
      disk: order.diskGb,
      ports: ["22/tcp"],
      env: order.env,
      startSsh: true,
      cloud: order.cloud,
      ...(order.dataCenterId === null ? {} : { dataCenterIds: [order.dataCenterId] }),
      ...(order.globalNetwork ? { globalNetworking: true } : {}),
      gpu: {
        id: order.gpuTypeId,
        count: order.gpuCount,
        ...(order.minCudaVersion === null ? {} : { minCudaVersion: order.minCudaVersion }),
      },
    };
    const answer = await this.#transport.call({ method: "POST", path: "/v2/pods", json }, "rent");
    const body = answer.json();
    const pod = podOfRest(body);
    if (answer.status < 300 && pod !== null && (pod.id ?? pod.oddId) !== null) return pod;
    const words = this.#transport.scrub(wordsOf(body).join("; "));
    if (answer.status < 300 || words === "")
      throw this.#transport.error(`status ${answer.status}; the answer names no machine`);
    if (answer.status === 402) throw new SvcError("no_funds", { provider: PODHOST, why: words });
    const refusal = saysNothing(words) ? null : refusalOf(words, order.gpuTypeId);
    if (refusal !== null && REFUSALS.has(answer.status)) throw refusal;
    const isAboutOrder = [400, 410, 422].includes(answer.status) || (answer.status === 404 && NO_SUCH_PART.test(words));
    if (isAboutOrder && !saysNothing(words)) throw new SvcError("provider_refused", { provider: PODHOST, why: words });
    throw this.#transport.error(`status ${answer.status}: ${words}`);
  }

  async get(id: string, signal: AbortSignal): Promise<Pod | null | undefined> {
    const answer = await this.#transport.call({ method: "GET", path: podPath(id), signal }, "read");
    if (answer.status === 404) return saysSo(answer) ? null : undefined;
    if (answer.status >= 300) throw this.#refusal(answer);
    const pod = podOfRest(answer.json());
    return pod?.id === id ? pod : undefined;
  }

  async log(id: string, signal: AbortSignal): Promise<string | null> {
    const path = `${podPath(id)}/logs`;
    const headers = { accept: "text/plain, application/json" };
    const answer = await this.#transport.call(
      { method: "GET", path, headers, signal, timeoutMs: LOG_MS, partly: true },
      "log",
    );
    return answer.status < 300 ? answer.text : null;
  }

  async list(purpose: "read" | "look" = "read"): Promise<List<Pod>> {
    const key = rowKey(podOfRest);
    const list = await this.#read({ name: "pods", path: "/v2/pods", purpose, key, provesAbsence: true });
    return readablePods(list, podOfRest, () => this.#transport.error(DAMAGED));
  }

  async terminate(id: string, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#transport.call({ method: "DELETE", path: podPath(id), signal }, "release");
    if (answer.status >= 300 && answer.status !== 404) throw this.#refusal(answer);
    return answer.status < 300;
  }

  /** This API reports nothing about the account; svc can only learn that the key opens its list of pods. */
  async account(signal: AbortSignal): Promise<Account> {
    this.#rows(await this.#transport.call({ method: "GET", path: "/v2/pods", signal }, "account"), "pods");
    return { name: "account of the key", balanceUsd: null, warnings: [] };
  }

  accountId(): Promise<null> {
    return Promise.resolve(null);
  }

  #rows(answer: HttpAnswer, name: string): unknown[] {
    if (answer.status >= 300) throw this.#refusal(answer);
    const body = answer.json();
    const list = Array.isArray(body) ? body : field(body, name);
    if (!Array.isArray(list)) throw this.#transport.error(`its list of ${name} is missing from the answer`);
    return list;
  }

  /** @param first the answer with the first page, if it is already known */
  #read(list: {
    name: "pods" | "gpus";
    path: string;
    query?: HttpRequest["query"];
    first?: HttpAnswer;
    purpose: Purpose;
    key: (raw: unknown) => string;
    provesAbsence?: boolean;
    signal?: AbortSignal;
  }): Promise<List<unknown>> {
    const { name, path, purpose, key, signal } = list;
    let first = list.first;
    let answer: HttpAnswer;
    return readList({
      provider: PODHOST,
      what: `list of ${name}`,
      path,
      content: [name],
      key,
      provesAbsence: list.provesAbsence ?? false,
      now: this.#transport.now,
      ask: async (page) => {
        const query = { ...list.query, ...page };
        answer = first ?? (await this.#transport.call({ method: "GET", path, query, signal }, purpose));
        first = undefined;
        return { status: answer.status, body: answer.json(), headers: answer.headers };
      },
      rows: () => this.#rows(answer, name),
    });
  }

  #refusal(answer: HttpAnswer): SvcError {
    const words = wordsOf(answer.json()).join("; ");
    return this.#transport.error(`status ${answer.status}${words === "" ? "" : `: ${words}`}`);
  }
}

const keyOfGpu = (raw: unknown): string => JSON.stringify(field(raw, "id") ?? raw);
const podPath = (id: string): string => `/v2/pods/${encodeURIComponent(id)}`;
/** The API itself said that the pod does not exist; a page from a proxy does not count. */
const saysSo = (answer: HttpAnswer): boolean => wordsOf(answer.json()).length > 0;
