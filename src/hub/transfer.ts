// One exchange with the hub, with redirects followed by hand. Every call only reads, so it may be retried.
//
// T1. The token is sent only to the hub's own origin; a redirect to another host is followed without it.
// T2. https stays https. http is used only if the hub's own address is http, which is allowed only on this computer.
// T3. Connecting, waiting for an answer and reading it each end after `stallMs` without progress.
// T4. Errors name host and path, but not the query, which may be a signature.

import { Agent as PlainAgent, request as plainRequest, type IncomingMessage } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { throughProxy } from "../domain/proxy-env.ts";
import { connectionWords } from "../errors/connection-words.ts";
import { SvcError } from "../errors/index.ts";
import { abortReason } from "../domain/abort-reason.ts";

const REDIRECTS_MAX = 8;

export interface TransferOptions {
  /** Without a slash at its end. */
  baseUrl: string;
  token: string | null;
  userAgent: string;
  stallMs: number;
}

/** A failure that may pass; `waitMs` is the wait that the server requests. */
export class Transient extends Error {
  readonly error: SvcError;
  readonly waitMs: number | null;
  /** The server did not answer at all: connection refused, unknown name or untrusted certificate. */
  readonly unheard: boolean;
  constructor(error: SvcError, waitMs: number | null = null, { unheard = false } = {}) {
    super(error.message);
    this.error = error;
    this.waitMs = waitMs;
    this.unheard = unheard;
  }
}

export interface Reply {
  status: number;
  headers: IncomingMessage["headers"];
  /** Headers of the hub's own last answer, even if it was a redirect. */
  hub: IncomingMessage["headers"];
  /** Whether a host other than the hub's sent it. */
  elsewhere: boolean;
  host: string;
  /** Resolves with null at the end. Throws `Transient` when the body is cut or stalls. */
  read(): AsyncIterable<Buffer>;
  /** Drops the unread rest. */
  discard(): void;
}

export class Transfer {
  readonly base: URL;
  readonly #o: TransferOptions;
  readonly #agents = {
    plain: new PlainAgent({ keepAlive: true }),
    tls: new TlsAgent({ keepAlive: true, ...throughProxy(process.env) }),
  };

  constructor(options: TransferOptions) {
    this.#o = options;
    this.base = new URL(options.baseUrl);
  }

  close(): void {
    this.#agents.plain.destroy();
    this.#agents.tls.destroy();
  }

  /** The URL of a path on the hub; the caller escapes `path`. */
  urlOf(path: string): URL {
    const url = new URL(this.base);
    const [pathname = "", query] = path.split("?");
    url.pathname = this.base.pathname.replace(/\/+$/, "") + pathname;
    if (query !== undefined) url.search = query;
    return url;
  }

  /**
   * Throws `Transient` if no answer arrives, `hub_bad_answer` for a redirect that leads nowhere or must not be
   * followed.
   */
  async get(
    url: URL,
    options: { headers?: Record<string, string>; head?: boolean; signal: AbortSignal },
  ): Promise<Reply> {
    let at = url;
    let hub: IncomingMessage["headers"] = {};
    for (let hop = 0; hop <= REDIRECTS_MAX; hop++) {
      const ours = at.origin === this.base.origin;
      const response = await this.#one(at, ours, options);
      if (ours) hub = response.headers;
      const status = response.statusCode ?? 0;
      const { location } = response.headers;
      if (status < 300 || status >= 400 || status === 304 || location === undefined)
        return this.#reply(response, { status, hub, elsewhere: !ours, host: at.host }, options.signal);
      response.resume();
      at = this.#next(at, location);
    }
    throw bad(at, `it redirects more than ${REDIRECTS_MAX} times`);
  }

  #next(from: URL, location: string): URL {
    const next = URL.canParse(location, from) ? new URL(location, from) : null;
    if (next === null) throw bad(from, "it redirects to an invalid address");
    const allowed = next.protocol === "https:" || (next.protocol === "http:" && this.base.protocol === "http:");
    if (!allowed || next.username !== "" || next.password !== "")
      throw bad(from, `it redirects to ${next.protocol}//${next.host}, which is not followed`);
    return next;
  }

  #one(url: URL, ours: boolean, options: { headers?: Record<string, string>; head?: boolean; signal: AbortSignal }) {
    const { signal } = options;
    signal.throwIfAborted();
    const { token, userAgent, stallMs } = this.#o;
    const headers = {
      "user-agent": userAgent,
      // A compressed file has neither a length nor offsets at which to resume.
      "accept-encoding": "identity",
      ...options.headers,
      ...(ours && token !== null ? { authorization: `Bearer ${token}` } : {}),
    };
    const [send, agent] =
      url.protocol === "https:" ? [tlsRequest, this.#agents.tls] : [plainRequest, this.#agents.plain];
    return new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = send(url, { method: options.head ? "HEAD" : "GET", headers, agent });
      const abort = (): void => void outgoing.destroy(abortReason(signal));
      const stalled = setTimeout(() => outgoing.destroy(new Error(stalledFor(stallMs))), stallMs);
      const over = (): void => {
        clearTimeout(stalled);
        signal.removeEventListener("abort", abort);
      };
      signal.addEventListener("abort", abort, { once: true });
      outgoing.on("response", (response) => {
        over();
        resolve(response);
      });
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
        over();
        reject(signal.aborted ? abortReason(signal) : unreachable(url.host, error));
      });
      outgoing.end();
    });
  }

  #reply(
    response: IncomingMessage,
    about: Pick<Reply, "status" | "hub" | "elsewhere" | "host">,
    signal: AbortSignal,
  ): Reply {
    const { stallMs } = this.#o;
    return {
      ...about,
      headers: response.headers,
      read: () => reading(response, about.host, stallMs, signal),
      discard: () => void (response.readableEnded || response.destroy()),
    };
  }
}

async function* reading(
  response: IncomingMessage,
  host: string,
  stallMs: number,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const abort = (): void => void response.destroy(abortReason(signal));
  const stalled = setTimeout(() => response.destroy(new Error(stalledFor(stallMs))), stallMs);
  signal.addEventListener("abort", abort, { once: true });
  try {
    if (signal.aborted) abort();
    for await (const chunk of response) {
      yield chunk as Buffer;
      stalled.refresh();
    }
    if (!response.complete) throw unreachable(host, { code: "ECONNRESET" } as NodeJS.ErrnoException);
  } catch (e) {
    if (signal.aborted) throw abortReason(signal);
    throw e instanceof Transient ? e : unreachable(host, e as NodeJS.ErrnoException);
  } finally {
    clearTimeout(stalled);
    signal.removeEventListener("abort", abort);
    if (!response.readableEnded) response.destroy();
  }
}

const stalledFor = (ms: number): string => `nothing came for ${Math.round(ms / 100) / 10} s`;

const unreachable = (host: string, e: NodeJS.ErrnoException): Transient =>
  new Transient(new SvcError("hub_unreachable", { host, why: connectionWords(e) ?? e.message }, { cause: e }), null, {
    unheard: e.code !== "ECONNRESET",
  });

export const bad = (url: URL, why: string): SvcError =>
  new SvcError("hub_bad_answer", { what: `${url.host}${url.pathname}`, why });
