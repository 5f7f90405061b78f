// Reads the signs of further pages in an answer that holds a list. It names no provider: the forms are those that HTTP
// APIs use (cursors, links, page numbers, offsets, totals, flags, headers). A member whose name could mean "there is
// more" but whose meaning is unclear is reported, and its list counts as incomplete.

import { firstChars } from "../domain/terminal-text.ts";
import { jsonOf } from "../domain/parsed-lines.ts";

export interface Cursor {
  /** The member that held it, in the answer's spelling. */
  member: string;
  value: string;
}

export interface Signs {
  /** A flag's meaning: there is more, or there is not; null without a flag. */
  more: boolean | null;
  /** Cursors that lead to the next page by their name. */
  next: Cursor[];
  /** Cursors that may also only mark the end of this page. */
  maybeNext: Cursor[];
  /** Addresses of the next page. */
  links: string[];
  /** Number of rows of the whole list. */
  total: number | null;
  page: { member: string; value: number } | null;
  pages: number | null;
  offset: { member: string; value: number } | null;
  limit: number | null;
  /** Members that may mean that something is missing, as text. */
  unclear: string[];
  /** A member for the next page exists, and is empty. */
  endTold: boolean;
}

const DEPTH_MAX = 4;

/** @param content members that hold the rows, or that are known to say nothing about further pages */
export function signsOf(body: unknown, headers: Readonly<Record<string, string>>, content: ReadonlySet<string>): Signs {
  const reader = new Reader(content);
  if (isRecord(body)) reader.readMembers(body, 0, false);
  reader.readHeaders(headers);
  return reader.signs;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** `hasNextPage`, `has_next_page` and `has-next-page` all become `has next page`. */
const wordsOf = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[^A-Za-z0-9]+/g, " ")
    .trim()
    .toLowerCase();

/** About the way back, this page, or the ends of the whole list. */
const ELSEWHERE = /\b(prev|previous|before|first|self|current|start|base)\b/;
const MORE = /\b(more|next|truncated|incomplete|partial|further|continues|continue|cut|capped)\b/;
const COMPLETE = /\b(complete|last|final|done|end|ended|exhausted|finished|whole)\b/;
/** In these members a number is a flag, and not a position in the list. */
const COMPLETE_FLAG = /\b(complete|done|exhausted|finished|whole)\b/;
const NEXT = /\b(next|continuation|continue)\b/;
const CURSOR = /\b(cursor|token|after|marker|bookmark|scroll|key|iterator|position|resume)\b/;
/** `LastEvaluatedKey`: the last row of this page, from which the next one starts. */
const LAST_KEY = /\blast\b.*\b(key|token|cursor|marker)\b/;
const PAGES = /^(total pages?|pages? total|pages|page count|num pages|number of pages|last page|max page)$/;
const PAGE = /^(page|page number|page no|page index|current page|current|number)$/;
const OFFSET = /\b(offset|skip|skipped|start|start index|from)\b/;
const LIMIT = /\b(limit|per page|page size|size|max results|take|max)\b/;
/** In headers, which hold limits of many kinds. */
const PAGE_LIMIT = /\b(per page|page size|page limit)\b|^limit$/;
const TOTAL = /\b(total|totals|count|found|matched|hits|results)\b|^(of|all|length)$|^(num|nb|number of) /;
const LEFT = /\b(remaining|left|more|omitted|hidden|missing|further|rest)\b/;
const FAILED =
  /\b(warnings?|errors?|unreachables?|unavailable|failed|failures?|missing|skipped|omitted|excluded|incomplete|partial|silent)\b/;
const SUSPICIOUS =
  /\b(more|next|cursor|page|pages|paging|pagination|paginated|token|continuation|continue|truncated|partial|incomplete|remaining|left|total|offset|marker|scroll|rest|omitted|hidden|further|unreachable|unreachables|unavailable|missing|capped|cut|warning|warnings)\b/;
/** Flags that, if they are set, say that the rows may not be those of now, or not all of them. */
const DOUBTFUL =
  /\b(timed out|timeout|degraded|stale|clipped|overflow|sampled|limited|limit reached|exceeded|approximate)\b/;
