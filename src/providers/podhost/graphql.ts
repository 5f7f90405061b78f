// The pod host's first API. Most of its errors have status 200: their messages identify them.

import { idOf } from "../../domain/endpoint.ts";
import { SvcError } from "../../errors/index.ts";
import type { SoldGpu } from "../gpu-names.ts";
import { readList, type List } from "../paging.ts";
import type { Account } from "../provider.ts";
import {
  DAMAGED,
  isBarePage,
  PODHOST,
  refusalOf,
  saysNothing,
  wordsOf,
  type PodTransport,
  type Purpose,
} from "./transport.ts";
import {
  amount,
  field,
  gpuTypeOfGraphql,
  placeNamesOf,
  podOfGraphql,
  readablePods,
  rowKey,
  soldGpuOf,
  type GpuType,
  type Place,
  type Pod,
  type PodApi,
  type PodOrder,
} from "./wire.ts";

const POD = `id name desiredStatus lastStatusChange costPerHr adjustedCostPerHr machineId runtime { ports { ip isIpPublic privatePort publicPort type } }`;
const GPU_TYPES = `query GpuTypes($filter: GpuTypeFilter, $price: GpuLowestPriceInput) { gpuTypes(input: $filter) { id displayName memoryInGb secureCloud communityCloud securePrice communityPrice maxGpuCount lowestPrice(input: $price) { uninterruptablePrice stockStatus availableGpuCounts } } }`;
const GPU_NAMES = `query GpuNames { gpuTypes { id displayName memoryInGb } }`;
const PLACES = `query Places { dataCenters { id } countryCodes }`;
const CREATE = `mutation Create($input: PodFindAndDeployOnDemandInput!) { podFindAndDeployOnDemand(input: $input) { ${POD} } }`;
const GET = `query Get($input: PodFilter!) { pod(input: $input) { ${POD} } }`;
const LIST = `query List { myself { pods { ${POD} } } }`;
const TERMINATE = `mutation Terminate($input: PodTerminateInput!) { podTerminate(input: $input) }`;
const ACCOUNT = `query Account { myself { id email clientBalance currentSpendPerHr spendLimit minBalance underBalance } }`;

const ACCOUNT_ID = `query AccountId { myself { id } }`;

const RETIRED =
  /\b(graphql|this api|api version)\b.*\b(retired|removed|sunset|shut down|no longer (available|supported|served))\b/i;
const NOT_FOUND = /pod not found/i;
const NO_KEY = "it knows no account for the key";

/** Codes of errors that come before anything is carried out. */
const INVALID = new Set(["GRAPHQL_VALIDATION_FAILED", "GRAPHQL_PARSE_FAILED", "BAD_USER_INPUT", "BAD_REQUEST"]);

interface Reply {
  status: number;
  data: unknown;
  errors: string[];
  /** `extensions.code` of each error. */
  codes: string[];
  headers: Readonly<Record<string, string>>;
  extensions: unknown;
}

const membersOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? { ...value } : {};
/** Members next to the data that concern pages, or missing parts; not the cost of a call. */
const hintsOf = (extensions: unknown): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(membersOf(extensions)).filter(([name]) =>
      /pag|cursor|more|truncat|partial|incomplete|warn/i.test(name),
    ),
  );

export class GraphqlApi implements PodApi {
  readonly #transport: PodTransport;

  constructor(transport: PodTransport) {
    this.#transport = transport;
  }

  async gpuTypes(ids: readonly string[], count: number, place: Place, signal: AbortSignal): Promise<GpuType[]> {
    const price = {
      gpuCount: count,
      secureCloud: place.cloud === "SECURE",
      ...(place.dataCenterId === null ? {} : { dataCenterId: place.dataCenterId }),
      ...(place.countryCode === null ? {} : { countryCode: place.countryCode }),
    };
    const found = await Promise.all(
      ids.map(async (id) => {
        const data = await this.#read(GPU_TYPES, { filter: { id }, price }, signal);
        const types = field(data, "gpuTypes");
        if (!Array.isArray(types)) throw this.#transport.error("its catalogue of GPUs is missing from the answer");
        return types.map((raw) => gpuTypeOfGraphql(raw, place.cloud, count)).filter((type) => type?.id === id);
      }),
    );
    return found.flat().filter((type) => type !== null);
  }

