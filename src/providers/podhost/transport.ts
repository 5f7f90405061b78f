// The shared parts of the pod host's two APIs: the key, the rate limit, and the meaning of a status.

import { firstChars } from "../../domain/terminal-text.ts";
import { SvcError } from "../../errors/index.ts";
import { clientOf, neverSent, type HttpAnswer, type HttpRequest, type ProviderHttp } from "../http.ts";
import { RateLimiter } from "../rate-limiter.ts";
import type { RemoteOptions } from "../remote.ts";

export const PODHOST = "podhost";
const USER_AGENT = "svc/0.1 (training control plane)";
/** Maximum length of a provider's message shown to a person. */
const WORDS_MAX = 450;

const NOT_KNOWN = "it does not know the key (status 401): it is wrong, or was revoked";

export const DAMAGED = "its list of pods is damaged: it holds a pod that cannot be read";

/** The purpose of a call; `look` searches for a machine that may cost money. A missing permission is the key's fault only while the user can still choose another key. */
export type Purpose = "read" | "account" | "rent" | "release" | "look" | "log";

const retirements = new WeakSet<object>();
/** The API itself says that it is not served any more: the request was not carried out. A page from a proxy does not prove that. */
export const saysRetired = (error: unknown): boolean =>
  typeof error === "object" && error !== null && retirements.has(error);

/** A page in place of an answer: "not found" or "not allowed", without JSON. An API that is not served any more, or a proxy, gives it. */
export const isBarePage = (answer: Pick<HttpAnswer, "status" | "json">): boolean =>
  (answer.status === 404 || answer.status === 405) && answer.json() === undefined;

/** The state of the GraphQL API according to an answer: it announces its retirement, it limits requests, a bare page came, or none of these. */
export type GraphqlSign = "ends" | "limited" | "page" | "well";

const turnedAway = new WeakMap<object, number>();
/** Milliseconds, at least WAIT_MS, that an order must wait after "too many requests" before it was carried out; null for other errors. */
export const waitAfterRefusal = (error: unknown): number | null =>
  typeof error === "object" && error !== null ? (turnedAway.get(error) ?? null) : null;
export const WAIT_MS = 2_000;

export class PodTransport {
  readonly #o: RemoteOptions;
  /** One for each API: each has its own limits. */
  readonly #limiters: Readonly<Record<"graphql" | "rest", RateLimiter>>;
  readonly #heard: (sign: GraphqlSign) => void;
  readonly #http: () => ProviderHttp;
  /** Every key that was sent. The owner may have changed or removed it when the answer arrives. */
  readonly #sent = new Set<string>();

  constructor(options: RemoteOptions, heard: (sign: GraphqlSign) => void) {
    this.#o = options;
    this.#heard = heard;
    this.#http = clientOf(() => options.baseUrl.replace(/\/+$/, "").replace(/\/graphql$/, ""), {
      provider: PODHOST,
      userAgent: USER_AGENT,
    });
    const limiter = () =>
      new RateLimiter({ provider: PODHOST, minIntervalMs: 0, now: options.now, pause: options.pause });
    this.#limiters = { graphql: limiter(), rest: limiter() };
  }

  /** Returns an answer of 2xx with JSON (or nothing) in it, or one of 400, 402, 403, 404, 405, 409, 410 and 422. */
  async call(request: HttpRequest, purpose: Purpose): Promise<HttpAnswer> {
    const { secret } = this.#o.credential();
    const http = this.#http();
    // Machines that cost money are released, and searched for, regardless of rate limits.
    const isGraphql = request.path === "/graphql";
    const limiter = this.#limiters[isGraphql ? "graphql" : "rest"];
    if (purpose !== "release" && purpose !== "look") await limiter.slot(request.signal);
    if (secret !== "") this.#sent.add(secret);
    const answer = await http.call({
      ...request,
      headers: { ...request.headers, authorization: `Bearer ${secret}` },
    });
    const { status } = answer;
    if (isGraphql) this.#heard(signOf(answer));
    if (status === 401)
      throw new SvcError("credential_refused", { provider: PODHOST, why: `${NOT_KNOWN}${this.#said(answer)}` });
    if (status === 429) {
      const wait = answer.retryAfterMs ?? 0;
      limiter.hold(wait);
      const when = wait > 0 ? `it asks svc to retry in ${Math.ceil(wait / 1000)} s` : "svc retries later";
      const error = this.error(`too many requests (status 429${this.#said(answer)}); ${when}`);
      // A proxy's error page without a delay could mean that the proxy forwarded the request.
      if (answer.retryAfterMs !== null || wordsOf(answer.json()).length > 0) {
        turnedAway.set(error, Math.max(WAIT_MS, wait));
        neverSent(error);
      }
      throw error;
    }
    const full =
      purpose === "rent" && status === 503 ? refusalOf(this.scrub(wordsOf(answer.json()).join("; ")), "") : null;
    if (full?.code === "offer_taken") throw full;
    if (status >= 500 || !EXPECTED.has(status)) throw this.error(`status ${status}${this.#said(answer)}`);
    const judged = purpose === "account" || purpose === "rent";
    if (status === 403 && (answer.isHtml || answer.json() === undefined || !judged))
      throw this.error(`it denies access (status 403)${this.#said(answer)}`);
    if (status === 403)
      throw new SvcError("credential_refused", {
        provider: PODHOST,
        why: `the key may not do this (status 403): it is for reading only, or limited otherwise${this.#said(answer)}`,
      });
    if (status < 300 && answer.isHtml) throw this.error("a web page came in place of an answer");
    if (status < 300 && purpose !== "log" && answer.text.trim() !== "" && answer.json() === undefined)
      throw this.error("the answer is not JSON, or it was cut short");
    return answer;
  }

  readonly now = (): number => this.#o.now();

  error(why: string): SvcError<"provider_error"> {
    return new SvcError("provider_error", { provider: PODHOST, why: this.scrub(why) });
  }

  retired(why: string): SvcError<"provider_error"> {
    const error = this.error(why);
    retirements.add(error);
    return error;
  }

  /**
   * One short line of the provider's text, without a key. Never throws, even if the current settings
   * are unusable.
   */
  scrub(words: string): string {
    const plain = [...this.#sent].reduce((text, key) => text.replaceAll(key, "[key]"), words);
    return firstChars(plain.replace(/[\s\p{Cc}]+/gu, " ").trim(), WORDS_MAX);
  }

  #said(answer: HttpAnswer): string {
    const words = this.scrub(wordsOf(answer.json()).join("; "));
    // A proxy answers with plain text: it is the only clue.
    const plain = words === "" && !answer.isHtml && answer.json() === undefined ? this.scrub(answer.text) : words;
    return plain === "" ? "" : `: ${plain}`;
  }
}

