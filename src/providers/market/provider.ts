// The provider `market`: machines of a marketplace with many hosts, each with its own price, that come and go.
// docs/reference/providers/market.md.
//
// M1. One rental per offer and process: two may both be accepted, and one machine would then not work.
// M2. A refused create call that names a contract anyway has made a machine: it is ended. A machine with an unreadable
//     id is looked up by its name.
// M3. "Gone" requires two polls that agree: a complete listing, and three seconds later the machine itself (or another
//     listing). A machine that is younger than the listing lag requires more: sightings.ts.
// M4. The machine receives no secret: the provider puts a key there that opens only this machine.

import { idOf, memoryKey, ODD_ID } from "../../domain/endpoint.ts";
import { priceMicroOf, rentMicroOf } from "../../domain/money.ts";
import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { gpuIdsSold, gpuWishOf, nearGpus, neverSold, unknownName } from "../gpu-names.ts";
import { guardScript, guardTimes } from "../guard.ts";
import { infoOf } from "../descriptors.ts";
import type { MachineAccess } from "../host.ts";
import { accountText, beforeSending, outcomeOfCreate } from "../http.ts";
import type { List } from "../paging.ts";
import {
  inPart,
  usefulness,
  inVain,
  neverReached,
  type Account,
  type ForeignMachine,
  type MachineHandle,
  type MachineStatus,
  type Offer,
  type Order,
  type Provider,
  whyNotOthers,
  withoutOthers,
  type OffersUse,
} from "../provider.ts";
import { RateLimiter } from "../rate-limiter.ts";
import type { RemoteOptions } from "../remote.ts";
import { Sightings } from "../sightings.ts";
import { checkSshUser, enteredBySetting } from "../ssh-user.ts";
import { CREATE_INTERVAL_MS, CREATE_TIMEOUT_MS, CREATE_WAIT_MS, MarketClient, type Listed } from "./client.ts";
import { Recent } from "../recent.ts";
import { glanceAt } from "./glance.ts";
import { JointSearch, type SearchBody } from "./joint-search.ts";
import { createRefused, isClearlyTooOften, refusalOf } from "./refusals.ts";
import { defaultImageFor, diskGbOf, searchBody, soldOffers, wishOf } from "./search.ts";
import { SharedLook } from "./shared-look.ts";
import { selfEndText, startScript } from "./start-script.ts";
import { actualStatus, SHAKY, statusOf } from "./status.ts";
import { numberOf, objectOf, type InstanceRow } from "./wire.ts";

/** A new machine may be missing from listings and polls for this long: a margin of svc, not measured (November 2026). */
const LISTING_LAG_MS = 120_000;
const LOOKS_APART_MS = 3_000;
/** Maximum age of a listing for a machine's state: lower while a run waits for the machine. */
const LIST_AGE_MS = 4_000;
const LIST_AGE_STARTING_MS = 900;
const SEARCH_AGE_MS = 5_000;
/** A plan is repeated until it is whole: searches are six seconds apart. */
const GLANCE_AGE_MS = 15_000;
const NAMES_MS = 3_600_000;
/** A host that worked and shows no sign of life gets this long before the run is given up. */
const SHAKY_MS = 90_000;
/** An offer that was rented or refused recently may still appear in answers. */
const OFFER_AVOIDED_MS = 15_000;
const HOST_AVOIDED_MS = 3_600_000;
/**
 * Delay after a create call was refused as too frequent: longer than the interval, because refusals may postpone the
 * next turn.
 */
const CREATE_PENALTY_MS = 12_000;
/** A refused create call is retried once, if it was refused within that time from the start. */
const CREATE_AGAIN_WITHIN_MS = 30_000;
/** From the start until the last create request may leave. */
const CREATE_SENT_WITHIN_MS = CREATE_AGAIN_WITHIN_MS + CREATE_WAIT_MS + 5_000;
/** How long a newly created machine may delay its creator for its price and its key. */
const SETTLE_MS = 15_000;
const PRICE_TRIES = 3;
const NAME = /^[a-z0-9-]{1,63}$/;
const IMAGE = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,511}$/;

/** This process's memory of a machine. A restart may lose it. */
interface Memory {
  ready: boolean;
  shakySince: number | null;
  endDate: number | null;
}