const SUCCEEDED = /^(ok|success|successful)$/;
/** A text in any member that says that the list is not all. */
const SAYS_PARTIAL =
  /\b(partial(ly)?|truncated|incomplete|time(d)? ?out|did not (answer|respond)|unreachable|more (results|items|rows|entries))\b/i;
const SOME_OF_ALL = /\b(\d{1,9}) of (\d{1,9})\b/;
/** The rest of these members does not concern the list. */
const OTHER_BUSINESS = /\b(rate|ratelimit|quota|quotas|usage|throttle|cost|costs|credits?|balance|billing)\b/;
/** An announcement that an API will be retired says nothing about the list. */
const RETIREMENT = /deprecat|sunset|retire|migrat|end[- ]of[- ]life/i;
const LINK = /^(https?:\/\/|\/|\?)/i;
/** A flag that was written as text. */
const FLAGS: Readonly<Record<string, boolean>> = { true: true, yes: true, false: false, no: false };

class Reader {
  readonly signs: Signs = {
    more: null,
    next: [],
    maybeNext: [],
    links: [],
    total: null,
    page: null,
    pages: null,
    offset: null,
    limit: null,
    unclear: [],
    endTold: false,
  };
  readonly #content: ReadonlySet<string>;

  constructor(content: ReadonlySet<string>) {
    this.#content = content;
  }

  /** @param underNext every member of this object belongs to the next page */
  readMembers(object: Record<string, unknown>, depth: number, underNext: boolean): void {
    for (const [member, value] of Object.entries(object)) {
      if (depth === 0 && this.#content.has(member)) continue;
      this.#read(member, value, depth, underNext);
    }
  }

  readHeaders(headers: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(headers)) {
      if (name === "link") this.#linkHeader(text);
      else if (name === "content-range") {
        const total = /\/(\d{1,12})\s*$/.exec(text)?.[1];
        if (total === undefined) this.#unclear(name, text);
        else this.#total(Number(total));
      } else if (name === "warning") {
        if (!RETIREMENT.test(text)) this.#unclear(name, text);
      } else if (/^(x-|pagination|next-|total)/.test(name) && !/rate|retry|request|trace/.test(name)) {
        const member = name.replace(/^x-/, "");
        if (![SUSPICIOUS, TOTAL, PAGE_LIMIT].some((words) => words.test(wordsOf(member)))) continue;
        const json = /^\s*[{[]/.test(text) ? jsonOf(text) : undefined;
        this.#read(member, json ?? plainValue(text), 1, false);
      }
    }
  }

  #read(member: string, value: unknown, depth: number, underNext: boolean): void {
    const words = wordsOf(member);
    if (OTHER_BUSINESS.test(words)) return;
    if (typeof value === "boolean") return this.#flag(words, member, value);
    if (typeof value === "number") return this.#number(words, member, value, underNext);
    if (typeof value === "string" && value.trim() !== "") {
      const number = /^\d{1,12}$/.test(value) && (TOTAL.test(words) || PAGES.test(words) || PAGE.test(words));
      if (number) return this.#number(words, member, Number(value), underNext);
      const flag = FLAGS[value.trim().toLowerCase()];
      if (flag !== undefined) return this.#flag(words, member, flag);
      return this.#text(words, member, value.trim(), underNext);
    }
    if (Array.isArray(value) && value.length > 0) return this.#array(words, member, value);
    if (isRecord(value) && Object.keys(value).length > 0) return this.#object(words, member, value, depth, underNext);
    // Null, or empty: a member for the next page that leads nowhere.
    if (NEXT.test(words) || CURSOR.test(words)) this.signs.endTold = true;
  }

  #flag(words: string, member: string, value: boolean): void {
    if (ELSEWHERE.test(words)) return;
    if (MORE.test(words)) this.#more(value);
    else if (COMPLETE.test(words)) this.#more(!value);
    else if (value ? SUSPICIOUS.test(words) || DOUBTFUL.test(words) : SUCCEEDED.test(words))
      this.#unclear(member, value);
  }

