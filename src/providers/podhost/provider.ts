// The provider `podhost`: containers with GPUs, rented by the second. docs/reference/providers/podhost.md describes it
// for people.
//
// D1. A pod is gone when a complete list and a lookup by its id, twice and apart, do not have it; of which API: A5 of
//     api-choice.ts. A pod that is younger than the list lag requires more: sightings.ts.
// D2. A create call is sent once, and once more only after "too many requests". Before that, and before svc says that nothing was
//     ordered, a complete list is searched for a pod of its name: a pod may have been made in spite of the refusal. If the list shows
//     the pod of an earlier refused order, the outcome is unknown. `outcomeOfCreate` interprets other failures.
// D3. When GraphQL refuses a create call because it is not served any more, REST first looks for a pod with that name,
//     and then creates it.
// D4. A pod with an unusable id is found by its name, ended by the provider's raw id, and used for nothing else.

import { cudaOfImage, cudaText } from "../../domain/cuda.ts";
import { memoryKey, ODD_ID } from "../../domain/endpoint.ts";
import { readGpuName } from "../../domain/gpu-name.ts";
import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { gpuIdsSold, gpuWishOf, lessMemory, nearGpus, neverSold, type SoldGpu, unknownName } from "../gpu-names.ts";
import { faultOf } from "../boot-words.ts";
import { infoOf } from "../descriptors.ts";
import type { MachineAccess } from "../host.ts";
import { accountText, beforeSending, outcomeOfCreate } from "../http.ts";
import {
  inPart,
  usefulness,
  withoutOthers,
  type Account,
  type Certainty,
  type ForeignMachine,
  type MachineHandle,
  type MachineStatus,
  type Offer,
  type Order,
  type Provider,
} from "../provider.ts";
import { Recent } from "../recent.ts";
import type { RemoteOptions } from "../remote.ts";
import { Sightings } from "../sightings.ts";
import { checkSshUser, enteredBySetting } from "../ssh-user.ts";
import { ApiChoice, type ApiMode } from "./api-choice.ts";
import { BootLog } from "./boot-log.ts";
import { GraphqlApi } from "./graphql.ts";
import { checkSpec, credentialRegion, noSuchPlace, offerOf, placesOf, whyNoOffer } from "./offers.ts";
import { RestApi } from "./rest.ts";
import { SharedList } from "./shared-list.ts";
import { guardTimes } from "../guard.ts";
import { podEnvironment, selfEndScript, startCommand } from "./start-command.ts";
import { statusOf } from "./status.ts";
import { PODHOST, PodTransport, saysRetired, WAIT_MS, waitAfterRefusal } from "./transport.ts";
import type { Cloud, GpuType, Pod, PodApi, PodOrder } from "./wire.ts";

const IMAGE = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404";
/**
 * For cards without code in the default image: PyTorch of CUDA 12.8 dropped the V100, and AMD's need ROCm. As of
 * November 2026.
 */
const OTHER_IMAGES: Readonly<Record<string, string>> = {
  v100: "runpod/pytorch:2.1.0-py3.10-cuda11.8.0-devel-ubuntu22.04",
  mi300x: "runpod/pytorch:2.4.0-py3.10-rocm6.1.0-ubuntu22.04",
};
const DISK_GB = 40;

/** A host with an older driver accepts the order, but its container is refused. */
function cudaFloor(image: string): string | null {
  const cuda = cudaOfImage(image);
  return cuda === null ? null : cudaText(cuda);
}

/** The kinds of GPUs change seldom; the stock is requested each time. */
const CATALOGUE_MS = 10 * 60_000;
/** One list serves every machine that is polled within this time. */
const LIST_AGE_MAX_MS = 2_000;
const LOOKS_APART_MS = 3_000;

/** Total time that an order may wait after refusals with "too many requests". */
const ORDER_WAIT_MS = 20_000;
/** How often an order is sent at most. Each time may make a pod, and no list shows a pod at once. */
const SENDINGS = 2;
/** How long svc remembers an order that was refused: lists lag, and a sweep has ended its pod by then. */
const REFUSED_MS = 10 * 60_000;
/** How often a list is requested that is itself refused with "too many requests". */
const LOOKS = 3;

/** Margins of svc, not measurements: the code relies on no delay of the vendor being longer. */
const CERTAINTY: Certainty = {
  horizonMs: 90_000 + ORDER_WAIT_MS,
  listingLagMs: 120_000,
  emptyLooks: 2,
  lookGapMs: 15_000,
};

