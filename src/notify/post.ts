// Sends one HTTP request to a target. It trusts neither the address nor the answer.
//
// P1. Only checked addresses are connected to (public-address.ts). Public ones over https alone; plain http needs `allow_private`.
// P2. A redirect is an answer like any other refusal: it is not followed.
// P3. The request ends by its deadline, answer included. At most ANSWER_BYTES_MAX of a refusal are read. A 2xx accepts the message by
//     its status: its body is not waited for, since a receiver that keeps it open would get the message again.
// P4. Error texts hold the host, never the path: the path of a Slack or Discord address is its secret. What the target repeats of
//     it is masked before the answer is cut.
// P5. Through a proxy (HTTPS_PROXY), the proxy resolves the name; addresses and names that lead inside are refused there, too.
//     A host that NO_PROXY names is resolved and checked here.

import { request as plainRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { lookup as systemLookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { callbackify } from "node:util";
import { connectionWords } from "../errors/connection-words.ts";
import { messageOf as wordsOf, SvcError } from "../errors/index.ts";
import type { Redactor } from "../domain/redaction.ts";
import { retryAfter } from "../domain/retry-after.ts";
import { proxyEnvOf, throughProxy } from "../domain/proxy-env.ts";
import { isPublicAddress, lookupOf, pinnedAddresses, type Resolver } from "./public-address.ts";
import { saidBy } from "./sender.ts";

export const ANSWER_BYTES_MAX = 16 * 1024;
/** Limit for a wait that a target asks for. */
const RETRY_AFTER_MS_MAX = 3_600_000;

export interface PostRequest {
  /** For messages. */
  target: string;
  url: string;
  headers: Readonly<Record<string, string>>;
  body: string;
  allowPrivate: boolean;
  signal: AbortSignal;
  env: NodeJS.ProcessEnv;
  /** Masks what the target repeats of its secret and of its address. */
  quiet: Redactor;
  resolver?: Resolver;
}

/** Resolves when the target has accepted the request (2xx). Throws `notify_*`. */
export async function post(request: PostRequest): Promise<void> {
  const { target } = request;
  const url = new URL(request.url);
  if (url.protocol !== "https:" && !request.allowPrivate)
    throw new SvcError("notify_address", { host: url.host, why: "its address does not begin with https://" });
  let answer: Answered;
  try {
    answer = await exchange(url, request, await connectionOf(url, request));
  } catch (e) {
    if (e instanceof SvcError) throw e;
    const why = request.signal.aborted
      ? "it did not answer in time"
      : `${url.host}: ${connectionWords(e) ?? saidBy(wordsOf(e), request)}`;
    throw new SvcError("notify_unreachable", { target, why }, { cause: e });
  }
  const { status, text } = answer;
  if (accepts(status)) return;
  const said = saidBy(text, request);
  const why = `${url.host} answers ${status}${said === "" ? "" : ` (${said})`}`;
  if (status >= 300 && status < 400)
    throw new SvcError("notify_unreachable", {
      target,
      why: `${url.host} redirects elsewhere (${status}), and svc does not follow`,
    });
  if (status === 400 || status === 413 || status === 422) throw new SvcError("notify_refused", { target, why });
  throw new RetryAfter(target, why, answer.retryAfterMs);
}

/** The target asks for a pause. */
export class RetryAfter extends SvcError<"notify_unreachable"> {
  readonly delayMs: number;
  constructor(target: string, why: string, delayMs: number) {
    super("notify_unreachable", { target, why });
    this.delayMs = delayMs;
  }
}

/** P1, P5. */
async function connectionOf(url: URL, request: PostRequest): Promise<RequestOptions> {
  const { allowPrivate, env, resolver } = request;
  const rules = { allowPrivate, ...(resolver ? { resolver } : {}) };
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const proxied = url.protocol === "https:" && !allowPrivate && proxyEnvOf(env) !== undefined;
  if (proxied && isIP(host) === 0) {
    if (/(^|\.)(localhost|local|internal|localdomain|lan|home\.arpa)\.?$/i.test(host) || !/\../.test(host))
      throw new SvcError("notify_address", { host, why: "it is a name of a private network" });
    // NO_PROXY may name this host: the connection is then a direct one, to an address that is checked here.
    const lookup: LookupFunction = (name, options, callback) => {
      if (name !== host) return systemLookup(name, options, callback);
      callbackify(pinnedAddresses)(name, rules, (error, pinned) =>
        error === null ? lookupOf(pinned)(name, options, callback) : callback(error, "", 4),
      );
    };
    return { agent: new TlsAgent({ ...throughProxy(env), keepAlive: false }), lookup };
  }
  const pinned = await pinnedAddresses(host, rules);
  const outside = url.protocol === "https:" ? undefined : pinned.find(({ address }) => isPublicAddress(address));
  if (outside !== undefined)
    throw new SvcError("notify_address", {
      host,
      why: `plain http may not leave your network, and ${outside.address} is not in it`,
    });
  return { agent: false, lookup: lookupOf(pinned) };
}

interface Answered {
  status: number;
  text: string;
  retryAfterMs: number;
}

function exchange(url: URL, { headers, body, signal }: PostRequest, options: RequestOptions): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const send = url.protocol === "https:" ? tlsRequest : plainRequest;
    const length = Buffer.byteLength(body);
    const request = send(
      url,
      {
        ...options,
        method: "POST",
        signal,
        headers: { "user-agent": "svc", ...headers, "content-length": String(length) },
      },
      (answer) => {
        const { statusCode: status = 0 } = answer;
        if (accepts(status)) {
          answer.destroy();
          return resolve({ status, text: "", retryAfterMs: 0 });
        }
        readSome(answer).then((text) => resolve({ status, text, retryAfterMs: retryAfterOf(answer) }), reject);
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

const accepts = (status: number): boolean => status >= 200 && status < 300;

/** P3. Bytes that come later are not waited for. */
async function readSome(answer: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of answer) {
    const bytes = Buffer.from(part);
    parts.push(bytes);
    length += bytes.length;
    if (length >= ANSWER_BYTES_MAX) break;
  }
  answer.destroy();
  return Buffer.concat(parts).toString("utf8", 0, ANSWER_BYTES_MAX);
}

function retryAfterOf({ headers }: IncomingMessage): number {
  return Math.min(RETRY_AFTER_MS_MAX, retryAfter(headers["retry-after"], Date.parse(headers.date ?? "")) ?? 0);
}