export class MarketProvider implements Provider {
  readonly name = "market" as const;
  readonly info = infoOf("market");
  readonly certainty = {
    horizonMs: CREATE_SENT_WITHIN_MS + CREATE_TIMEOUT_MS + 60_000,
    listingLagMs: LISTING_LAG_MS,
    emptyLooks: 2,
    lookGapMs: 15_000,
  };

  private readonly options: RemoteOptions;
  private readonly client: MarketClient;
  private readonly listing: SharedLook<List<Listed>>;
  private readonly names: SharedLook<string[]>;
  private readonly joint: JointSearch;
  /** Searching and renting alternate: an offer loses its value seconds after it was seen. */
  private readonly turns: RateLimiter;
  private readonly memories = new Map<string, Memory>();
  private readonly sightings: Sightings;
  /** Offers whose create call has no answer yet. */
  private readonly renting = new Set<string>();
  private readonly offersAvoided: Recent;
  private readonly hostsAvoided: Recent;
  private accountOf: { secret: string; id: string } | null = null;

  constructor(options: RemoteOptions) {
    this.options = options;
    this.client = new MarketClient(options);
    this.listing = new SharedLook(() => this.client.list(), options.now);
    this.names = new SharedLook(() => this.client.gpuNames(), options.now);
    this.joint = new JointSearch({ send: (body) => this.client.search(body), ...options });
    this.turns = new RateLimiter({
      provider: "market",
      minIntervalMs: CREATE_INTERVAL_MS,
      maxWaitMs: 15 * 60_000,
      now: options.now,
      pause: options.pause,
    });
    this.sightings = new Sightings(LISTING_LAG_MS, options.now);
    this.offersAvoided = new Recent(OFFER_AVOIDED_MS, options.now);
    this.hostsAvoided = new Recent(HOST_AVOIDED_MS, options.now);
  }

  check(spec: RunSpec): void {
    wishOf(spec, undefined);
    if (spec.image !== undefined && !IMAGE.test(spec.image)) {
      const message = "must be the name of a container image, such as pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime";
      throw new SvcError(
        "invalid_request",
        { summary: `market cannot start the image ${spec.image}: it ${message}.` },
        { errors: [{ field: "spec.image", message }] },
      );
    }
  }

  async listOffers(spec: RunSpec, signal: AbortSignal, use?: OffersUse): Promise<Offer[]> {
    const { settings } = this.options.credential();
    const asked = wishOf(spec, settings["region"]);
    checkSshUser("market", settings);
    // An unusable key shows here, before anything is ordered.
    await this.options.publicKey();
    const wish = { ...asked, names: await this.namesOf(spec, signal) };
    if (use === undefined) await this.turns.slot(signal);
    const ageMs = use === "glance" ? GLANCE_AGE_MS : SEARCH_AGE_MS;
    const search = (body: SearchBody) => this.joint.find(body, ageMs, signal);
    const whole = soldOffers(search, wish, spec.gpus, signal).then((offers) => this.better(offers));
    if (use !== "glance") return whole;
    return glanceAt(whole, search(searchBody(wish, true)), spec.gpus, this.options.pause);
  }

  private better(offers: Offer[]): Offer[] {
    const free = withoutOthers(
      offers.filter((offer) => !this.isTaken(offer.id)),
      whyNotOthers(offers),
    );
    const better = free.filter((offer) => !this.hostsAvoided.has(offer.extra?.machine_id ?? ""));
    // A host that failed once is better than none.
    return better.length > 0 ? better : free;
  }

  /**
   * The marketplace's own names for the requested GPUs. Throws `gpus_unsupported` if it has none and its list of names
   * can be read.
   */
  private async namesOf(spec: RunSpec, signal: AbortSignal): Promise<readonly string[]> {
    const { model } = gpuWishOf("market", spec.gpus);
    const listed = await this.names.get(NAMES_MS, signal).catch((e: unknown) => {
      if (!(e instanceof SvcError)) throw e;
      return null;
    });
    const sold = listed === null || listed.value.length === 0 ? null : listed.value.map((id) => ({ id }));
    const names = gpuIdsSold("market", model, sold);
    if (sold !== null && names.length === 0)
      throw neverSold("market", spec.gpus, unknownName(nearGpus("market", model, sold)));
    return names.map((name) => name.replaceAll("_", " "));
  }

