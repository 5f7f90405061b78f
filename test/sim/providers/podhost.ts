// The simulated pod host: GraphQL and the second REST API over loopback, according to their documentation and their
// users.
//
// Faults: of the answers, all of http-server.ts; api_retired, api_retiring, api_limited (the first API alone); lost_after_create, error_after_create, error_before_create, slow_create;
// listing_lag (list and get); no_capacity, offer_taken (of the cheapest it was asked for, in several wordings); delete_ignored,
// delete_errors, delete_lost; price_nan, price_null, price_text (catalogue and pods); price_higher (percent, of the made pod),
// price_rises (percent, while it runs), price_rises_early (percent, also before), price_moves (percent); sold_out; bad_hosts, busy_hosts and dead_hosts (by machineId); hostile_strings (ways in, texts); boot_never, boot_fails, container_refused, image_missing; and those of
// machine-faults.ts, where `preempted` is what being outbid looks like.
//
// `stopAfter` and `terminateAfter` are accepted without effect, as by the real one.

import { during, strike } from "./faults.ts";
import { BadQuery, project, readQuery, type Field } from "./graphql-query.ts";
import { startServer, type Call, type Reply, type SimServer } from "./http-server.ts";
import { usersOf, type ProviderSim, type SimParts } from "./parts.ts";
import { COUNTRIES, DATA_CENTERS } from "./podhost-catalogue.ts";
import { PodOrders, Refused, type Caller } from "./podhost-orders.ts";
import { PodhostPods, type PodTimings } from "./podhost-pods.ts";
import { restRoutes } from "./podhost-rest.ts";
import { SCHEMA } from "./podhost-schema.ts";

export interface PodhostOptions extends SimParts {
  port?: number;
  timings?: Partial<PodTimings>;
  balanceUsd?: number;
  /** The first API has ended: every call of it answers 410. */
  retired?: boolean;
  /** Keys that may only read. */
  readOnlyKeys?: readonly string[];
  onCall?(line: string): void;
}

const html = (status: number, title: string): Reply => ({
  status,
  text: `<html><head><title>${status} ${title}</title></head><body><h1>${title}</h1></body></html>`,
  headers: { "content-type": "text/html" },
});

export class PodhostSim implements ProviderSim {
  readonly name = "podhost";
  readonly pods: PodhostPods;
  readonly orders: PodOrders;
  retired: boolean;
  /** Pods on one page of the second API's list; the first one has no pages. */
  pageSize = 100;
  #server: SimServer | undefined;
  readonly #parts: SimParts;
  readonly #readOnly: readonly string[];
  #port = 0;

