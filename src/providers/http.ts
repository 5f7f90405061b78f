// The one HTTP client for every provider's API. It does not trust an answer's length or form.
//
// H1. A call ends by its deadline, body included, and keeps at most `maxBytes` of the body, counted after
//     decompression. Its JSON is read once, within bounds of values and depth: others would keep the program busy for seconds.
// H2. A key goes to the configured address only: over https, or to this computer itself. Redirects are not followed.
// H3. Error texts name the method, the host and the path. They contain no keys, request bodies or query strings. If the
//     server repeats the credential of the request, it is removed from the answer, however its JSON writes it.
// H4. For a call without an answer, `mayHaveBeenSent` tells whether the request may have taken effect.

import { hash } from "node:crypto";
import { request as plainRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import type { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { boundedJson } from "../domain/bounded-json.ts";
import { proxyEnvOf, type ProxyEnv } from "../domain/proxy-env.ts";
import { Redactor } from "../domain/redaction.ts";
import { retryAfter } from "../domain/retry-after.ts";
import { connectionWords } from "../errors/connection-words.ts";
import { messageOf, SvcError } from "../errors/index.ts";
import { keepsSecrets } from "../schemas/address.ts";
import { NOTHING_MADE } from "./provider.ts";

const TIMEOUT_MS = 60_000;
/** Limit for name lookup, connection and TLS: a dead address must be reported before a user wonders. */
const CONNECT_MS = 9_000;
const BYTES_MAX = 8 * 1024 * 1024;
/** 8 MiB of offers have some 400,000 values, 32 MiB of machine types less than a million: their exact numbers take half a second. */
const JSON_BOUNDS = { values: 1_000_000, depth: 64 };
/** Limit for any requested wait: a machine that must be ended, and proven gone, costs money meanwhile. */
const RETRY_AFTER_MAX_MS = 2 * 60_000;

export interface HttpRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Begins with `/`; the caller escapes parts from other sources. */
  path: string;
  /** `undefined` omits a name; a list repeats it. */
  query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;
  headers?: Readonly<Record<string, string>>;
  json?: unknown;
  form?: Readonly<Record<string, string>>;
  signal?: AbortSignal | undefined;
  timeoutMs?: number;
  /** An answer that has begun and does not end in time counts with the bytes so far: for an endless log. */
  partly?: true;
}

export interface HttpAnswer {
  status: number;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  text: string;
  /**
   * The body as JSON, in which NaN, Infinity and whole numbers beyond 2^53 are read as text; undefined if it is not
   * JSON, or beyond the bounds. Each call returns the same value.
   */
  json(): unknown;
  /** An HTML page instead of an API answer. */
  isHtml: boolean;
  /** The delay that the provider requests before the next call; null if it requests none. */
  retryAfterMs: number | null;
}

export class ProviderHttp {
  readonly provider: string;
  readonly base: URL;
  private readonly timeoutMs: number;
  private readonly maxBytes: number;
  private readonly userAgent: string;
  private readonly proxy: ProxyEnv | undefined;

  /** Throws `provider_unavailable` if the address must not receive a key. */
  constructor(options: {
    provider: string;
    baseUrl: string;
    timeoutMs?: number;
    maxBytes?: number;
    userAgent: string;
    /** By default this process's environment: HTTPS_PROXY and NO_PROXY count. */
    env?: NodeJS.ProcessEnv;
  }) {
    this.provider = options.provider;
    this.base = safeBase(options.provider, options.baseUrl);
    this.timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.maxBytes = options.maxBytes ?? BYTES_MAX;
    this.userAgent = options.userAgent;
    this.proxy = proxyEnvOf(options.env ?? process.env);
  }

  /**
   * Any status counts as an answer, except a redirect (`provider_error`). Without an answer it throws
   * `provider_unreachable`, for an oversized body `provider_error`. An abort throws the signal's reason.
   */
  async call(request: HttpRequest): Promise<HttpAnswer> {
    const { signal } = request;
    signal?.throwIfAborted();
    const url = this.urlOf(request);
    const what = `${request.method} ${url.host}${url.pathname}`;
    const timeoutMs = request.timeoutMs ?? this.timeoutMs;
    const exchange = new Exchange(this.provider, what, timeoutMs);
    const abort = () => exchange.fail(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const answer = await exchange.run(() => this.open(url, request), {
        maxBytes: this.maxBytes,
        proofs: new Redactor(proofsOf(request)),
        partly: request.partly === true,
      });
      if (answer.status >= 300 && answer.status < 400)
        throw new SvcError("provider_error", {
          provider: this.provider,
          why: `${what} redirects to another address (status ${answer.status}), which is not followed`,
        });
      return answer;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  private urlOf(request: HttpRequest): URL {
    const url = new URL(this.base);
    url.pathname = this.base.pathname.replace(/\/+$/, "") + request.path;
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value === undefined) continue;
      for (const one of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(one));
    }
    return url;
  }

  private open(url: URL, request: HttpRequest): ClientRequest {
    const body =
      request.json !== undefined
        ? JSON.stringify(request.json)
        : request.form !== undefined
          ? new URLSearchParams(request.form).toString()
          : null;
    const headers: Record<string, string | number> = {
      accept: "application/json",
      "accept-encoding": "gzip",
      "user-agent": this.userAgent,
      ...(body === null ? {} : { "content-type": request.form ? FORM : "application/json" }),
      ...(body === null && request.method === "GET" ? {} : { "content-length": Buffer.byteLength(body ?? "") }),
      ...request.headers,
    };
    // Each call uses its own connection: a server may close a kept one during a request that costs money.
    const isTls = url.protocol === "https:";
    const agent = isTls && this.proxy !== undefined ? new TlsAgent({ proxyEnv: { ...this.proxy } }) : false;
    const outgoing = (isTls ? tlsRequest : plainRequest)(url, { method: request.method, headers, agent });
    outgoing.end(body ?? undefined);
    return outgoing;
  }
}

/** A client whose address is read again at every call. */
export function clientOf(
  baseUrl: () => string,
  options: Omit<ConstructorParameters<typeof ProviderHttp>[0], "baseUrl">,
): () => ProviderHttp {
  let last: { url: string; http: ProviderHttp } | undefined;
  return () => {
    const url = baseUrl();
    if (last?.url !== url) last = { url, http: new ProviderHttp({ ...options, baseUrl: url }) };
    return last.http;
  };
}

const FORM = "application/x-www-form-urlencoded";

/** A shorter credential could also be a word of the answer's own form. */
const PROOF_MIN = 8;

/** The credentials in a request; for a name and a password, the password alone as well. */
function proofsOf({ headers = {}, form = {} }: HttpRequest): string[] {
  const shown = Object.entries(headers).filter(([name]) => /^authorization$|token$|key$/i.test(name));
  const given = Object.entries(form).filter(([name]) => /assertion|secret|token/i.test(name));
  const proofs = shown.flatMap(([, value]) => {
    const [, basic] = /^Basic +(.+)$/i.exec(value) ?? [];
    if (basic === undefined) return [value.replace(/^Bearer +/i, "")];
    return [
      basic,
      Buffer.from(basic, "base64")
        .toString("utf8")
        .replace(/^[^:]*:/, ""),
    ];
  });
  return [...proofs, ...given.map(([, value]) => value)].filter((proof) => proof.length >= PROOF_MIN);
}

/** Before the handshake has ended it is null or `unknown`. */
const isSecure = (socket: TLSSocket): boolean => (socket.getProtocol() ?? "").startsWith("TLS");

interface Wanted {
  maxBytes: number;
  proofs: Redactor;
  partly: boolean;
}

/** One request and its answer. */
class Exchange {
  private readonly provider: string;
  private readonly what: string;
  private readonly timeoutMs: number;
  /** From here on bytes of the request may have left this computer. */
  private sent = false;
  private outgoing: ClientRequest | undefined;
  private settled = false;
  private timer: NodeJS.Timeout | undefined;
  private connecting: NodeJS.Timeout | undefined;
  private reject: (reason: unknown) => void = () => undefined;
  /** Settles with the bytes so far, if a part counts. */
  private settlePart: (() => void) | null = null;

  constructor(provider: string, what: string, timeoutMs: number) {
    this.provider = provider;
    this.what = what;
    this.timeoutMs = timeoutMs;
  }

  run(open: () => ClientRequest, want: Wanted): Promise<HttpAnswer> {
    return new Promise<HttpAnswer>((resolve, reject) => {
      this.reject = reject;
      const late = () => this.settlePart?.() ?? this.unreachable(`no answer within ${this.timeoutMs / 1000} s`);
      this.timer = setTimeout(late, this.timeoutMs);
      this.connecting = setTimeout(
        () => this.unreachable(`no connection within ${CONNECT_MS / 1000} s: nothing answers at its address`),
        CONNECT_MS,
      );
      const settle = (answer: HttpAnswer) => {
        if (this.settled) return;
        this.settled = true;
        this.clearTimers();
        resolve(answer);
      };
      try {
        this.outgoing = open();
      } catch (e) {
        return this.fail(neverSent(this.unsendable(e)));
      }
      const connected = () => {
        this.sent = true;
        clearTimeout(this.connecting);
      };
      this.outgoing.on("socket", (socket) => {
        // A socket from a proxy's tunnel may have completed its handshake before it arrives here.
        if (!socket.connecting && "encrypted" in socket && isSecure(socket as TLSSocket)) connected();
        else socket.on("encrypted" in socket ? "secureConnect" : "connect", connected);
      });
      this.outgoing.on("error", (e) => this.unreachable(plainWords(e), e));
      this.outgoing.on("response", (response) => this.receive(response, want, settle));
    });
  }

  /** Ends the exchange; only the first reason counts. */
  fail(reason: unknown): void {
    if (this.settled) return;
    this.settled = true;
    this.clearTimers();
    this.reject(reason);
    this.outgoing?.destroy();
  }

  private clearTimers(): void {
    clearTimeout(this.timer);
    clearTimeout(this.connecting);
  }

  private unreachable(why: string, cause?: unknown): void {
    const error = new SvcError(
      "provider_unreachable",
      { provider: this.provider, why: `${this.what}: ${why}` },
      { cause },
    );
    this.fail(this.sent ? error : neverSent(error));
  }

  private unsendable(e: unknown): SvcError {
    const code = (e as { code?: unknown } | null)?.code;
    if (code === "ERR_INVALID_CHAR")
      return new SvcError("credential_refused", {
        provider: this.provider,
        why: "it holds a line break or another character that no key has",
      });
    return new SvcError("provider_error", {
      provider: this.provider,
      why: `${this.what} could not be put together (${typeof code === "string" ? code : "unknown reason"})`,
    });
  }

  private receive(
    response: IncomingMessage,
    { maxBytes, proofs, partly }: Wanted,
    settle: (answer: HttpAnswer) => void,
  ): void {
    response.on("error", (e) => this.unreachable(`the answer broke off (${plainWords(e)})`, e));
    const body = inflated(response);
    if (body === null)
      return this.fail(
        new SvcError("provider_error", {
          provider: this.provider,
          why: `${this.what}: the answer has an encoding that svc did not request`,
        }),
      );
    const chunks: Buffer[] = [];
    let bytes = 0;
    const answer = () => answerOf(response, proofs.redactText(Buffer.concat(chunks).toString("utf8")), proofs);
    if (partly)
      this.settlePart = () => {
        settle(answer());
        this.outgoing?.destroy();
      };
    body.on("error", (e) => this.unreachable("the answer broke off or is damaged", e));
    body.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) return void chunks.push(chunk);
      body.destroy();
      if (this.settlePart) return this.settlePart();
      this.fail(
        new SvcError("provider_error", {
          provider: this.provider,
          why: `${this.what}: the answer is larger than ${maxBytes} bytes`,
        }),
      );
    });
    body.on("end", () => {
      if (!response.complete) return this.unreachable("the answer broke off");
      settle(answer());
    });
  }
}