  async create(offer: Offer, order: Order): Promise<MachineHandle> {
    const { spec, name } = order;
    const calledAt = this.options.now();
    const publicKey = (await beforeSending(this.options.publicKey())).trim();
    const guard = guardScript({
      name,
      ...guardTimes(spec),
      selfEnd: this.selfEnd(name) ?? "",
      limit: order.limit ?? null,
    });
    const body = {
      client_id: "me",
      image: spec.image ?? defaultImageFor(gpuWishOf("market", spec.gpus).model),
      label: name,
      disk: numberOf(offer.extra?.disk_gb) ?? diskGbOf(spec),
      runtype: "ssh_direct",
      env: { SVC_MACHINE: name },
      onstart: startScript({ guard, publicKey }),
      cancel_unavail: true,
      target_state: "running",
      // Its presence makes the machine an interruptible one.
      ...(offer.spot ? { price: Number(offer.extra?.bid_usd) } : {}),
    };
    if (this.isTaken(offer.id))
      throw new SvcError("offer_taken", { provider: "market", offer: offer.id, why: "another run is renting it" });
    const machineId = offer.extra?.machine_id;
    const made = (id: string): MachineHandle => ({
      v: 1,
      provider: "market",
      id,
      name,
      address: null,
      priceMicro: null,
      extra: {
        made_at: String(this.options.now()),
        ...(machineId ? { machine_id: machineId } : {}),
        ...(offer.spot ? { spot: "yes", on_demand_micro: offer.extra?.on_demand_micro ?? "" } : {}),
      },
    });
    const handle = made(await this.rent(offer.id, body, calledAt, made));
    const { id } = handle;
    // From here on the machine exists and costs money: the caller must learn that in any case.
    const soon = AbortSignal.timeout(SETTLE_MS);
    const [price] = await Promise.all([
      this.billedPrice(id, offer.priceMicro, soon),
      this.client.attachKey(id, publicKey, soon).catch(() => undefined),
    ]);
    const diskMicro = numberOf(offer.extra?.disk_micro);
    // The GPU is billed while the machine runs, its disk from its creation.
    return { ...handle, ...price, ...(diskMicro === null ? {} : { billedMicro: diskMicro }) };
  }

  private async rent(
    offerId: string,
    body: Record<string, unknown>,
    calledAt: number,
    made: (id: string) => MachineHandle,
  ): Promise<string> {
    // Read once: the answer is judged by it, and the owner may have removed it by then.
    const secret = this.client.secret();
    this.listing.forget();
    for (let attempt = 1; ; attempt++) {
      let answer;
      this.renting.add(offerId);
      try {
        answer = await this.client.create(offerId, body, { secret, untilMs: calledAt + CREATE_SENT_WITHIN_MS });
      } catch (e) {
        throw outcomeOfCreate(e, "market", `rent offer ${offerId}`);
      } finally {
        this.renting.delete(offerId);
        this.offersAvoided.add(offerId);
        this.listing.forget();
      }
      const said = objectOf(answer);
      const id = idOf(said?.new_contract);
      if (id !== null && said?.success !== false && answer.status >= 200 && answer.status < 300) return id;
      if (said?.new_contract !== undefined && said.new_contract !== null) {
        const error = new SvcError("outcome_unknown", { provider: "market", what: `rent offer ${offerId}` });
        throw id === null ? error : inVain(error, made(id));
      }
      if (isClearlyTooOften(answer, refusalOf(answer))) {
        const waitMs = Math.max(CREATE_PENALTY_MS, answer.retryAfterMs ?? 0);
        this.client.holdCreate(waitMs);
        // Every offer shares this one limit: if it lasts long, another offer would not do better.
        const isSoon = waitMs <= CREATE_WAIT_MS && this.options.now() + waitMs - calledAt < CREATE_AGAIN_WITHIN_MS;
        if (attempt === 1 && isSoon) continue;
        this.offersAvoided.remove(offerId);
      }
      throw createRefused(answer, offerId, secret);
    }
  }

  /**
   * The machine's price with its disk, from its own record. The offer's price replaces it: as an ordinary price while
   * the record is unavailable, until a poll shows the machine's own; only for the cost if the record has no readable
   * price.
   */
  private async billedPrice(
    id: string,
    offered: number | null,
    signal: AbortSignal,
  ): Promise<Pick<MachineHandle, "priceMicro" | "priceOffered">> {
    let unreadable = false;
    for (let attempt = 1; attempt <= PRICE_TRIES; attempt++) {
      try {
        const row = await this.client.get(id, signal);
        if (row === null || row === "unclear") continue;
        this.remember(id, row);
        // What was offered for nothing may cost nothing.
        const priceMicro = offered === 0 ? priceMicroOf(row.dph_total) : rentMicroOf(row.dph_total);
        if (priceMicro !== null) return { priceMicro };
        unreadable = true;
      } catch {
        if (signal.aborted) break;
      }
    }
    return { priceMicro: offered, ...(unreadable ? { priceOffered: true } : {}) };
  }