  private constructor(options: PodhostOptions) {
    this.#parts = options;
    this.retired = options.retired ?? false;
    this.#readOnly = options.readOnlyKeys ?? [];
    this.pods = new PodhostPods(options, options.timings ?? {}, () => this.#port);
    this.orders = new PodOrders(options, this.pods, options.balanceUsd ?? 50);
  }

  static async start(options: PodhostOptions): Promise<PodhostSim> {
    const sim = new PodhostSim(options);
    const byMachine = (name: string) => sim.pods.all.get(name);
    const server = await startServer({
      parts: options,
      port: options.port ?? 0,
      routes: [
        { method: "POST", path: "/graphql", run: (call) => sim.#graphqlWhileServed(call) },
        ...restRoutes(
          options,
          sim.pods,
          sim.orders,
          (call) => sim.#caller(call),
          () => sim.pageSize,
        ),
      ],
      rateLimited: (call, nth) => sim.#tooMany(call, nth),
      badJson: () => ({ status: 400, json: { errors: [{ message: "POST body sent invalid JSON." }] } }),
      vanish: (name) => sim.pods.end(byMachine(name), "vanished"),
      preempt: (name) => sim.pods.end(byMachine(name), "preempted"),
      ...(options.onCall ? { onCall: options.onCall } : {}),
    });
    sim.#server = server;
    sim.#port = server.port;
    return sim;
  }

  get url(): string {
    return this.#server?.url ?? "";
  }

  settings(): { env: Record<string, string>; credentials: Record<string, unknown> } {
    const { apiKey } = this.#parts;
    return {
      env: { SVC_PODHOST_URL: this.url, PODHOST_API_KEY: apiKey },
      credentials: { providers: { podhost: { api_key: apiKey, ...usersOf(this.#parts.fleet) } } },
    };
  }

  async close(): Promise<void> {
    await this.#server?.close();
    await this.pods.close();
  }

  /** The caller; null for an unknown key. */
  #caller({ key }: Call): Caller | null {
    if (key === null) return { kind: "nobody" };
    if (key === this.#parts.apiKey) return { kind: "owner" };
    if (this.#readOnly.includes(key)) return { kind: "reader" };
    const pod = [...this.pods.all.values()].find((each) => each.key === key && each.exitedAtMs === null);
    return pod ? { kind: "pod", pod } : null;
  }

  #tooMany(call: Call, nth: number): Reply {
    const headers = { "retry-after": "1", ratelimit: '"default";r=0;t=1', "ratelimit-policy": '"default";q=60;w=60' };
    if (call.path.startsWith("/v2/"))
      return {
        status: 429,
        json: { title: "Too Many Requests", status: 429, detail: "Rate limit exceeded." },
        headers: { ...headers, "content-type": "application/problem+json" },
      };
    return (
      [
        html(429, "Too Many Requests"),
        { status: 429, json: { errors: [{ message: "Too many requests, please try again later." }] }, headers },
        { status: 429, text: "" },
      ][nth % 3] ?? html(429, "Too Many Requests")
    );
  }

  /** The first API, which may end, announce its end or limit its callers at any moment. */
  async #graphqlWhileServed(call: Call): Promise<Reply> {
    const { faults } = this.#parts;
    if (this.retired || faults.get("api_retired") !== null)
      return { status: 410, json: { errors: [{ message: "This API has been retired. Use REST v2." }] } };
    if (faults.get("api_limited") !== null)
      return {
        status: 429,
        json: { errors: [{ message: "Too many requests, please try again later." }] },
        headers: { "retry-after": "1" },
      };
    const reply = await this.#graphql(call);
    if (faults.get("api_retiring") === null) return reply;
    return { ...reply, headers: { ...reply.headers, deprecation: "true", sunset: "Fri, 01 Jan 2027 00:00:00 GMT" } };
  }

  async #graphql(call: Call): Promise<Reply> {
    const caller = this.#caller(call);
    if (!caller) return { status: 401, json: { errors: [{ message: "Unauthorized" }] } };
    const body = (call.body ?? {}) as { query?: unknown; variables?: unknown };
    try {
      const { kind, fields } = readQuery(SCHEMA, body.query, body.variables);
      const data: Record<string, unknown> = {};
      for (const field of fields) {
        const found = await this.#resolve(kind, field, caller);
        if (found.reply) return found.reply;
        data[field.alias] = found.data ?? null;
      }
      return this.orders.spoilt({ json: { data } });
    } catch (error) {
      if (error instanceof BadQuery) return { status: 400, json: { errors: [{ message: error.message }] } };
      if (!(error instanceof Refused)) throw error;
      if (error.forbidden) return { status: 403, json: { errors: [{ message: error.message }] } };
      const extensions = { code: error.code };
      const path = error.field === null ? {} : { path: [error.field] };
      return {
        json: {
          errors: [{ message: error.message, ...path, extensions }],
          data: error.field ? { [error.field]: null } : null,
        },
      };
    }
  }

  async #resolve(kind: string, field: Field, caller: Caller): Promise<{ data?: unknown; reply?: Reply }> {
    const { name, args, fields } = field;
    const input = inputOf(args);
    if (kind === "mutation") return this.#mutate(field, input, caller);
    if (name === "countryCodes") return { data: COUNTRIES };
    if (name === "dataCenters")
      return {
        data: project(
          DATA_CENTERS.map((id) => ({
            id,
            name: id,
            location: id.split("-")[0],
            listed: true,
            gpuAvailability: this.orders.stockOf(id),
          })),
          fields,
        ),
      };
    if (name === "gpuTypes") {
      const below = fields?.find((each) => each.name === "lowestPrice");
      const price = inputOf(below?.args ?? {});
      return { data: project(this.orders.gpuTypes(input, price), fields) };
    }
    if (name === "myself") {
      // An unknown key has no account, and a pod's own key does not open it.
      if (caller.kind === "nobody") return { data: null };
      if (caller.kind === "pod") throw new Refused("Forbidden", { forbidden: true });
      return { data: project(this.orders.account(), fields) };
    }
    if (name === "pod") {
      if (caller.kind === "nobody") return { data: null };
      const pod = this.pods.seen().find(({ id }) => id === input["podId"]);
      if (caller.kind === "pod" && caller.pod !== pod) throw new Refused("Forbidden", { forbidden: true });
      return { data: project(pod ? this.orders.shown(pod) : null, fields) };
    }
    throw new BadQuery(`Cannot query field "${name}" on type "Query".`);
  }

  async #mutate(
    field: Field,
    input: Record<string, unknown>,
    caller: Caller,
  ): Promise<{ data?: unknown; reply?: Reply }> {
    const { faults, clock } = this.#parts;
    const { name, fields } = field;
    this.orders.mayChange(caller, input["podId"]);
    switch (name) {
      case "podFindAndDeployOnDemand":
      case "podRentInterruptable": {
        const request = this.orders.request(name, input);
        if (faults.take("error_before_create")) return { reply: html(502, "Bad Gateway") };
        const late = strike(faults, "slow_create");
        if (late !== null) {
          await clock.wait(late / 3);
          void clock.wait((late * 2) / 3).then(() => this.orders.make(request));
          return { reply: { lost: true } };
        }
        const pod = this.orders.make(request);
        if (faults.take("lost_after_create")) return { reply: { lost: true } };
        if (faults.take("error_after_create"))
          return {
            reply: {
              json: {
                errors: [
                  {
                    message: "Something went wrong. Please try again later or contact support.",
                    path: [name],
                    extensions: { code: "INTERNAL_SERVER_ERROR" },
                  },
                ],
                data: { [name]: null },
              },
            },
          };
        return { data: project(this.orders.shown(pod), fields) };
      }
      case "podTerminate": {
        if (during(this.#parts, "delete_errors"))
          throw new Refused("Something went wrong. Please try again later or contact support.");
        const ended = await this.orders.terminate(String(input["podId"]), caller);
        if (!ended) throw new Refused("pod not found to terminate", { code: "POD_NOT_FOUND", field: name });
        return faults.take("delete_lost") ? { reply: { lost: true } } : { data: null };
      }
      case "podStop": {
        const pod = this.orders.find(input["podId"]);
        if (!pod) throw new Refused("pod not found to stop", { code: "POD_NOT_FOUND", field: name });
        await this.orders.stop(pod);
        return { data: project(this.orders.shown(pod), fields) };
      }
      case "updateUserSettings":
        if (typeof input["pubKey"] === "string") this.orders.pubKey = input["pubKey"];
        return { data: project(this.orders.account(), fields) };
      case "podResume":
        throw new Refused("There are not enough free GPUs on the host machine to start this pod.", { field: name });
      default:
        throw new BadQuery(`Cannot query field "${name}" on type "Mutation".`);
    }
  }
}

const inputOf = (args: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const { input } = args;
  return typeof input === "object" && input !== null ? { ...input } : {};
};