function inflated(response: IncomingMessage): Readable | null {
  const coding = (response.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (coding === "identity" || coding === "" || response.statusCode === 204) return response;
  if (coding === "gzip" || coding === "x-gzip") return response.pipe(createGunzip());
  if (coding === "deflate") return response.pipe(createInflate());
  if (coding === "br") return response.pipe(createBrotliDecompress());
  return null;
}

/**
 * Some servers write NaN and Infinity, which are not JSON. One bad price must not hide every machine of the account,
 * because then none could be found or proven gone. They are read as text: a value that is present, not null, and not a
 * number.
 */
const withoutNaN = (text: string): string =>
  // An unterminated string counts to the end of the text: searching it again at every quote would take hours.
  text.replace(/"(?:[^"\\]+|\\[^]?)*"?|[-+]?\b(?:nan|inf|infinity)\b/gi, (token) =>
    token.startsWith('"') ? token : `"${token}"`,
  );

/** The start of a whole number that a double may not hold, outside of a text or, harmlessly, within one. */
const LONG_NUMBER = /[[:,]\s*-?\d{16}/;

/**
 * A value of JSON; undefined if the text is not JSON. A rounded id would name another machine, or none, so a whole
 * number that a double cannot hold stays its digits.
 */
function exactJsonOf(text: string): unknown {
  const exact = (_key: string, value: unknown, { source = "" }: { source?: string } = {}): unknown =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? source : value;
  return boundedJson(text.replace(/^\uFEFF/, ""), JSON_BOUNDS, LONG_NUMBER.test(text) ? exact : undefined);
}

function jsonOf(text: string, proofs: Redactor): unknown {
  const value = exactJsonOf(text) ?? exactJsonOf(withoutNaN(text));
  // Escapes can write the credential in forms that the search of the text does not know.
  return text.includes("\\") ? proofs.redactValue(value) : value;
}

function answerOf(response: IncomingMessage, text: string, proofs: Redactor): HttpAnswer {
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(", ") : (value ?? ""),
    ]),
  );
  let parsed: { value: unknown } | undefined;
  return {
    status: response.statusCode ?? 0,
    headers,
    text,
    json: () => (parsed ??= { value: jsonOf(text, proofs) }).value,
    isHtml: /\bhtml\b/i.test(headers["content-type"] ?? "") || /^\s*<(!doctype|html|head|body)\b/i.test(text),
    retryAfterMs: retryAfterMs(headers, Date.parse(headers["date"] ?? "")),
  };
}

