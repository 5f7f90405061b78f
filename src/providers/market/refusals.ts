// What an answer that is not the wished one means. The same refusal comes with several statuses and in several forms, so the
// words decide before the status does. Seen up to October 2026.
//
// F1. A bad key may arrive as 404: it is never read as "there is no such machine".
// F2. Of a create call, only an answer with a clear reason and without a contract says that nothing was made. By its documentation these
//     are 400, 401, 403, 404, 410 and 429; 402, 409 and 422 refuse a request before it is carried out as well. Any 5xx (but for a 503 that
//     names the lack of room), 408, a page, and an order that was queued leave it open.

import { oneLine } from "../../domain/terminal-text.ts";
import { SvcError } from "../../errors/index.ts";
import { neverSent, type HttpAnswer } from "../http.ts";
import { objectOf, textOf } from "./wire.ts";

const PROVIDER = "market";
/** Of the provider's words: its longest messages name an offer, a reason and an address. */
const WORDS_MAX = 600;

export interface Refusal {
  status: number;
  /** The provider's own code; empty where the answer has none. */
  code: string;
  /** For people: one line, without control characters. */
  words: string;
}

/** One line of what a provider wrote: no control characters, not endless, never with the key in it. */
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

/** A field that was refused is named in a list: `{"loc":["body","image"],"msg":"field required"}`. */
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
/** The provider does not take the key, or the key may not do this. */
export const isAboutKey = (answer: HttpAnswer, { status, code, words }: Refusal): boolean =>
  !answer.isHtml &&
  (status === 401 ||
    (NO_KEY.test(`${code} ${words}`) && (status >= 400 || objectOf(answer)?.success === false)) ||
    (status === 403 && objectOf(answer) !== null));

/** What is wrong with the key, as far as the answer tells it. */
const keyWords = ({ status, words }: Refusal): string =>
  status === 403
    ? `the key may not do this: it is for reading only, or limited otherwise (${words})`
    : `it does not know the key: it is wrong, or was revoked (${words})`;

/** Asked too often. One thing with three faces: bare text, `detail`, and the usual form. */
export const isTooOften = (answer: HttpAnswer, { status, code, words }: Refusal): boolean =>
  status === 429 ||
  ((status >= 400 || objectOf(answer)?.success === false) &&
    (code === "rate_limit_exceeded" || /requests too frequent/i.test(words)));

/**
 * 429 in the provider's own words, or with the time to come back: the request was not carried out. A page of something in between
 * without such a word could stand for a request that was passed on.
 */
export const isClearlyTooOften = (answer: HttpAnswer, refusal: Refusal): boolean =>
  isTooOften(answer, refusal) && (answer.retryAfterMs !== null || (!answer.isHtml && answer.text.trim() !== ""));

export const saysNoSuchMachine = (answer: HttpAnswer, refusal: Refusal): boolean =>
  !isAboutKey(answer, refusal) &&
  objectOf(answer) !== null &&
  /^(no_such_instance|not_found)$|no such instance|instance[^.]{0,40} not found/i.test(refusal.code || refusal.words) &&
  (refusal.status === 404 || refusal.status === 410 || objectOf(answer)?.success === false);

/** "Not found" in the provider's form, in words that name no machine: an address that is no more would say so, too. */
export const isUnclearNotFound = (answer: HttpAnswer, refusal: Refusal): boolean =>
  (refusal.status === 404 || refusal.status === 410) && objectOf(answer) !== null && !isAboutKey(answer, refusal);

/** The provider serves nothing at this address any more: that says nothing of a machine or an offer. */
export const isRetiredAddress = (answer: HttpAnswer, { status, code, words }: Refusal): boolean =>
  (status === 404 || status === 410) &&
  objectOf(answer) !== null &&
  /deprecated|endpoint|no longer (served|supported)|api version/i.test(`${code} ${words}`);

/** Everything that is not an answer to what was asked, as an error. Nothing here is a create call. */
export function refused(answer: HttpAnswer, what: string, secret: string): SvcError {
  const refusal = refusalOf(answer, secret);
  if (isAboutKey(answer, refusal))
    return new SvcError("credential_refused", { provider: PROVIDER, why: keyWords(refusal) });
  const why = isTooOften(answer, refusal) ? `it was asked too often (${refusal.words})` : refusal.words;
  return new SvcError("provider_error", { provider: PROVIDER, why: `${what}: ${why}` });
}

const OFFER_GONE =
  /no_such_ask|no longer available|not available|already (been )?rented|offer (is )?(gone|taken|expired|not found)/i;
/** The least bid has risen since the search. */
const BID_LOW = /\binvalid_price\b|\bbid\b[^.]{0,40}\b(too )?low|below the min/i;
const QUEUED = /queued|scheduled/i;
const NO_FUNDS = /insufficient_credit|insufficient (credit|funds|balance)/i;
const NO_QUOTA = /spend_rate_limit|missing_billing/i;
/** Statuses that refuse a request before it is carried out, where the answer is in the provider's own form and says why. */
const CLEAR = new Set([400, 402, 404, 409, 410, 422]);
/** Said of anything that went wrong, also after the machine was made. */
const SAYS_NOTHING = /something went wrong|internal|unknown error|unexpected|try again/i;
/** The only words for which an answer of 503 is a refusal: it names the offer, or that there is no room. */
const NO_ROOM = /no_such_ask|no longer available|already (been )?rented|(no|out of|insufficient) (capacity|resources)/i;

/**
 * What a create call came to whose answer names no contract: an error of NOTHING_MADE where the answer says so (F2), one that counts as
 * never sent where it was asked too often, else `outcome_unknown`.
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
    // Somebody else's order for this offer was first. An order of ours has a name of its own and is sent once.
    if (status === 409 && saysWhy) return new SvcError("offer_taken", { ...said, offer });
    if ((status === 400 || status === 422) && saysWhy) return new SvcError("provider_refused", said);
  }
  if (status === 503 && body !== null && NO_ROOM.test(text) && !QUEUED.test(text))
    return new SvcError("offer_taken", { ...said, offer });
  if (isClearlyTooOften(answer, refusal))
    return neverSent(
      new SvcError("provider_error", {
        provider: PROVIDER,
        why: `it was asked to rent too often, and made nothing (${words})`,
      }),
    );
  return new SvcError("outcome_unknown", { provider: PROVIDER, what: `rent offer ${offer}` });
}