  #more(more: boolean): void {
    if (more) this.signs.more = true;
    else {
      this.signs.more ??= false;
      this.signs.endTold = true;
    }
  }

  #number(words: string, member: string, value: number, underNext: boolean): void {
    if (COMPLETE_FLAG.test(words) && (value === 0 || value === 1)) this.#more(value === 0);
    else if (NEXT.test(words) || underNext) {
      if (value > 0) this.signs.next.push({ member, value: String(value) });
      else this.signs.endTold = true;
    } else if (PAGES.test(words)) this.signs.pages = value;
    else if (PAGE.test(words)) this.signs.page = { member, value };
    else if (ELSEWHERE.test(words) && !OFFSET.test(words)) return;
    else if (OFFSET.test(words)) this.signs.offset = { member, value };
    else if (LEFT.test(words)) {
      if (value > 0) this.signs.more = true;
    } else if (LIMIT.test(words)) this.signs.limit = value;
    else if (TOTAL.test(words)) this.#total(value);
    else if (CURSOR.test(words)) this.signs.maybeNext.push({ member, value: String(value) });
    else if (value > 0 && SUSPICIOUS.test(words)) this.#unclear(member, value);
  }

  #total(value: number): void {
    if (Number.isFinite(value)) this.signs.total = Math.max(this.signs.total ?? 0, value);
  }

  #text(words: string, member: string, value: string, underNext: boolean): void {
    const isNext = NEXT.test(words) || underNext;
    const [, some = 0, all = 0] = SOME_OF_ALL.exec(value) ?? [];
    if ((SAYS_PARTIAL.test(value) || Number(some) < Number(all)) && !LINK.test(value) && !RETIREMENT.test(value))
      return this.#unclear(member, value);
    if (ELSEWHERE.test(words) && !isNext) return;
    if (/\blast\b/.test(words) && !isNext && !LAST_KEY.test(words)) return;
    if (isNext && LINK.test(value)) this.signs.links.push(value);
    else if (isNext) this.signs.next.push({ member, value });
    else if (CURSOR.test(words)) this.signs.maybeNext.push({ member, value });
    else if ((SUSPICIOUS.test(words) || FAILED.test(words)) && !RETIREMENT.test(value)) this.#unclear(member, value);
  }

  #array(words: string, member: string, value: readonly unknown[]): void {
    if (/\blinks?\b/.test(words)) {
      for (const link of value) {
        if (!isRecord(link) || typeof link["rel"] !== "string" || !/\bnext\b/i.test(link["rel"])) continue;
        const address = link["href"] ?? link["url"];
        if (typeof address === "string") this.signs.links.push(address);
      }
    } else if (FAILED.test(words) || SUSPICIOUS.test(words)) {
      if (!value.every((one) => RETIREMENT.test(JSON.stringify(one)))) this.#unclear(member, value[0]);
    }
  }

  #object(words: string, member: string, value: Record<string, unknown>, depth: number, underNext: boolean): void {
    if (FAILED.test(words)) {
      if (!RETIREMENT.test(JSON.stringify(value))) this.#unclear(member, value);
    } else if (TOTAL.test(words) && typeof value["value"] === "number") {
      if ((value["relation"] ?? "eq") === "eq") this.#total(value["value"]);
      else this.#unclear(member, value);
    } else if ((ELSEWHERE.test(words) && !NEXT.test(words)) || words === "last") return;
    else if (depth >= DEPTH_MAX) this.#unclear(member, "nested too deep");
    else this.readMembers(value, depth + 1, underNext || NEXT.test(words) || LAST_KEY.test(words));
  }

  #linkHeader(text: string): void {
    for (const [, address = "", parameters = ""] of text.matchAll(/<([^>]*)>([^<]*)/g))
      if (/;\s*rel\s*=\s*"?[^",;]*\bnext\b/i.test(parameters)) this.signs.links.push(address);
  }

  #unclear(member: string, value: unknown): void {
    const shown = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
    this.signs.unclear.push(firstChars(`${member}: ${shown}`.replace(/[\s\p{Cc}]+/gu, " "), 120));
  }
}

/** A header's text as a number or flag. */
function plainValue(text: string): unknown {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === "true";
  return text;
}