  async inspect(handle: MachineHandle, signal: AbortSignal): Promise<MachineStatus> {
    const memory = this.memories.get(handle.id);
    const age = memory?.ready === true ? LIST_AGE_MS : LIST_AGE_STARTING_MS;
    const { startedAt, value } = await this.listing.get(age, signal);
    const listed = pick(value.rows, handle);
    if (listed) return this.judge(handle, listed.row);
    if (value.missing !== null) {
      // The machine itself may still be polled; its absence from the listing proves nothing.
      const alone = handle.id === ODD_ID ? null : await this.client.get(handle.id, signal);
      if (alone === null || alone === "unclear") throw value.missing;
      return this.judge(handle, alone);
    }
    const wait = startedAt + LOOKS_APART_MS - this.options.now();
    if (wait > 0) await this.options.pause(Math.min(wait, LOOKS_APART_MS), signal);
    const row = await this.secondLook(handle, signal);
    if (row !== null) return this.judge(handle, row);
    const key = memoryKey(handle);
    const doubt = this.sightings.doubt(key, numberOf(handle.extra?.made_at), handle);
    if (doubt !== null) return { phase: "starting", why: doubt };
    const end = this.memories.get(key)?.endDate ?? null;
    return end !== null && end * 1000 <= this.options.now()
      ? { phase: "gone", why: "its rental had reached its end date" }
      : { phase: "gone" };
  }

  unreachable(handle: MachineHandle): void {
    this.sightings.silent(memoryKey(handle));
  }

  private async secondLook(handle: MachineHandle, signal: AbortSignal): Promise<InstanceRow | null> {
    const row = handle.id === ODD_ID ? "unclear" : await this.client.get(handle.id, signal);
    if (row !== "unclear") return row;
    const { value } = await this.listing.get(0, signal);
    const again = pick(value.rows, handle);
    if (again === undefined && value.missing !== null) throw value.missing;
    return again?.row ?? null;
  }

  private judge(handle: MachineHandle, row: InstanceRow): MachineStatus {
    const memory = this.remember(memoryKey(handle), row);
    if (idOf(row.id) === null) return { phase: "broken", why: "the provider names it by an id that cannot be one" };
    const now = this.options.now();
    const status = statusOf(row, now);
    const worked = memory.ready || (handle.ssh?.length ?? 0) > 0;
    if (status.phase === "ready") memory.ready = true;
    if (status.phase !== "broken" || !SHAKY.has(actualStatus(row))) memory.shakySince = null;
    if (status.phase !== "broken") return enteredBySetting(status, () => this.options.credential().settings);
    if (SHAKY.has(actualStatus(row)) && worked) {
      memory.shakySince = Math.min(memory.shakySince ?? now, now);
      const { why, priceMicro = null } = status;
      if (now - memory.shakySince < SHAKY_MS) return { phase: "starting", why: `${why}; it may come back`, priceMicro };
    }
    // A host whose price rose has nothing wrong with it.
    if (status.preempted) return worked ? status : { ...status, elsewhere: true };
    this.avoidHostOf(handle, row);
    // Before the first login, a container that ended or a host that fell silent is often the host's fault.
    const { elsewhere, ...last } = status;
    const dead = SHAKY.has(actualStatus(row)) || actualStatus(row) === "exited";
    return elsewhere === true || dead ? { ...last, ...neverReached(handle) } : last;
  }

  private remember(id: string, row: InstanceRow): Memory {
    const memory = this.memories.get(id) ?? { ready: false, shakySince: null, endDate: null };
    this.sightings.seen(id);
    memory.endDate = numberOf(row.end_date) ?? memory.endDate;
    this.memories.set(id, memory);
    return memory;
  }

  private avoidHostOf(handle: MachineHandle, row?: InstanceRow): void {
    const host = idOf(row?.machine_id) ?? handle.extra?.machine_id;
    if (host !== undefined) this.hostsAvoided.add(host);
  }

