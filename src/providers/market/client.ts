// The marketplace's API: one method per call, paced by the provider's limits. It has no vendor library.
//
// C1. Each endpoint has its own minimum interval between two calls; an early call waits here, not there.
// C2. After 429 an idempotent call waits and is retried. A create call is not retried here. A read is also retried
//     after a short outage. A termination waits by itself and for seconds, whatever delay is requested: the others go on.
// C3. A listing is read to its last page: paging.ts. A row without a readable id leaves it incomplete, and hides no other row.

import { idOf, ODD_ID, oddIdOf } from "../../domain/endpoint.ts";
import { SvcError } from "../../errors/index.ts";
import { clientOf, type HttpAnswer, type HttpRequest, type ProviderHttp } from "../http.ts";
import { readList, wholeList, type List } from "../paging.ts";
import { RateLimiter } from "../rate-limiter.ts";
import type { RemoteOptions } from "../remote.ts";
import { isRetiredAddress, isTooOften, isUnclearNotFound, refusalOf, refused, saysNoSuchMachine } from "./refusals.ts";
import {
  GpuNames,
  ListPage,
  numberOf,
  objectOf,
  Offers,
  OneInstance,
  User,
  type InstanceRow,
  type OfferRow,
} from "./wire.ts";

/**
 * Minimum milliseconds between two calls (the provider's numbers, October 2026), and how long a call may wait for its
 * turn.
 */
const PACE = {
  search: { minIntervalMs: 6_000, maxWaitMs: 120_000 },
  names: { minIntervalMs: 1_000, maxWaitMs: 30_000 },
  create: { minIntervalMs: 4_500, maxWaitMs: 20_000 },
  destroy: { minIntervalMs: 3_000, maxWaitMs: 150_000 },
  get: { minIntervalMs: 2_000, maxWaitMs: 120_000 },
  list: { minIntervalMs: 1_000, maxWaitMs: 120_000 },
  attach: { minIntervalMs: 1_000, maxWaitMs: 30_000 },
  user: { minIntervalMs: 1_000, maxWaitMs: 30_000 },
} as const;
type Endpoint = keyof typeof PACE;

export const CREATE_TIMEOUT_MS = 60_000;
export const CREATE_WAIT_MS = PACE.create.maxWaitMs;
export const CREATE_INTERVAL_MS = PACE.create.minIntervalMs;
const TIMEOUT_MS = 30_000;
const PAGE = 25;
const ASKS_MAX = 4;
const READS: ReadonlySet<Endpoint> = new Set<Endpoint>(["search", "names", "get", "list", "user"]);
/** Delays before a failed read is retried. */
const READ_AGAIN_MS = [500, 2_000];
/** Limit for the requested delay of a termination: the machine costs money meanwhile. */
const DESTROY_WAIT_MAX_MS = 12_000;
/** A longer outage is not a short one: the waiting caller has other work. */
const SHORT_MS = 5_000;

/** A machine in a listing: its row, and its verified id and label. */
export interface Listed {
  /** `ODD_ID` if the provider's id has an unusable form; `oddId` then holds it. */
  id: string;
  oddId: string | null;
  label: string | null;
  row: InstanceRow;
}

export class MarketClient {
  private readonly http: () => ProviderHttp;
  private readonly options: Pick<RemoteOptions, "credential" | "now" | "pause">;
  private readonly limiters: Record<Endpoint, RateLimiter>;

  constructor(options: Pick<RemoteOptions, "credential" | "baseUrl" | "now" | "pause">) {
    const { now, pause } = options;
    this.options = options;
    this.http = clientOf(() => options.baseUrl, {
      provider: "market",
      timeoutMs: TIMEOUT_MS,
      userAgent: "svc",
    });
    const limiter = (endpoint: Endpoint) => new RateLimiter({ provider: "market", ...PACE[endpoint], now, pause });
    this.limiters = {
      search: limiter("search"),
      names: limiter("names"),
      create: limiter("create"),
      destroy: limiter("destroy"),
      get: limiter("get"),
      list: limiter("list"),
      attach: limiter("attach"),
      user: limiter("user"),
    };
  }

  /** The key, so that it can be masked in output. Throws `credential_missing`. */
  secret(): string {
    return this.options.credential().secret.trim();
  }