const EXPECTED = new Set([200, 201, 202, 204, 400, 402, 403, 404, 405, 409, 410, 422]);

const RETIREMENT = /\b(deprecat|sunset|retire|end[- ]of[- ]life)/i;

function signOf(answer: HttpAnswer): GraphqlSign {
  if (answer.status === 429) return "limited";
  if (isBarePage(answer)) return "page";
  return announcesItsEnd(answer) ? "ends" : "well";
}

/** Announced by a header, or by text next to the data. */
function announcesItsEnd(answer: HttpAnswer): boolean {
  const { deprecation = "", sunset = "", warning = "" } = answer.headers;
  if ((deprecation !== "" && deprecation !== "false") || sunset !== "" || RETIREMENT.test(warning)) return true;
  const body = answer.json();
  if (typeof body !== "object" || body === null) return false;
  const beside = Object.entries(body).filter(([name]) => name !== "data" && name !== "errors");
  return beside.length > 0 && RETIREMENT.test(JSON.stringify(beside));
}

/** The error messages of an answer, in any of its forms. */
export function wordsOf(body: unknown): string[] {
  if (typeof body !== "object" || body === null) return [];
  const { errors, detail, title, message, error } = body as Record<string, unknown>;
  const [main] = [detail, title, message, error].map(sentencesIn).filter((words) => words.length > 0);
  return [...(main ?? []), ...(Array.isArray(errors) ? sentencesIn(errors) : [])];
}

/** A text, or the `message`, `msg` or `detail` of objects and lists of them. */
function sentencesIn(value: unknown): string[] {
  if (typeof value === "string") return value.trim() === "" ? [] : [value];
  if (Array.isArray(value)) return value.slice(0, 20).flatMap((one: unknown) => sentencesIn(one));
  if (typeof value !== "object" || value === null) return [];
  const { message, msg, detail } = value as Record<string, unknown>;
  const words = [message, msg, detail].find((one) => typeof one === "string" && one.trim() !== "");
  return typeof words === "string" ? [words] : [];
}

const CAPACITY =
  /no (longer any )?instances (currently )?available|no longer any instances|no compatible cuda host|does not have the resources|not enough free gpus|(no|insufficient|out of) (capacity|resources|stock|gpus)|not enough disk space|(no|zero) (gpu|machine|host)s? (is |are )?(currently )?available|unable to find .*(capacity|machine|gpu)/i;
const FUNDS = /balance is too low|insufficient (funds|balance|credit)|not enough (funds|credit|balance)|add funds/i;
const QUOTA = /spend(ing)? limit|quota|limit (is |was |has been )?(reached|exceeded)|exceeds? .*limit|too many pods/i;
const RIGHTS =
  /unauthori[sz]ed|unauthenticated|not authenticated|invalid (api )?key|forbidden|access denied|permission/i;

/** A message for any failure, even after the machine was made. */
export const saysNothing = (words: string): boolean => /something went wrong/i.test(words);

/** The meaning of a refusal to rent, if its message leaves no doubt that nothing was made. */
export function refusalOf(words: string, offer: string): SvcError | null {
  const provider = PODHOST;
  if (CAPACITY.test(words)) return new SvcError("offer_taken", { provider, offer, why: lower(words) });
  if (FUNDS.test(words)) return new SvcError("no_funds", { provider, why: lower(words) });
  if (QUOTA.test(words)) return new SvcError("no_quota", { provider, why: lower(words) });
  if (RIGHTS.test(words)) return new SvcError("credential_refused", { provider, why: lower(words) });
  return null;
}
/** For the middle of a sentence. */
const lower = (words: string): string => words.replace(/[.\s]+$/, "");