export class PodhostProvider implements Provider {
  readonly name = PODHOST;
  readonly info = infoOf("podhost");
  readonly certainty = CERTAINTY;
  readonly #o: RemoteOptions;
  readonly #rest: PodApi;
  readonly #apis: ApiChoice;
  readonly #list: SharedList;
  readonly #sightings: Sightings;
  readonly #bootLog: BootLog;
  /** Orders that made nothing by their refusals and by a list. */
  readonly #refused: Recent;
  #sold: { askedAt: number; gpus: readonly SoldGpu[] } | null = null;
  #accountOf: { secret: string; id: string } | null = null;
  /** When a complete poll first missed a pod. */
  readonly #missedAt = new Map<string, number>();

  constructor(options: RemoteOptions) {
    this.#o = options;
    this.#refused = new Recent(REFUSED_MS, options.now);
    this.#sightings = new Sightings(CERTAINTY.listingLagMs, options.now);
    const transport = new PodTransport(options, (sign) => this.#apis.heard(sign));
    const graphql = new GraphqlApi(transport);
    this.#rest = new RestApi(transport, graphql);
    this.#apis = new ApiChoice({ graphql, rest: this.#rest }, () => this.#mode(), options.now);
    this.#list = new SharedList(this.#apis, options.now, ({ id, name }) =>
      this.#sightings.seen(memoryKey({ id: id ?? ODD_ID, name })),
    );
    // The first API serves no log: the second one is asked for it, whichever of the two is in use.
    this.#bootLog = new BootLog((id, signal) => this.#rest.log(id, signal), options.now);
  }

  check(spec: RunSpec): void {
    checkSpec(spec);
  }

  async listOffers(ofRun: RunSpec, signal: AbortSignal): Promise<Offer[]> {
    checkSpec(ofRun);
    const spec = { ...ofRun, region: ofRun.region ?? credentialRegion(this.#setting("region")) };
    checkSshUser(PODHOST, this.#o.credential().settings);
    const { model, count } = gpuWishOf(PODHOST, spec.gpus);
    const sold = await this.#catalogue(signal);
    const ids = gpuIdsSold(PODHOST, model, sold);
    if (sold !== null && ids.length === 0)
      throw neverSold(PODHOST, spec.gpus, unknownName(nearGpus(PODHOST, model, sold)));
    const places = placesOf(spec, this.#setting("cloud"));
    const offers: Offer[] = [];
    const kinds: GpuType[] = [];
    const reasons: string[] = [];
    for (const place of places) {
      const types = await this.#ask((api) => api.gpuTypes(ids, count, place, signal));
      kinds.push(...types);
      offers.push(...types.flatMap((type) => offerOf(type, spec, place)));
      reasons.push(...types.map((type) => whyNoOffer(type, spec, place)).filter((why) => why !== null));
    }
    if (offers.length === 0) {
      await this.#assertPlace(spec, signal);
      this.#assertSold(spec, kinds);
    }
    return withoutOthers(
      offers.toSorted((a, b) => (a.priceMicro ?? 0) - (b.priceMicro ?? 0)),
      reasons,
    );
  }

  /**
   * Throws if the place does not exist at all: it would look like one without capacity, and be requested again and
   * again.
   */
  async #assertPlace({ region }: Pick<RunSpec, "region">, signal: AbortSignal): Promise<void> {
    if (region === undefined) return;
    const known = await this.#ask((api) => api.placeNames(signal)).catch(() => []);
    signal.throwIfAborted();
    const refusal = noSuchPlace(region, known);
    if (refusal !== null) throw refusal;
  }

  /** Throws `gpus_unsupported` if no machine has that many, or that much memory: waiting would change nothing. */
  #assertSold(spec: RunSpec, kinds: readonly GpuType[]): void {
    const { count } = gpuWishOf(PODHOST, spec.gpus);
    const most = Math.max(...kinds.map(({ countMax }) => countMax ?? Infinity));
    if (kinds.length > 0 && most < count)
      throw neverSold(PODHOST, spec.gpus, `there are at most ${most} of them on one machine`);
    const memory = Math.max(...kinds.map(({ memoryGb }) => memoryGb ?? Infinity));
    if (kinds.length > 0 && memory < (spec.min_vram_gb ?? 0))
      throw lessMemory(PODHOST, spec.gpus, `they have at most ${memory} GB`);
  }

  /** Null if it cannot be read: the table of names replaces it. */
  async #catalogue(signal: AbortSignal): Promise<readonly SoldGpu[] | null> {
    const now = this.#o.now();
    if (this.#sold !== null && now >= this.#sold.askedAt && now - this.#sold.askedAt < CATALOGUE_MS)
      return this.#sold.gpus;
    const gpus = await this.#ask((api) => api.gpuNames(signal)).catch((e: unknown) => {
      // The next call reports a refused key.
      if (!(e instanceof SvcError)) throw e;
      return [];
    });
    if (gpus.length === 0) return null;
    this.#sold = { askedAt: now, gpus };
    return gpus;
  }