/** The delay in `Retry-After` or a `RateLimit` header of either form. `nowMs` is the provider's own clock. */
export function retryAfterMs(headers: Readonly<Record<string, string>>, nowMs: number): number | null {
  const afterMs = retryAfter(headers["retry-after"], nowMs);
  if (afterMs !== null) return within(afterMs);
  const limit = headers["ratelimit"] ?? "";
  const left = /\b(?:r|remaining)=(\d+)/.exec(limit)?.[1] ?? headers["ratelimit-remaining"];
  const reset = /\b(?:t|reset)=(\d{1,9})/.exec(limit)?.[1] ?? headers["ratelimit-reset"];
  if (left?.trim() === "0" && reset !== undefined && /^\d{1,9}$/.test(reset.trim()))
    return within(Number(reset) * 1000);
  return null;
}
const within = (ms: number): number => Math.min(Math.max(0, Math.ceil(ms)), RETRY_AFTER_MAX_MS);

const unsent = new WeakSet<object>();
/**
 * Marks an error as thrown before anything left this computer, or as a refusal that came before the request was carried
 * out.
 */
export function neverSent<E extends Error>(error: E): E {
  unsent.add(error);
  return error;
}

/** Wraps the preparations of an order: if they fail, no order has left this computer. */
export async function beforeSending<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (e) {
    throw e instanceof Error ? neverSent(e) : e;
  }
}

