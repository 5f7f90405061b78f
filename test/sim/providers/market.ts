// The simulated market: REST over loopback, according to its documentation and its users.
//
// Faults: of the answers, all of http-server.ts; lost_after_create, error_after_create, error_before_create, slow_create;
// listing_lag (list and get); no_capacity (searches find nothing); offer_taken (in four wordings); delete_ignored,
// delete_errors, delete_lost; price_nan, price_null, price_text (offers); price_higher (percent, of the made machine),
// price_rises (percent, while it runs), price_rises_early (percent, also before), price_moves (percent; a bid may then be too low); sold_out; bad_hosts, busy_hosts and dead_hosts (by machine_id); hostile_strings (ways in, an offer's id); boot_never, boot_fails, container_refused, image_missing; and those of
// machine-faults.ts, where `preempted` is what being outbid looks like and `port_swap` moves both ways in.

import { during } from "./faults.ts";
import { startServer, type Call, type Reply, type Route, type SimServer } from "./http-server.ts";
import { MarketInstances, moved, type Instance, type MarketTimings, type Shut } from "./market-instances.ts";
import { BadList, listPage } from "./market-list.ts";
import { BadSearch, marketOffers, searchOffers, type MarketOffer } from "./market-offers.ts";
import { readOrder } from "./market-order.ts";
import { badGateway, failure, isPublicKey, noSuchInstance, offersReply, taken, tooMany } from "./market-replies.ts";
import { usersOf, type ProviderSim, type SimParts } from "./parts.ts";

export interface MarketOptions extends SimParts {
  port?: number;
  seed?: number;
  timings?: Partial<MarketTimings>;
  /** Keys of the account: every new machine gets them. */
  accountKeys?: readonly string[];
  creditUsd?: number;
  /** Enforces the minimum interval between two calls of one kind. */
  intervals?: boolean;
  /** The effect of renting an offer twice at the same time. */
  doubleRent?: "reject" | "break";
  /** Filters of a search that the market ignores. */
  ignoredFilters?: readonly string[];
  onCall?(line: string): void;
}

const TIMINGS: MarketTimings = {
  acceptedMs: 100,
  loadingMs: 150,
  portsLateMs: 150,
  teardownMs: 100,
  keysForgottenMs: null,
};
/** Minimum seconds between two calls of one kind by one key. */
const INTERVALS_S: Record<string, number> = { create: 4.5, destroy: 3, get: 2, list: 1, search: 6, manage: 1 };

export class MarketSim implements ProviderSim {
  readonly name = "market";
  readonly offers: MarketOffer[];
  readonly instances: MarketInstances;
  readonly accountKeys: { id: number; public_key: string }[];
  creditUsd: number;
  #strangers = 0;
  /** Maximum number of machines on one page of the list. */
  pageSize = 25;
  intervals: boolean;
  doubleRent: "reject" | "break";
  ignoredFilters: Set<string>;
  /** Status of the answer to a wrong key; null alternates between both. */
  authStatus: 401 | 404 | null = null;

  readonly #parts: SimParts;
  readonly #lastCall = new Map<string, number>();
  readonly #renting = new Set<number>();
  readonly #logs = new Map<string, number>();
  #server: SimServer | undefined;
  #port = 0;
  #turn = 0;

