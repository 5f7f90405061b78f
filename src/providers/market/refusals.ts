// Interprets unsuccessful answers. The same refusal comes with several statuses and in several forms, so the message
// decides before the status does. Seen up to October 2026.
//
// F1. A bad key may arrive as 404: it never means "this machine does not exist".
// F2. For a create call, only an answer with a clear reason and without a contract means that nothing was made. By its
//     documentation these are 400, 401, 403, 404, 410 and 429; 402, 409 and 422 refuse a request before it is carried
//     out as well. Any 5xx (except a 503 that names the lack of capacity), 408, a page, and an order that was queued
//     leave it open.

import { oneLine } from "../../domain/terminal-text.ts";
import { SvcError } from "../../errors/index.ts";
import { neverSent, type HttpAnswer } from "../http.ts";
import { objectOf, textOf } from "./wire.ts";

const PROVIDER = "market";
/** Maximum length of a quoted message: its longest ones name an offer, a reason and an address. */
const WORDS_MAX = 600;

export interface Refusal {
  status: number;
  /** The provider's own code; empty if the answer has none. */
  code: string;
  /** For people: one line, without control characters. */
  words: string;
}

/** One line of a provider's text: no control characters, bounded, never with the key in it. */
export const providerLine = (text: string, secret = ""): string =>
  oneLine(secret.length < 4 ? text : text.split(secret).join("…"), WORDS_MAX);

export function refusalOf(answer: HttpAnswer, secret = ""): Refusal {
  const { status } = answer;
  if (answer.isHtml) return { status, code: "", words: `a page for people instead of an answer (status ${status})` };
  const body = objectOf(answer);
  const nested = objectIn(body?.error);
  const code = textOf(body?.error) || textOf(nested?.code) || textOf(nested?.error);
  const told = [body?.msg, body?.message, detailOf(body?.detail), nested?.msg, nested?.message].map(textOf);
  const text = body === null ? answer.text : told.find((part) => part !== "");
  const words = providerLine([code, text ?? ""].filter((part) => part !== "").join(": "), secret);
  return { status, code, words: words === "" ? `status ${status}` : words };
}

/** A list names refused fields: `{"loc":["body","image"],"msg":"field required"}`. */
function detailOf(detail: unknown): unknown {
  if (!Array.isArray(detail)) return detail;
  const lines = detail.slice(0, 5).map((one: unknown) => {
    if (typeof one === "string") return one;
    const { loc, msg } = objectIn(one) ?? {};
    const field = Array.isArray(loc) ? loc.filter((part) => typeof part === "string" && part !== "body").join(".") : "";
    return [field, textOf(msg)].filter((part) => part !== "").join(": ");
  });
  return lines.filter((line) => line !== "").join("; ");
}

const objectIn = (value: unknown): Record<string, unknown> | null =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;

const NO_KEY = /\bauth_error\b|invalid (user|api)[ _]key|\bnot_authorized\b/i;
/** The provider refuses the key, or the key lacks a permission. */
export const isAboutKey = (answer: HttpAnswer, { status, code, words }: Refusal): boolean =>
  !answer.isHtml &&
  (status === 401 ||
    (NO_KEY.test(`${code} ${words}`) && (status >= 400 || objectOf(answer)?.success === false)) ||
    (status === 403 && objectOf(answer) !== null));

/** The problem of the key, as far as the answer shows it. */
const keyWords = ({ status, words }: Refusal): string =>
  status === 403
    ? `the key may not do this: it is for reading only, or limited otherwise (${words})`
    : `it does not know the key: it is wrong, or was revoked (${words})`;

/** Too many requests. It has three forms: bare text, `detail`, and the usual form. */
export const isTooOften = (answer: HttpAnswer, { status, code, words }: Refusal): boolean =>
  status === 429 ||
  ((status >= 400 || objectOf(answer)?.success === false) &&
    (code === "rate_limit_exceeded" || /requests too frequent/i.test(words)));

/**
 * 429 in the provider's own words, or with a delay: the request was not carried out. A page from a proxy without either
 * could mean a request that was passed on.
 */
export const isClearlyTooOften = (answer: HttpAnswer, refusal: Refusal): boolean =>
  isTooOften(answer, refusal) && (answer.retryAfterMs !== null || (!answer.isHtml && answer.text.trim() !== ""));

export const saysNoSuchMachine = (answer: HttpAnswer, refusal: Refusal): boolean =>
  !isAboutKey(answer, refusal) &&
  objectOf(answer) !== null &&
  /^(no_such_instance|not_found)$|no such instance|instance[^.]{0,40} not found/i.test(refusal.code || refusal.words) &&
  (refusal.status === 404 || refusal.status === 410 || objectOf(answer)?.success === false);

