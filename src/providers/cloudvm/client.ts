// The client of the API: sends a request with its token, and interprets the answer. Addresses are built only from
// names: links in answers may point anywhere and are never followed.

import { SvcError } from "../../errors/index.ts";
import { beforeSending, neverSent, ProviderHttp, type HttpAnswer, type HttpRequest } from "../http.ts";
import { USER_AGENT } from "./auth.ts";
import type { TokenSource } from "./tokens.ts";
import { ErrorBody, plainText } from "./wire.ts";

const PROVIDER = "cloudvm";
export const REQUEST_TIMEOUT_MS = 30_000;
/** Aggregated listings of a large account are long. */
const BYTES_MAX = 32 * 1024 * 1024;
const RETRY_MS = [500, 2_000];
/** A requested delay is respected up to this limit. */
export const RETRY_AFTER_MAX_MS = 10_000;

const TOO_LATE = "no token arrived in time for the request";

/** An answer other than success. */
export interface Refusal {
  status: number;
  /** The provider's own error codes, from any place in the answer. */
  reasons: readonly string[];
  message: string;
  /** Zones that have capacity according to the refusal; null if it names none. */
  zonesAvailable: string | null;
  /** False for a page, half a body, a proxy: it says nothing about the request's object. */
  fromApi: boolean;
  retryAfterMs: number | null;
}

export type Reply = { ok: true; status: number; body: unknown } | ({ ok: false } & Refusal);

type Request = Pick<HttpRequest, "method" | "path" | "query" | "json" | "signal">;

export class ComputeClient {
  readonly #http: ProviderHttp;
  readonly #tokens: TokenSource;
  readonly #pause: (ms: number, signal?: AbortSignal) => Promise<void>;

  constructor(baseUrl: string, tokens: TokenSource, pause: (ms: number, signal?: AbortSignal) => Promise<void>) {
    this.#http = new ProviderHttp({
      provider: PROVIDER,
      // Some users write the address with the prefix of every path.
      baseUrl: baseUrl.replace(/\/+$/, "").replace(/\/compute\/v1$/, ""),
      timeoutMs: REQUEST_TIMEOUT_MS,
      maxBytes: BYTES_MAX,
      userAgent: USER_AGENT,
    });
    this.#tokens = tokens;
    this.#pause = pause;
  }

  /** Resolves once the key is known to be valid; an invalid key is reported before anything is ordered with it. */
  async letIn(signal: AbortSignal): Promise<void> {
    await this.#token(signal);
  }

  /**
   * One request, sent once (twice if the token was refused). `path` begins after `/compute/v1`.
   * @param isLate called right before it leaves, once there is a token; true keeps it from leaving
   */
  async once(request: Request, isLate: () => boolean = () => false): Promise<Reply> {
    const first = await this.#token(request.signal);
    if (isLate()) throw neverSent(new SvcError("provider_unreachable", { provider: PROVIDER, why: TOO_LATE }));
    const answer = replyOf(await this.#send(request, first));
    if (answer.ok || answer.status !== 401) return answer;
    this.#tokens.refused(first);
    const second = await this.#token(request.signal);
    return isLate() ? answer : replyOf(await this.#send(request, second));
  }

  /** For idempotent requests: waits out an outage of seconds. */
  async send(request: Request): Promise<Reply> {
    for (const waitMs of RETRY_MS) {
      let retryAfterMs: number | null = null;
      try {
        const reply = await this.once(request);
        if (reply.ok || !isPassing(reply)) return reply;
        retryAfterMs = reply.retryAfterMs;
      } catch (e) {
        if (!(e instanceof SvcError) || e.code !== "provider_unreachable") throw e;
      }
      // A requested delay of nothing would repeat it at once.
      const pauseMs = Math.max(waitMs, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS));
      await this.#pause(pauseMs, request.signal ?? undefined);
    }
    return this.once(request);
  }

  /** Whatever happens in the exchange, the request itself has not left. */
  #token(signal: AbortSignal | undefined): Promise<string> {
    return beforeSending(this.#tokens.token(signal));
  }

  #send({ path, ...request }: Request, token: string): Promise<HttpAnswer> {
    return this.#http.call({
      ...request,
      path: `/compute/v1${path}`,
      headers: { authorization: `Bearer ${token}` },
    });
  }
}