/**
 * False only if the request certainly had no effect: no name, no connection, no TLS, no slot in time, or refused
 * unread.
 */
export function mayHaveBeenSent(error: unknown): boolean {
  for (let e = error; typeof e === "object" && e !== null; e = (e as { cause?: unknown }).cause)
    if (unsent.has(e)) return false;
  return true;
}

/**
 * Interprets a failed create call. Only errors that prove that nothing was made stay unchanged; all others become
 * `outcome_unknown`.
 */
export function outcomeOfCreate(error: unknown, provider: string, what: string): SvcError {
  if (error instanceof SvcError && (NOTHING_MADE.has(error.code) || !mayHaveBeenSent(error))) return error;
  return new SvcError("outcome_unknown", { provider, what }, { cause: error });
}

function safeBase(provider: string, baseUrl: string): URL {
  const refuse = (why: string): never => {
    throw new SvcError("provider_unavailable", { provider, why });
  };
  if (!URL.canParse(baseUrl)) return refuse("the address of its API is not a URL");
  const url = new URL(baseUrl);
  if (url.username !== "" || url.password !== "") return refuse("the address of its API holds a user or a password");
  if (!keepsSecrets(url))
    return refuse(
      `the address of its API must begin with https:// (${url.protocol}//${url.host} would show the key to others)`,
    );
  url.search = "";
  url.hash = "";
  return url;
}

/** Distinguishes two keys without storing one. */
const keyPrint = (secret: string): string => `key:${hash("sha256", secret, "hex").slice(0, 12)}`;

/**
 * The account that a key opens, for `accountId`: its name, if the provider has told it, and always the key's fingerprint, which can be
 * compared when the provider tells no name.
 */
export const accountText = (name: string | null, secret: string): string =>
  name === null ? keyPrint(secret) : `${name} ${keyPrint(secret)}`;

/** Node's own texts, such as "socket hang up", contain nothing of the request. */
const plainWords = (error: unknown): string => connectionWords(error) ?? messageOf(error);