  private constructor(options: MarketOptions) {
    this.#parts = options;
    this.offers = marketOffers(options.seed);
    this.accountKeys = (options.accountKeys ?? []).map((key, i) => ({ id: 900 + i, public_key: key }));
    this.creditUsd = options.creditUsd ?? 25;
    this.intervals = options.intervals ?? false;
    this.doubleRent = options.doubleRent ?? "reject";
    this.ignoredFilters = new Set(options.ignoredFilters);
    this.instances = new MarketInstances(options, { ...TIMINGS, ...options.timings }, () => this.#port);
  }

  static async start(options: MarketOptions): Promise<MarketSim> {
    const sim = new MarketSim(options);
    const find = (name: string): Instance | undefined =>
      [...sim.instances.all.values()].find((i) => i.machine?.name === name);
    const server = await startServer({
      parts: options,
      port: options.port ?? 0,
      routes: sim.#routes(),
      rateLimited: (_call, nth) => tooMany(nth),
      badJson: () => failure(400, "invalid_args", "could not parse the body"),
      notFound: () => ({ status: 404, text: "404: Not Found" }),
      vanish: async (name) => {
        const instance = find(name);
        if (instance) await sim.instances.remove(instance, "vanished");
      },
      preempt: async (name) => {
        const instance = find(name);
        if (instance) await sim.instances.outbid(instance);
      },
      ...(options.onCall && { onCall: options.onCall }),
    });
    sim.#server = server;
    sim.#port = server.port;
    return sim;
  }

  get url(): string {
    return this.#server?.url ?? "";
  }

  set shut(way: Shut) {
    this.instances.shut = way;
  }

  settings(): { env: Record<string, string>; credentials: Record<string, unknown> } {
    return {
      env: { SVC_MARKET_URL: this.url, MARKET_API_KEY: this.#parts.apiKey },
      credentials: { providers: { market: { api_key: this.#parts.apiKey, ...usersOf(this.#parts.fleet) } } },
    };
  }

  /** A foreign machine on the account. */
  addForeign(label: string | null): number {
    const offer = this.offers.find((one) => one.rentable);
    if (!offer) throw new Error("the simulated market is sold out");
    const id = 11_000_000 + (this.#strangers += 1);
    const { clock, ledger } = this.#parts;
    const order = {
      image: "nvidia/cuda:12.8.1-base-ubuntu22.04",
      label: label ?? "",
      diskGb: 20,
      runtype: "ssh_direct",
      env: {},
      onstart: "",
      bid: null,
      cancelUnavailable: true,
      stopped: true,
    };
    this.instances.all.set(id, {
      id,
      offer: { ...offer },
      order,
      apiKey: "",
      usdPerHour: 0.5,
      madeAtMs: clock.now(),
      endAtMs: Infinity,
      actual: "running",
      intended: "running",
      current: "running",
      message: "",
      portsAtMs: Infinity,
      attached: [],
      keysAtStart: [],
      machine: null,
      direct: null,
      proxy: null,
      hostile: false,
      ended: false,
    });
    ledger.made({ id: String(id), name: label ?? "", usdPerHour: 0.5, madeAtMs: clock.now(), foreign: true });
    return id;
  }

  async close(): Promise<void> {
    await this.#server?.close();
    await Promise.all([...this.instances.all.values()].map((instance) => this.instances.remove(instance, "vanished")));
  }

  #routes(): Route[] {
    const account = (kind: string | null, run: (call: Call) => Reply | Promise<Reply>) => (call: Call) =>
      this.#refusedKey(call) ?? this.#tooSoon(call, kind) ?? run(call);
    const one = (kind: string | null, run: (call: Call, instance: Instance) => Reply | Promise<Reply>) =>
      account(kind, (call) => {
        const instance = this.#instance(call);
        return instance ? run(call, instance) : noSuchInstance();
      });
    const ok: Reply = { json: { success: true } };
    return [
      {
        method: "GET",
        path: "/api/v0/users/current/",
        run: account(null, () => ({
          json: { id: 4_242, email: "owner@example.org", credit: this.creditUsd, balance: 0, ssh_key: null },
        })),
      },
      { method: "POST", path: "/api/v0/bundles/", run: (call) => this.#search(call) },
      {
        method: "GET",
        path: "/api/v0/gpu_names/unique/",
        run: () => ({ json: { success: true, gpu_names: [...new Set(this.offers.map((o) => o.gpuName))] } }),
      },
      { method: "PUT", path: "/api/v0/asks/:id/", run: account("create", (call) => this.#create(call)) },
      {
        method: "GET",
        path: "/api/v0/instances/",
        run: account(null, () =>
          failure(410, "deprecated_endpoint", "This endpoint is gone. Use /api/v1/instances/ instead."),
        ),
      },
      { method: "GET", path: "/api/v1/instances/", run: account("list", (call) => this.#list(call)) },
      {
        method: "GET",
        path: "/api/v0/instances/pending-price-increases/",
        run: account(null, () => ({ json: { success: true, pending_price_increases: [] } })),
      },
      { method: "GET", path: "/api/v0/instances/:id/", run: account("get", (call) => this.#get(call)) },
      { method: "DELETE", path: "/api/v0/instances/:id/", run: (call) => this.#destroy(call) },
      { method: "PUT", path: "/api/v0/instances/:id/", run: (call) => this.#manage(call) },
      ...["reboot", "recycle"].map((verb): Route => ({
        method: "PUT",
        path: `/api/v0/instances/${verb}/:id/`,
        run: one("manage", (_call, instance) => {
          void this.instances.restart(instance, verb === "recycle");
          return ok;
        }),
      })),
      {
        method: "PUT",
        path: "/api/v0/instances/request_logs/:id/",
        run: one("manage", (_call, instance) => {
          this.#logs.set(String(instance.id), 0);
          return { json: { success: true, result_url: `${this.url}/logs/${instance.id}.log` } };
        }),
      },
      { method: "GET", path: "/logs/:id.log", run: (call) => this.#log(call) },
      {
        method: "POST",
        path: "/api/v0/instances/:id/ssh/",
        run: one("manage", (call, instance) => this.#attach(call, instance)),
      },
      {
        method: "GET",
        path: "/api/v0/instances/:id/ssh/",
        run: one("manage", (_call, { attached }) => ({
          json: { success: true, ssh_keys: JSON.stringify(attached.map(({ id, key }) => ({ id, public_key: key }))) },
        })),
      },
      { method: "GET", path: "/api/v0/ssh/", run: account(null, () => this.#accountKeys()) },
      { method: "POST", path: "/api/v0/ssh/", run: account(null, (call) => this.#addAccountKey(call)) },
    ];
  }

  /** Answers a wrong key alternately with 401 and 404: the real one uses both. */
  #refusedKey(call: Call): Reply | null {
    if (call.key === this.#parts.apiKey) return null;
    if ([...this.instances.all.values()].some(({ apiKey }) => apiKey !== "" && apiKey === call.key))
      return failure(403, "not_authorized", "This key may only start, stop and destroy its own instance.");
    this.#turn += 1;
    return failure(this.authStatus ?? (this.#turn % 2 === 1 ? 401 : 404), "auth_error", "Invalid user key");
  }

  #tooSoon(call: Call, kind: string | null): Reply | null {
    if (!this.intervals || kind === null) return null;
    const now = this.#parts.clock.now();
    const identity = `${kind} ${call.key}`;
    const since = now - (this.#lastCall.get(identity) ?? -Infinity);
    const least = (INTERVALS_S[kind] ?? 0) * 1000;
    if (since < least) return tooMany((this.#turn += 1), least / 1000);
    this.#lastCall.set(identity, now);
    return null;
  }

  #instance(call: Call): Instance | undefined {
    const { id = "" } = call.params;
    return /^[0-9]{1,15}$/.test(id) ? this.instances.all.get(Number(id)) : undefined;
  }

  #search(call: Call): Reply {
    // A search needs no key, but a wrong key is refused.
    if (call.key !== null && call.key !== this.#parts.apiKey) return failure(404, "auth_error", "Invalid user key");
    const early = this.#tooSoon(call, "search");
    if (early) return early;
    const { faults, clock } = this.#parts;
    if (faults.take("no_capacity") || during(this.#parts, "sold_out")) return { json: { offers: [] } };
    try {
      const offers = searchOffers(this.offers, call.body, clock.now(), this.ignoredFilters);
      return this.#spoilt(offers);
    } catch (error) {
      if (error instanceof BadSearch) return failure(400, "invalid_args", error.message);
      throw error;
    }
  }

  #spoilt(offers: Record<string, unknown>[]): Reply {
    const { faults } = this.#parts;
    return offersReply(offers, {
      price: faults.take("price_nan")
        ? "infinite"
        : faults.take("price_text")
          ? "text"
          : faults.take("price_null")
            ? "null"
            : "honest",
      hostile: faults.get("hostile_strings") !== null,
    });
  }

  async #create(call: Call): Promise<Reply> {
    const { faults, clock, ledger } = this.#parts;
    const offer = this.offers.find(({ id }) => String(id) === call.params["id"]);
    if (faults.take("error_before_create")) return badGateway;
    if (!offer || faults.get("no_capacity") !== null || during(this.#parts, "sold_out"))
      return this.#taken(call.params["id"]);
    if (faults.take("offer_taken")) {
      offer.rentable = false;
      offer.rented = true;
      return this.#taken(call.params["id"]);
    }
    const order = readOrder(call.body, offer);
    if ("error" in order) return failure(order.status, order.error, order.msg);
    if (this.creditUsd <= 0)
      return failure(400, "insufficient_credit", "Your account lacks credit; see the billing page.");
    const slow = faults.get("slow_create");
    if (slow !== null) {
      faults.clear("slow_create");
      await clock.wait(slow);
    }
    const twice = !offer.rentable && this.#renting.has(offer.id);
    if (!offer.rentable && !(twice && this.doubleRent === "break")) return this.#taken(call.params["id"]);
    this.#renting.add(offer.id);
    void clock.wait(1_000).then(() => this.#renting.delete(offer.id));
    const low = order.bid !== null && order.bid < offer.minBid * moved(faults);
    if (low && order.cancelUnavailable) return failure(410, "no_such_ask", "The offer is not available at that price.");
    const keys = this.accountKeys.map((key) => key.public_key);
    const instance = this.instances.make(
      offer,
      low ? { ...order, stopped: true } : order,
      keys,
      twice,
      order.bid === null ? this.instances.dearer() : 1,
    );
    ledger.calls.push(`create ${order.label}`);
    if (faults.take("lost_after_create")) return { lost: true };
    if (faults.take("error_after_create")) return badGateway;
    if (low)
      return { json: { success: false, error: "invalid_price", msg: "bid is too low", new_contract: instance.id } };
    return { json: { success: true, new_contract: instance.id, instance_api_key: instance.apiKey } };
  }

  #taken(id = ""): Reply {
    return taken(id, (this.#turn += 1));
  }

  async #list(call: Call): Promise<Reply> {
    await this.instances.settle();
    const rows = [...this.instances.all.values()]
      .filter((instance) => !this.instances.hidden(instance))
      .map((instance) => this.instances.shown(instance));
    try {
      return { json: listPage(rows, call.query, this.pageSize) };
    } catch (error) {
      if (error instanceof BadList) return failure(400, "invalid_args", error.message);
      throw error;
    }
  }

  async #get(call: Call): Promise<Reply> {
    await this.instances.settle();
    const instance = this.#instance(call);
    if (!instance || this.instances.hidden(instance)) return { json: { instances: null } };
    return { json: { instances: this.instances.shown(instance) } };
  }

  #destroy(call: Call): Reply {
    const instance = this.#instance(call);
    const self = instance !== undefined && instance.apiKey !== "" && call.key === instance.apiKey;
    const refused = self ? null : (this.#refusedKey(call) ?? this.#tooSoon(call, "destroy"));
    if (refused) return refused;
    if (during(this.#parts, "delete_errors")) return { status: 503, text: "upstream connect error" };
    if (!instance || instance.ended) return noSuchInstance();
    const { faults, ledger } = this.#parts;
    ledger.calls.push(`${self ? "self-terminate" : "terminate"} ${instance.order.label || instance.id}`);
    if (!self && faults.take("delete_ignored")) return { json: { success: true } };
    void this.instances.remove(instance, self ? "self" : "terminated");
    return !self && faults.take("delete_lost") ? { lost: true } : { json: { success: true } };
  }

  async #manage(call: Call): Promise<Reply> {
    const instance = this.#instance(call);
    const self = instance !== undefined && instance.apiKey !== "" && call.key === instance.apiKey;
    const refused = self ? null : (this.#refusedKey(call) ?? this.#tooSoon(call, "manage"));
    if (refused) return refused;
    if (!instance || instance.ended) return noSuchInstance();
    const { state, label, ...rest } = (call.body ?? {}) as Record<string, unknown>;
    if (Object.keys(rest).length > 0) return failure(400, "invalid_args", `unknown argument ${Object.keys(rest)[0]}`);
    if (label !== undefined) {
      if (self) return failure(403, "not_authorized", "This key may not do that.");
      if (typeof label !== "string") return failure(400, "invalid_args", "label");
      if (label.length > 256) return failure(400, "label_too_long", "label");
      instance.order.label = label;
    }
    if (state === "stopped") await this.instances.stop(instance);
    else if (state === "running") this.instances.start(instance);
    else if (state !== undefined) return failure(400, "invalid_args", "state");
    return { json: { success: true } };
  }

  async #attach(call: Call, instance: Instance): Promise<Reply> {
    const key = (call.body as { ssh_key?: unknown } | undefined)?.ssh_key;
    if (!isPublicKey(key)) return failure(400, "invalid_args", "ssh_key is not an OpenSSH public key");
    await this.instances.attach(instance, key.trim());
    return { json: { success: true, msg: "SSH key added to instance." } };
  }

  #accountKeys(): Reply {
    if (this.accountKeys.length === 0) return failure(404, "not_found", "no keys");
    return { json: { success: true, keys: this.accountKeys } };
  }

  #addAccountKey(call: Call): Reply {
    const key = (call.body as { ssh_key?: unknown } | undefined)?.ssh_key;
    if (!isPublicKey(key)) return failure(400, "invalid_args", "ssh_key");
    const made = { id: 900 + this.accountKeys.length, public_key: key.trim() };
    this.accountKeys.push(made);
    return { json: { success: true, key: made } };
  }

  #log(call: Call): Reply {
    const id = call.params["id"] ?? "";
    const asked = this.#logs.get(id);
    if (asked === undefined || asked < 1) {
      if (asked !== undefined) this.#logs.set(id, asked + 1);
      return { status: 404, text: "NoSuchKey" };
    }
    return { text: `${this.instances.all.get(Number(id))?.message ?? ""}\n` };
  }
}