function replyOf(answer: HttpAnswer): Reply {
  const body = answer.isHtml ? undefined : answer.json();
  if (answer.status >= 200 && answer.status < 300 && typeof body === "object" && body !== null)
    return { ok: true, status: answer.status, body };
  const parsed = ErrorBody.safeParse(body);
  const { status, retryAfterMs } = answer;
  const plain = answer.isHtml || body !== undefined ? "" : plainText(answer.text, 200);
  if (!parsed.success)
    return {
      ok: false,
      status,
      reasons: [],
      message: `status ${status} with ${answer.isHtml ? "a page" : answer.text === "" ? "no body" : "something"} in place of an answer${plain === "" ? "" : `: ${plain}`}`,
      zonesAvailable: null,
      fromApi: false,
      retryAfterMs,
    };
  const { message, errors, details, status: word } = parsed.data.error;
  const reasons = [...errors.map((e) => e.reason), ...details.map((d) => d.reason), word].filter(
    (reason): reason is string => reason !== undefined && reason !== "",
  );
  return {
    ok: false,
    status,
    reasons,
    message: withCode(plainText(message ?? errors[0]?.message ?? "") || `status ${status}`, reasons),
    zonesAvailable: details.map((d) => zonesIn(d.metadatas ?? d.metadata)).find((zones) => zones !== null) ?? null,
    fromApi: true,
    retryAfterMs,
  };
}

/** The provider's own code is quoted with its message: people search for it. */
function withCode(message: string, reasons: readonly string[]): string {
  const codes = [...new Set(reasons.map((reason) => plainText(reason, 80)))].filter((code) => !message.includes(code));
  return codes.length === 0 ? message : `${message} (${codes.slice(0, 3).join(", ")})`;
}

/** `zonesAvailable` of the details of a stockout; null if it is missing or contains anything but names of zones. */
export function zonesIn(metadata: Readonly<Record<string, unknown>> | undefined): string | null {
  const zones = metadata?.["zonesAvailable"];
  return typeof zones === "string" && /^[a-z0-9, -]+$/.test(zones) ? plainText(zones, 200) : null;
}

const RATE = /^(rateLimitExceeded|userRateLimitExceeded|RATE_LIMIT_EXCEEDED|RESOURCE_OPERATION_RATE_EXCEEDED)$/;

/** Too many requests: nothing was done, and a later request will work. */
export const isRateLimited = (r: Refusal): boolean =>
  r.reasons.some((reason) => RATE.test(reason)) || (r.status === 429 && !isQuota(r));

export const isQuota = (r: Refusal): boolean =>
  r.reasons.some((reason) => /^(quotaExceeded|QUOTA_EXCEEDED|limitExceeded)$/.test(reason));

const isPassing = (r: Refusal): boolean =>
  isRateLimited(r) || r.status >= 500 || r.status === 408 || (r.status < 300 && !r.fromApi);

/**
 * The API itself says that exactly this object does not exist; not a proxy, and not that the project or the zone is
 * missing.
 */
export function saysNotFound(r: Refusal, collection: string): boolean {
  if (r.status !== 404 || !r.fromApi) return false;
  const resource = /projects\/[^\s'"]*/.exec(r.message)?.[0];
  return resource === undefined || resource.includes(`/${collection}/`);
}

/** The general meaning of a refusal, if the caller has no special one. */
export function errorOf(r: Refusal, what: string): SvcError {
  const has = (...words: string[]): boolean => r.reasons.some((reason) => words.includes(reason));
  if (r.status === 401) return new SvcError("credential_refused", { provider: PROVIDER, why: `${what}: ${r.message}` });
  if (isRateLimited(r))
    return new SvcError("provider_error", { provider: PROVIDER, why: `${what}: too many requests (${r.message})` });
  if (has("accessNotConfigured", "SERVICE_DISABLED"))
    return new SvcError("provider_refused", { provider: PROVIDER, why: `its API is not switched on: ${r.message}` });
  if (isQuota(r)) return new SvcError("no_quota", { provider: PROVIDER, why: r.message });
  if (r.status === 403 && r.fromApi)
    return new SvcError("credential_refused", { provider: PROVIDER, why: `${what}: ${r.message}` });
  return new SvcError("provider_error", { provider: PROVIDER, why: `${what}: ${r.message}` });
}