  async terminate(handle: MachineHandle, signal: AbortSignal): Promise<void> {
    if (handle.id === ODD_ID) return this.destroyOdd(handle.name, signal);
    const id = idOf(handle.id);
    if (id === null)
      throw new SvcError("provider_error", { provider: "market", why: "the machine's id cannot be an id" });
    // Ended before it ever came up: probably because of its host.
    if (this.sightings.wasSeen(id) && this.memories.get(id)?.ready !== true && (handle.ssh?.length ?? 0) === 0)
      this.avoidHostOf(handle);
    try {
      await this.sightings.endingBy(id, () => this.client.destroy(id, signal));
    } finally {
      this.listing.forget();
    }
  }

  /** Uses the provider's own identifier, which is used for nothing else. */
  private async destroyOdd(name: string, signal: AbortSignal): Promise<void> {
    const { value } = await this.listing.get(0, signal);
    const key = memoryKey({ id: ODD_ID, name });
    const ids = value.rows.flatMap(({ oddId, label }) => (oddId !== null && label === name ? [oddId] : []));
    if (ids.length === 0 && value.missing !== null) throw value.missing;
    try {
      for (const oddId of ids) await this.sightings.endingBy(key, () => this.client.destroy(oddId, signal));
    } finally {
      this.listing.forget();
    }
  }

  async listOwned(prefix: string, signal: AbortSignal): Promise<MachineHandle[]> {
    const { value } = await this.listing.get(0, signal);
    const now = this.options.now();
    const rows = value.rows.toSorted((a, b) => usefulness(statusOf(a.row, now)) - usefulness(statusOf(b.row, now)));
    const owned = rows.flatMap(({ id, label, row }): MachineHandle[] => {
      if (label === null || !isOurs(label, prefix)) return [];
      this.remember(memoryKey({ id, name: label }), row);
      const machineId = idOf(row.machine_id);
      return [
        {
          v: 1,
          provider: "market",
          id,
          name: label,
          address: null,
          priceMicro: rentMicroOf(row.dph_total),
          // Its creation time is unknown by this computer's clock, but not later than now.
          extra: { made_at: String(this.options.now()), ...(machineId === null ? {} : { machine_id: machineId }) },
        },
      ];
    });
    if (value.missing !== null) throw inPart(value.missing, owned, "anywhere");
    return owned;
  }

  async listForeign(prefix: string, signal: AbortSignal): Promise<ForeignMachine[]> {
    const { value } = await this.listing.get(LIST_AGE_MS, signal);
    if (value.missing !== null) throw value.missing;
    return value.rows
      .filter(({ label }) => label === null || !isOurs(label, prefix))
      .map(({ id, label }) => ({
        id: id === ODD_ID ? "(unreadable)" : id,
        name: label === null || label === "" ? null : label,
      }));
  }

  async account(signal: AbortSignal): Promise<Account> {
    const { name, credit } = await this.client.user(signal);
    const warnings =
      credit === null || credit > 0
        ? []
        : ["the account has no credit left: nothing can be rented, and what runs is stopped"];
    return { name, balanceUsd: credit, warnings };
  }

  async accountId(signal: AbortSignal): Promise<string> {
    const secret = this.client.secret();
    if (this.accountOf?.secret === secret) return this.accountOf.id;
    const id = accountText((await this.client.user(signal)).id, secret);
    this.accountOf = { secret, id };
    return id;
  }

  async attachKey(handle: MachineHandle, signal: AbortSignal): Promise<void> {
    await this.client.attachKey(handle.id, (await this.options.publicKey()).trim(), signal);
  }

  selfEnd(_name: string): string | null {
    return selfEndText(this.options.baseUrl.replace(/\/+$/, ""));
  }

  access(handle: MachineHandle): MachineAccess {
    return this.options.access(handle);
  }

  private isTaken(offerId: string): boolean {
    return this.renting.has(offerId) || this.offersAvoided.has(offerId);
  }
}

/** A machine with an unreadable id may be it, if it has the name. */
const pick = (listed: readonly Listed[], { id, name }: MachineHandle): Listed | undefined =>
  listed.find((each) => each.id === id && id !== ODD_ID) ??
  listed.find((each) => each.id === ODD_ID && each.label === name);

/** A label that begins like ours but that svc could not have chosen belongs to another user. */
const isOurs = (label: string, prefix: string): boolean => label.startsWith(prefix) && NAME.test(label);