  /** Calls `body` when the request leaves, which may be long after this call. */
  async search(body: () => Record<string, unknown>): Promise<OfferRow[]> {
    const answer = await this.ask("search", { method: "POST", path: "/api/v0/bundles/" }, body);
    return this.read(Offers, answer, "the search").offers;
  }

  /** Every GPU name that the marketplace knows, in its spelling. */
  async gpuNames(signal?: AbortSignal): Promise<string[]> {
    const path = "/api/v0/gpu_names/unique/";
    let answer: HttpAnswer;
    return wholeList({
      provider: "market",
      what: "list of GPU names",
      path,
      content: ["gpu_names", "success"],
      provesAbsence: false,
      now: this.options.now,
      ask: async (query) => {
        answer = await this.ask("names", { method: "GET", path, query, signal });
        return { status: answer.status, body: objectOf(answer), headers: answer.headers };
      },
      rows: () => this.read(GpuNames, answer, "the names of GPUs").gpu_names,
      key: (name) => name,
    });
  }

  /**
   * One try; any status counts as an answer. Throws `offer_taken` if its turn came too late (a computer may sleep
   * meanwhile): nothing leaves after `untilMs`. If its turn is too far away it throws `provider_error`, never sent: the
   * next offer would wait as long.
   */
  async create(
    offerId: string,
    body: Record<string, unknown>,
    { secret, untilMs }: { secret: string; untilMs: number },
  ): Promise<HttpAnswer> {
    const path = `/api/v0/asks/${encodeURIComponent(offerId)}/`;
    await this.limiters.create.slot();
    if (this.options.now() > untilMs)
      throw new SvcError("offer_taken", { provider: "market", offer: offerId, why: "its turn came too late" });
    return this.send({ method: "PUT", path, json: body, timeoutMs: CREATE_TIMEOUT_MS }, secret);
  }

  /** Blocks create calls for this long. */
  holdCreate(ms: number): void {
    this.limiters.create.hold(ms);
  }

  /**
   * Null if the provider says that this machine does not exist; `unclear` if its "not found" could mean something else.
   */
  async get(id: string, signal?: AbortSignal): Promise<InstanceRow | null | "unclear"> {
    const answer = await this.ask("get", { method: "GET", path: instancePath(id), signal });
    const refusal = refusalOf(answer);
    if (saysNoSuchMachine(answer, refusal)) return null;
    if (isUnclearNotFound(answer, refusal)) return "unclear";
    const { instances } = this.read(OneInstance, answer, `machine ${id}`);
    const row = Array.isArray(instances) ? (instances[0] ?? null) : instances;
    if (row !== null && idOf(row.id) !== id)
      throw new SvcError("provider_error", {
        provider: "market",
        why: `the request was for machine ${id}, it answered about another one`,
      });
    return row;
  }

  /** The machines on the account; throws if not even the first page can be read. */
  async list(signal?: AbortSignal): Promise<List<Listed>> {
    const path = "/api/v1/instances/";
    const damaged = (why: string) => new SvcError("provider_error", { provider: "market", why: `the listing ${why}` });
    let answer: HttpAnswer;
    const unreadable: SvcError[] = [];
    const list = await readList({
      provider: "market",
      what: "listing of machines",
      path,
      content: ["instances", "success", "instances_found", "label_counts"],
      cursorParameter: "after_token",
      now: this.options.now,
      ask: async (page) => {
        answer = await this.ask("list", { method: "GET", path, query: { limit: PAGE, ...page }, signal });
        return { status: answer.status, body: objectOf(answer), headers: answer.headers };
      },
      rows: () => {
        const { instances, next_token, total_instances } = this.read(ListPage, answer, "the listing of machines");
        if (next_token === undefined && numberOf(total_instances) === null)
          throw damaged("does not say that it is whole");
        return instances.flatMap((row): Listed[] => {
          const oddId = oddIdOf(row.id);
          const id = idOf(row.id) ?? (oddId === null ? null : ODD_ID);
          if (id !== null) return [{ id, oddId, label: typeof row.label === "string" ? row.label.trim() : null, row }];
          unreadable.push(damaged("holds a machine whose id cannot be read"));
          return [];
        });
      },
      key: ({ id, oddId }) => oddId ?? id,
    });
    return { rows: list.rows, missing: unreadable[0] ?? list.missing };
  }