  async gpuNames(signal: AbortSignal): Promise<SoldGpu[]> {
    const types = field(await this.#read(GPU_NAMES, {}, signal), "gpuTypes");
    return Array.isArray(types) ? types.flatMap(soldGpuOf) : [];
  }

  async placeNames(signal: AbortSignal): Promise<string[]> {
    const data = await this.#read(PLACES, {}, signal);
    return [...placeNamesOf(field(data, "dataCenters")), ...placeNamesOf(field(data, "countryCodes"))];
  }

  async create(order: PodOrder): Promise<Pod> {
    const input = {
      name: order.name,
      cloudType: order.cloud,
      gpuTypeId: order.gpuTypeId,
      gpuCount: order.gpuCount,
      imageName: order.image,
      dockerArgs: order.args,
      ports: "22/tcp",
      env: Object.entries(order.env).map(([key, value]) => ({ key, value })),
      containerDiskInGb: order.diskGb,
      volumeInGb: 0,
      supportPublicIp: true,
      startSsh: true,
      ...(order.dataCenterId === null ? {} : { dataCenterId: order.dataCenterId }),
      ...(order.countryCode === null ? {} : { countryCode: order.countryCode }),
      ...(order.minCudaVersion === null ? {} : { minCudaVersion: order.minCudaVersion }),
      ...(order.globalNetwork ? { globalNetwork: true } : {}),
    };
    const reply = await this.#ask(CREATE, { input }, "rent");
    const made = field(reply.data, "podFindAndDeployOnDemand");
    const pod = podOfGraphql(made);
    // A named machine was made, whatever errors the answer also contains.
    if (pod !== null && (pod.id ?? pod.oddId) !== null) return pod;
    const words = reply.errors.join("; ");
    if (made === null || made === undefined) {
      const refusals = reply.errors.map((one) => refusalOf(this.#transport.scrub(one), order.gpuTypeId));
      if (refusals[0] && !refusals.includes(null)) throw refusals[0];
      const isInvalid =
        reply.status === 400 || (reply.codes.length > 0 && reply.codes.every((code) => INVALID.has(code)));
      if (isInvalid && words !== "" && !saysNothing(words))
        throw new SvcError("provider_refused", { provider: PODHOST, why: this.#transport.scrub(words) });
    }
    throw this.#transport.error(words === "" ? "the answer names neither a machine nor an error" : words);
  }

  async get(id: string, signal: AbortSignal): Promise<Pod | null | undefined> {
    const { status, data, errors } = await this.#ask(GET, { input: { podId: id } }, "read", signal);
    if (status !== 200) throw this.#transport.error(`status ${status}: ${errors.join("; ")}`);
    const raw = field(data, "pod");
    // For an unknown pod some deployments answer null, others an error that could mean anything.
    if (errors.length > 0) return undefined;
    if (raw === null) return null;
    const pod = podOfGraphql(raw);
    return pod?.id === id ? pod : undefined;
  }

  /**
   * This list is documented as complete. An answer that hints at more counts as incomplete, and the rest cannot be read
   * here.
   */
  async list(purpose: "read" | "look" = "read"): Promise<List<Pod>> {
    const list = await readList<unknown>({
      provider: PODHOST,
      what: "list of pods",
      path: "/graphql",
      content: ["pods"],
      key: rowKey(podOfGraphql),
      now: this.#transport.now,
      ask: async () => {
        const { data, headers, extensions } = await this.#answer(LIST, {}, purpose);
        return { status: 200, body: { ...membersOf(this.#account(data)), ...hintsOf(extensions) }, headers };
      },
      rows: (myself) => {
        const raw = field(myself, "pods");
        if (!Array.isArray(raw)) throw this.#transport.error("its list of pods is missing from the answer");
        return raw;
      },
    });
    return readablePods(list, podOfGraphql, () => this.#transport.error(DAMAGED));
  }

  async terminate(id: string, signal: AbortSignal): Promise<boolean> {
    const { status, errors } = await this.#ask(TERMINATE, { input: { podId: id } }, "release", signal);
    if (errors.length > 0 && !errors.every((words) => NOT_FOUND.test(words)))
      throw this.#transport.error(errors.join("; "));
    if (status !== 200) throw this.#transport.error(`status ${status}`);
    return errors.length === 0;
  }

  log(): Promise<null> {
    return Promise.resolve(null);
  }

  async account(signal: AbortSignal): Promise<Account> {
    const myself = await this.#myself(ACCOUNT, "account", signal);
    const balance = field(myself, "clientBalance");
    const balanceUsd = typeof balance === "number" && Number.isFinite(balance) ? balance : null;
    const spend = amount(field(myself, "currentSpendPerHr")) ?? 0;
    const limit = amount(field(myself, "spendLimit"));
    const warnings: string[] = [];
    if (balanceUsd !== null && balanceUsd <= 0) warnings.push("The account has no credit left: nothing can be rented.");
    else if (balanceUsd !== null && spend > 0 && balanceUsd < spend)
      warnings.push("The credit lasts for less than an hour of what runs now; at zero all machines are ended.");
    else if (field(myself, "underBalance") === true)
      warnings.push("The credit is below what the provider wants before it rents out a machine.");
    if (limit !== null && limit > 0 && spend >= limit)
      warnings.push(`The account's limit of $${limit} an hour is reached.`);
    const names = [field(myself, "email"), field(myself, "id")].filter((one) => typeof one === "string");
    return { name: this.#transport.scrub(names.find((one) => one !== "") ?? "unnamed account"), balanceUsd, warnings };
  }

  async accountId(signal: AbortSignal): Promise<string | null> {
    return idOf(field(await this.#myself(ACCOUNT_ID, "read", signal), "id"));
  }

  /** The account of the key's owner; a null without an error means that there is none. */
  async #myself(document: string, purpose: Purpose, signal?: AbortSignal): Promise<unknown> {
    return this.#account(await this.#read(document, {}, signal, purpose));
  }

  #account(data: unknown): unknown {
    const myself = field(data, "myself");
    if (myself === null) throw new SvcError("credential_refused", { provider: PODHOST, why: NO_KEY });
    return myself;
  }

  async #read(document: string, variables: object, signal?: AbortSignal, purpose: Purpose = "read"): Promise<unknown> {
    return (await this.#answer(document, variables, purpose, signal)).data;
  }

  async #answer(document: string, variables: object, purpose: Purpose, signal?: AbortSignal): Promise<Reply> {
    const reply = await this.#ask(document, variables, purpose, signal);
    const { status, data, errors } = reply;
    if (errors.length > 0) {
      const refusal = refusalOf(this.#transport.scrub(errors.join("; ")), "");
      throw refusal?.code === "credential_refused" ? refusal : this.#transport.error(errors.join("; "));
    }
    if (status !== 200 || typeof data !== "object" || data === null)
      throw this.#transport.error(`status ${status} without data`);
    return reply;
  }

  async #ask(query: string, variables: object, purpose: Purpose, signal?: AbortSignal): Promise<Reply> {
    const answer = await this.#transport.call(
      { method: "POST", path: "/graphql", json: { query, variables }, signal },
      purpose,
    );
    const { status } = answer;
    const body = answer.json();
    if (status === 410)
      throw this.#transport.retired(
        ["its GraphQL API is not served any more (status 410)", ...wordsOf(body)].join(": "),
      );
    if (isBarePage(answer))
      throw this.#transport.error(`a page came in place of an answer of its GraphQL API (status ${status})`);
    const errors = wordsOf(body);
    if (errors.some((words) => RETIRED.test(this.#transport.scrub(words))))
      throw this.#transport.retired(errors.join("; "));
    if (status !== 200 && status !== 400) throw this.#transport.error(`status ${status}: ${errors.join("; ")}`);
    if (body === undefined) throw this.#transport.error(`status ${status} without an answer`);
    if (field(body, "errors") !== undefined && errors.length === 0 && !isEmptyList(field(body, "errors")))
      throw this.#transport.error("it reports an error without words");
    const { headers } = answer;
    const listed = field(body, "errors");
    const codes = (Array.isArray(listed) ? listed : []).map((one: unknown) => {
      const code = field(field(one, "extensions"), "code");
      return typeof code === "string" ? code : "";
    });
    return { status, data: field(body, "data"), errors, codes, headers, extensions: field(body, "extensions") };
  }
}

const isEmptyList = (value: unknown): boolean => value === null || (Array.isArray(value) && value.length === 0);