/** "Not found" in the provider's form, in words that name no machine: a retired address would answer so, too. */
export const isUnclearNotFound = (answer: HttpAnswer, refusal: Refusal): boolean =>
  (refusal.status === 404 || refusal.status === 410) && objectOf(answer) !== null && !isAboutKey(answer, refusal);

/** The provider serves nothing at this address any more: that says nothing about a machine or an offer. */
export const isRetiredAddress = (answer: HttpAnswer, { status, code, words }: Refusal): boolean =>
  (status === 404 || status === 410) &&
  objectOf(answer) !== null &&
  /deprecated|endpoint|no longer (served|supported)|api version/i.test(`${code} ${words}`);

/** The error for an unsuccessful answer. Not for create calls. */
export function refused(answer: HttpAnswer, what: string, secret: string): SvcError {
  const refusal = refusalOf(answer, secret);
  if (isAboutKey(answer, refusal))
    return new SvcError("credential_refused", { provider: PROVIDER, why: keyWords(refusal) });
  const why = isTooOften(answer, refusal) ? `it received too many requests (${refusal.words})` : refusal.words;
  return new SvcError("provider_error", { provider: PROVIDER, why: `${what}: ${why}` });
}

const OFFER_GONE =
  /no_such_ask|no longer available|not available|already (been )?rented|offer (is )?(gone|taken|expired|not found)/i;
/** The least bid has risen since the search. */
const BID_LOW = /\binvalid_price\b|\bbid\b[^.]{0,40}\b(too )?low|below the min/i;
const QUEUED = /queued|scheduled/i;
const NO_FUNDS = /insufficient_credit|insufficient (credit|funds|balance)/i;
const NO_QUOTA = /spend_rate_limit|missing_billing/i;
/**
 * Statuses that refuse a request before it is carried out, if the answer is in the provider's own form and gives a
 * reason.
 */
const CLEAR = new Set([400, 402, 404, 409, 410, 422]);
/** The message of a failure, also of one after the machine was made. */
const SAYS_NOTHING = /something went wrong|internal|unknown error|unexpected|try again/i;
/** The only messages with which a 503 is a refusal: it names the offer, or the lack of capacity. */
const NO_ROOM = /no_such_ask|no longer available|already (been )?rented|(no|out of|insufficient) (capacity|resources)/i;

/**
 * The result of a create call whose answer names no contract: an error of NOTHING_MADE if the answer says so (F2), one
 * that counts as never sent after too many requests, else `outcome_unknown`.
 */
export function createRefused(answer: HttpAnswer, offer: string, secret: string): SvcError {
  const refusal = refusalOf(answer, secret);
  const { status, code, words } = refusal;
  const text = `${code} ${words}`;
  const said = { provider: PROVIDER, why: words };
  const body = objectOf(answer);
  const refuses = body !== null && (CLEAR.has(status) || (status === 200 && body.success === false));
  const saysWhy = code !== "" || (words !== `status ${status}` && !SAYS_NOTHING.test(words));
  if (isAboutKey(answer, refusal))
    return new SvcError("credential_refused", { provider: PROVIDER, why: keyWords(refusal) });
  if (refuses && !QUEUED.test(text)) {
    if (isRetiredAddress(answer, refusal)) return new SvcError("provider_refused", said);
    if (OFFER_GONE.test(text) || BID_LOW.test(text)) return new SvcError("offer_taken", { ...said, offer });
    if (NO_FUNDS.test(text)) return new SvcError("no_funds", said);
    if (NO_QUOTA.test(text)) return new SvcError("no_quota", said);
    if ((status === 404 || status === 410) && code !== "") return new SvcError("offer_taken", { ...said, offer });
    if (status === 402) return new SvcError("no_funds", said);
    // Another user's order for this offer was first. An order of ours has its own name and is sent once.
    if (status === 409 && saysWhy) return new SvcError("offer_taken", { ...said, offer });
    if ((status === 400 || status === 422) && saysWhy) return new SvcError("provider_refused", said);
  }
  if (status === 503 && body !== null && NO_ROOM.test(text) && !QUEUED.test(text))
    return new SvcError("offer_taken", { ...said, offer });
  if (isClearlyTooOften(answer, refusal))
    return neverSent(
      new SvcError("provider_error", {
        provider: PROVIDER,
        why: `it received too many orders, and made no machine (${words})`,
      }),
    );
  return new SvcError("outcome_unknown", { provider: PROVIDER, what: `rent offer ${offer}` });
}