  /** Whether the provider accepted the termination; false if it does not know the machine. Neither is a proof. */
  async destroy(id: string, signal?: AbortSignal): Promise<boolean> {
    const ask = (path: string) => this.ask("destroy", { method: "DELETE", path, json: {}, signal });
    const first = await ask(instancePath(id));
    // Its listing has already moved to the next version (July 2026). A machine that cannot be ended costs more than one
    // extra call.
    const moved = isRetiredAddress(first, refusalOf(first)) ? await ask(instancePath(id, "v1")) : null;
    const answer = moved !== null && moved.status < 300 ? moved : first;
    const refusal = refusalOf(answer);
    if (isRetiredAddress(answer, refusal)) throw refused(answer, `ending machine ${id}`, this.secret());
    if (saysNoSuchMachine(answer, refusal) || isUnclearNotFound(answer, refusal)) return false;
    return this.accepted(answer, `ending machine ${id}`).success === true;
  }

  async attachKey(id: string, publicKey: string, signal?: AbortSignal): Promise<void> {
    const json = { ssh_key: publicKey };
    const answer = await this.ask("attach", { method: "POST", path: `${instancePath(id)}ssh/`, json, signal });
    if (/already|duplicate/i.test(refusalOf(answer).words) && answer.status < 500 && objectOf(answer) !== null) return;
    this.accepted(answer, `giving machine ${id} the SSH key`);
  }

  async user(signal?: AbortSignal): Promise<{ id: string | null; name: string; credit: number | null }> {
    const answer = await this.ask("user", { method: "GET", path: "/api/v0/users/current/", signal });
    const user = this.read(User.partial(), answer, "the account");
    const name = [user.email, user.username].find((part) => typeof part === "string" && part !== "");
    return {
      id: idOf(user.id),
      name: typeof name === "string" ? name : `user ${idOf(user.id) ?? "unknown"}`,
      credit: numberOf(user.credit),
    };
  }

  /** For idempotent calls. */
  private async ask(endpoint: Endpoint, request: HttpRequest, json?: () => unknown): Promise<HttpAnswer> {
    const limiter = this.limiters[endpoint];
    const pauses = READS.has(endpoint) ? [...READ_AGAIN_MS] : [];
    for (let asked = 1; ; asked++) {
      const secret = this.secret();
      await limiter.slot(request.signal);
      const sentAt = this.options.now();
      const answer = await this.send(json === undefined ? request : { ...request, json: json() }, secret).catch(
        (e: unknown) => {
          if (e instanceof SvcError && e.code === "provider_unreachable") return e;
          throw e;
        },
      );
      const tookMs = answer instanceof SvcError || isPassing(answer) ? this.options.now() - sentAt : Infinity;
      const againMs = tookMs < SHORT_MS ? pauses.shift() : undefined;
      if (againMs !== undefined) {
        await this.options.pause(againMs, request.signal);
        continue;
      }
      if (answer instanceof SvcError) throw answer;
      if (asked >= ASKS_MAX || !isTooOften(answer, refusalOf(answer))) return answer;
      const waitMs = Math.max(answer.retryAfterMs ?? 0, PACE[endpoint].minIntervalMs * asked);
      if (endpoint === "destroy") await this.options.pause(Math.min(waitMs, DESTROY_WAIT_MAX_MS), request.signal);
      else limiter.hold(waitMs);
    }
  }

  private send(request: HttpRequest, secret: string): Promise<HttpAnswer> {
    return this.http().call({ ...request, headers: { authorization: `Bearer ${secret}` } });
  }

  /** The body as an object, unless it is a refusal. */
  private accepted(answer: HttpAnswer, what: string): Record<string, unknown> {
    const body = objectOf(answer);
    if (answer.status < 200 || answer.status > 299 || body === null || body.success === false)
      throw refused(answer, what, this.secret());
    return body;
  }

  private read<T>(
    shape: { safeParse(value: unknown): { success: boolean; data?: T } },
    answer: HttpAnswer,
    what: string,
  ): T {
    const read = shape.safeParse(this.accepted(answer, what));
    if (read.success && read.data !== undefined) return read.data;
    throw new SvcError("provider_error", {
      provider: "market",
      why: `${what}: an answer of another form than its own`,
    });
  }
}

const instancePath = (id: string, version = "v0"): string => `/api/${version}/instances/${encodeURIComponent(id)}/`;

/** An outage, or half an answer; not a refusal. */
const isPassing = (answer: HttpAnswer): boolean =>
  answer.status >= 500 || answer.status === 408 || (answer.status < 300 && objectOf(answer) === null);