  async create(offer: Offer, order: Order): Promise<MachineHandle> {
    const { api, input } = await this.#prepare(offer, order);
    let pod: Pod;
    try {
      pod = await this.#order(api, input);
    } catch (e) {
      throw outcomeOfCreate(e, PODHOST, `create the pod ${order.name}`);
    } finally {
      this.#list.forget();
    }
    const handle = this.#handle(pod, order.name, this.#o.now());
    // The cap is compared with the billed price: if the answer lacks it, another poll may show it.
    if (handle.priceMicro === null && handle.id !== ODD_ID) {
      const again = await api.get(handle.id, AbortSignal.timeout(10_000)).catch(() => null);
      handle.priceMicro = again?.priceMicro ?? null;
      // What was offered for nothing may cost nothing.
      if (offer.priceMicro === 0) handle.priceMicro ??= 0;
    }
    return handle;
  }

  /** D2. Sent again only if it was refused before it was carried out; always under the same name. */
  async #order(first: PodApi, input: PodOrder): Promise<Pod> {
    const until = this.#o.now() + ORDER_WAIT_MS;
    for (let api = first, sent = 1; ;) {
      try {
        const pod = await api.create(input);
        this.#apis.shown(api, pod);
        return pod;
      } catch (e) {
        const wait = waitAfterRefusal(e);
        if (wait !== null) {
          const isLast = sent++ >= SENDINGS || this.#o.now() + wait > until;
          // Even the last list comes after a moment, in which a pod begins to be listed.
          await this.#o.pause(isLast ? WAIT_MS : wait);
          const pod = await this.#madeAnyway(api, input.name, until);
          if (pod !== null) return pod;
          if (isLast || this.#o.now() > until) {
            this.#refused.add(input.name);
            throw e;
          }
        } else if (saysRetired(e) && api !== this.#rest) {
          const instead = await this.#apis.insteadOfGraphql(input.name);
          if (instead === null) throw e;
          api = instead;
        } else throw e;
      }
    }
  }

  /** D2. Null if a complete list has no pod of that name. Throws, as for a lost answer, if that is unknown or there are several. */
  async #madeAnyway(api: PodApi, name: string, until: number): Promise<Pod | null> {
    for (let look = 1; ; look++) {
      try {
        const { rows, missing } = await api.list("look");
        const pods = rows.filter((pod) => pod.name === name);
        if (pods[0] !== undefined && pods.length === 1) return pods[0];
        const earlier = rows.find((pod) => !pod.deleted && pod.name !== name && this.#refused.has(pod.name));
        if (missing === null && pods.length === 0 && earlier === undefined) return null;
        throw missing ?? unexpectedPods(name, earlier);
      } catch (e) {
        if (!(e instanceof SvcError)) throw e;
        const listWait = waitAfterRefusal(e);
        // An error of its own: that its list was refused says nothing about the order.
        if (listWait === null || look >= LOOKS || this.#o.now() + listWait > until) throw unclearRefusal(e);
        await this.#o.pause(listWait);
      }
    }
  }

  async inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus> {
    const look = await this.#look(handle, signal, this.#o.now() - LIST_AGE_MAX_MS);
    if (look.pod) return this.#judge(look.pod, signal);
    const key = memoryKey(handle);
    // The list's time, not this call's: machines that vanish together then share the second list, too.
    const missedAt = this.#missedAt.get(key) ?? look.askedAt;
    this.#missedAt.set(key, missedAt);
    if (look.askedAt < missedAt + LOOKS_APART_MS) {
      const wait = missedAt + LOOKS_APART_MS - this.#o.now();
      await this.#o.pause(Math.min(Math.max(0, wait), LOOKS_APART_MS), signal);
      const again = await this.#look(handle, signal, missedAt + LOOKS_APART_MS);
      if (again.pod) return this.#judge(again.pod, signal);
    }
    this.#missedAt.delete(key);
    const createdAt = Date.parse(handle.extra?.["createdAt"] ?? "");
    const doubt = this.#sightings.doubt(key, Number.isFinite(createdAt) ? createdAt : null, handle);
    return doubt === null ? { phase: "gone" } : { phase: "starting", why: doubt };
  }

  unreachable(handle: MachineHandle): void {
    this.#sightings.silent(memoryKey(handle));
  }

  async terminate(handle: MachineHandle, signal: AbortSignal): Promise<void> {
    const key = memoryKey(handle);
    // Once a list has shown it, its absence from one is significant.
    if (!this.#sightings.wasSeen(key))
      await this.#list.since(this.#o.now() - LIST_AGE_MAX_MS, signal).catch(() => null);
    signal.throwIfAborted();
    const ids = handle.id === ODD_ID ? await this.#oddIds(handle.name, signal) : [handle.id];
    try {
      for (const id of ids)
        await this.#sightings.endingBy(key, () => this.#apis.end((api) => api.terminate(id, signal)));
    } finally {
      this.#list.forget();
    }
  }

  async listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]> {
    const { rows, missing } = await this.#list.proven(signal);
    const ours = rows
      .filter((pod) => !pod.deleted && pod.name.startsWith(prefix))
      .toSorted((a, b) => usefulness(statusOf(a)) - usefulness(statusOf(b)));
    // A pod that no call can name must not hide the others.
    const named = ours.filter((pod) => usableId(pod) !== null);
    const owned = named.map((pod) => this.#handle(pod, pod.name, this.#o.now()));
    const nameless = ours.find((pod) => usableId(pod) === null);
    const short = nameless === undefined ? missing : withoutId(nameless.name);
    if (short !== null) throw inPart(short, owned, "anywhere");
    return owned;
  }

  async listForeign(prefix: string, signal: AbortSignal): Promise<ForeignMachine[]> {
    const { rows, missing } = await this.#list.proven(signal);
    if (missing !== null) throw missing;
    return rows
      .filter((pod) => !pod.deleted && !pod.name.startsWith(prefix))
      .map((pod) => ({ id: pod.id ?? "(unreadable)", name: pod.name === "" ? null : pod.name }));
  }

  account(signal: AbortSignal): Promise<Account> {
    return this.#ask((api) => api.account(signal));
  }

  async accountId(signal: AbortSignal): Promise<string> {
    const { secret } = this.#o.credential();
    if (this.#accountOf?.secret === secret) return this.#accountOf.id;
    const id = accountText(await this.#ask((api) => api.accountId(signal)), secret);
    this.#accountOf = { secret, id };
    return id;
  }

  selfEnd(): string {
    return selfEndScript(this.#baseUrl(), this.#restOnly());
  }

  /** Called for running machines even without a credential: then the setting is unknown, and both APIs may be tried. */
  #restOnly(): boolean {
    try {
      return this.#apis.onlyRest();
    } catch {
      return false;
    }
  }

  access(handle: MachineHandle): MachineAccess {
    return this.#o.access(handle);
  }

  async #oddIds(name: string, signal: AbortSignal): Promise<string[]> {
    const { rows, missing } = await this.#list.proven(signal);
    const ids = rows.flatMap((pod) => (pod.name === name && pod.oddId !== null && !pod.deleted ? [pod.oddId] : []));
    if (ids.length === 0 && missing !== null) throw missing;
    return ids;
  }

  /** Everything that can fail before the request is sent. */
  async #prepare(offer: Offer, { name, spec, limit }: Order): Promise<{ api: PodApi; input: PodOrder }> {
    const extra = offer.extra ?? {};
    const publicKey = await beforeSending(this.#o.publicKey());
    const image = spec.image ?? OTHER_IMAGES[readGpuName(extra["gpuTypeId"] ?? "").card] ?? IMAGE;
    const input: PodOrder = {
      name,
      gpuTypeId: extra["gpuTypeId"] ?? "",
      gpuCount: Number(extra["gpuCount"] ?? 1),
      cloud: (extra["cloud"] ?? "SECURE") as Cloud,
      dataCenterId: extra["dataCenterId"] ?? null,
      countryCode: extra["countryCode"] ?? null,
      image,
      minCudaVersion: cudaFloor(image),
      diskGb: spec.disk_gb ?? DISK_GB,
      args: startCommand({
        name,
        ...guardTimes(spec),
        selfEnd: this.selfEnd(),
        limit: limit ?? null,
      }),
      env: podEnvironment(name, publicKey.trim()),
      globalNetwork: this.#setting("network") === "global",
    };
    return { api: await this.#apis.forOrders(), input };
  }

  async #judge(pod: Pod, signal: AbortSignal): Promise<MachineStatus> {
    const status = this.#status(pod);
    if (status.phase === "starting") {
      const verdict = await this.#bootLog.verdict(pod, signal);
      if (verdict === null) return status;
      const { priceMicro } = pod;
      return { phase: "broken", why: `it cannot start: ${verdict.why}`, priceMicro, ...faultOf(verdict) };
    }
    if (pod.id !== null) this.#bootLog.over(pod.id);
    return status;
  }

  #status(pod: Pod): MachineStatus {
    if (pod.deleted) return { phase: "gone", why: "the provider says that it was ended" };
    const status = enteredBySetting(statusOf(pod), () => this.#o.credential().settings);
    if (status.phase === "ready" && this.#setting("network") === "global")
      status.privateAddress ??= `${pod.id}.runpod.internal`;
    return status;
  }

  /**
   * Looks in the list, which serves all machines, then by id if the list does not have the pod. A result without a pod is one
   * complete poll.
   */
  async #look(
    handle: MachineHandle,
    signal: AbortSignal,
    notBefore: number,
  ): Promise<{ pod: Pod | null; askedAt: number }> {
    const list = await this.#list.since(notBefore, signal);
    const inList = pick(list.rows, handle);
    const byId = () => (handle.id === ODD_ID ? null : this.#ask((api) => api.get(handle.id, signal)));
    const pod = inList ?? (await byId()) ?? null;
    if (pod === null || pod.deleted) {
      const { rows, missing } = await this.#list.inBoth(list, signal);
      const other = pick(rows, handle) ?? null;
      if (other !== null && !other.deleted) return { pod: this.#found(other, handle), askedAt: list.askedAt };
      // What the API in use says is a proof of its own only if no other one is served.
      if (missing !== null && (pod === null || list.half)) throw missing;
    }
    return { pod: pod && this.#found(pod, handle), askedAt: list.askedAt };
  }

  #found(pod: Pod, handle: MachineHandle): Pod {
    this.#missedAt.delete(memoryKey(handle));
    this.#sightings.seen(memoryKey(handle));
    return pod;
  }

  /** Only for idempotent calls. */
  #ask<T>(use: (api: PodApi) => Promise<T>): Promise<T> {
    return this.#apis.ask(use);
  }

  #mode(): ApiMode {
    const api = this.#setting("api") ?? "auto";
    if (api !== "graphql" && api !== "rest" && api !== "auto")
      throw new SvcError("credential_missing", { provider: PODHOST, missing: "api must be graphql, rest or auto" });
    return api;
  }

  #setting(name: string): string | undefined {
    const value = this.#o.credential().settings[name];
    return value === "" ? undefined : value;
  }

  #baseUrl(): string {
    return this.#o.baseUrl.replace(/\/+$/, "").replace(/\/graphql$/, "");
  }

  /** @param createdAt when the pod was made, or found, by this computer's clock: it is compared with that clock */
  #handle(pod: Pod, name: string, createdAt: number): MachineHandle {
    const id = usableId(pod);
    if (id === null) throw withoutId(name);
    return {
      v: 1,
      provider: PODHOST,
      id,
      name,
      address: pod.ssh?.host ?? null,
      priceMicro: pod.priceMicro,
      ...(pod.ssh === null ? {} : { ssh: [pod.ssh] }),
      extra: {
        createdAt: new Date(createdAt).toISOString(),
        ...(pod.machineId === null ? {} : { machineId: pod.machineId }),
      },
    };
  }
}

/** The id of a handle for the pod; null if no call can name it. */
const usableId = ({ id, oddId }: Pod): string | null => id ?? (oddId === null ? null : ODD_ID);

const failed = (why: string): SvcError => new SvcError("provider_error", { provider: PODHOST, why });
const unexpectedPods = (name: string, earlier: Pod | undefined): SvcError =>
  failed(earlier ? `it made ${earlier.name} in spite of such a refusal` : `there are several pods named ${name}`);
const unclearRefusal = ({ message }: SvcError): SvcError =>
  failed(`it refused the order with "too many requests", and may have made the pod in spite of that: ${message}`);
const withoutId = (name: string): SvcError =>
  failed(`the pod ${name} has an id that cannot be one; end it in the provider's console`);

/** The pod of this handle. A pod whose id cannot be read counts if it has the machine's name. */
function pick(pods: readonly Pod[], handle: MachineHandle): Pod | undefined {
  return pods.find((pod) => pod.id === handle.id) ?? pods.find((pod) => pod.id === null && pod.name === handle.name);
}
