// Reads a complete list, in any form of pages. Every list of every provider is read by this file.
//
// L1. A list is complete when every page was read and no answer gives a sign of more. Anything unclear counts as more.
// L2. Pages that form a cycle, repeat themselves or do not end leave the list incomplete, after a bounded number of
//     calls.
// L3. A list of several pages may change while it is read, so that a row moves from a later page to one that was
//     already read. Reported totals must match the rows that were read; without totals the list is read again until two
//     readings are the same.
// L4. Rows in an incomplete list exist. Other rows may exist as well.

import { firstChars } from "../domain/terminal-text.ts";
import { SvcError } from "../errors/index.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { signsOf, type Cursor, type Signs } from "./page-signs.ts";

const PAGES_MAX = 1_000;
const ROWS_MAX = 100_000;
const READINGS_MAX = 3;
/** A list that takes longer than this says little about the present state. */
const LIST_MS_MAX = 120_000;

export type PageQuery = Readonly<Record<string, string>>;

export interface PageAnswer {
  /** 206 and its like say that the body is not all of the list. */
  status: number;
  body: unknown;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
}

export interface ListRequest<Row> {
  provider: ProviderName;
  /** For messages, such as `list of pods`. */
  what: string;
  /** Path of the endpoint: a link to the next page that leads elsewhere is not followed. */
  path: string;
  /** Requests one page; the first one has an empty query. Throws the meaning of the provider's refusal. */
  ask(query: PageQuery): Promise<PageAnswer>;
  /** The rows of one answer. Throws if it holds no list. */
  rows(body: unknown): readonly Row[];
  /** Distinguishes two rows. */
  key(row: Row): string;
  /** Members of the answer that hold the rows, or that are known to say nothing about further pages. */
  content: readonly string[];
  /** The parameter for a cursor, if the provider documents it. */
  cursorParameter?: string;
  /** False for a list whose absences prove nothing, such as a catalogue: it is read once (L3). */
  provesAbsence?: boolean;
  now: () => number;
}

export interface List<Row> {
  rows: Row[];
  /** Why rows may be missing; null for a complete list. */
  missing: SvcError | null;
}

/** Throws if not even the first page could be read. */
export async function readList<Row>(request: ListRequest<Row>): Promise<List<Row>> {
  const until = request.now() + LIST_MS_MAX;
  const shown = new Map<string, Row>();
  let before: ReadonlySet<string> | null = null;
  for (let reading = 1; reading <= READINGS_MAX; reading++) {
    const pages = new Pages(request, until);
    try {
      await pages.read();
    } catch (e) {
      // Rows of an earlier reading prove their machines, even if this reading fails.
      if (shown.size === 0 && pages.rows.size === 0) throw e;
      if (!(e instanceof SvcError)) throw e;
      pages.missing ??= e;
    }
    for (const [key, row] of pages.rows) shown.set(key, row);
    if (pages.missing !== null) return { rows: [...shown.values()], missing: pages.missing };
    const steady =
      pages.count === 1 ||
      request.provesAbsence === false ||
      pages.total === "agrees" ||
      (pages.total === "untold" && before !== null && sameKeys(before, pages.rows));
    if (steady) return { rows: [...pages.rows.values()], missing: null };
    before = new Set(pages.rows.keys());
  }
  return { rows: [...shown.values()], missing: incomplete(request, "it changes while its pages are read") };
}

/** Like `readList`, for callers that need all of it or nothing. */
export async function wholeList<Row>(request: ListRequest<Row>): Promise<Row[]> {
  const { rows, missing } = await readList(request);
  if (missing !== null) throw missing;
  return rows;
}

const sameKeys = (a: ReadonlySet<string>, b: ReadonlyMap<string, unknown>): boolean =>
  a.size === b.size && [...a].every((key) => b.has(key));

const incomplete = ({ provider, what }: Pick<ListRequest<never>, "provider" | "what">, why: string): SvcError =>
  new SvcError("provider_error", { provider, why: `its ${what} is not complete: ${why}` });

/** One reading of the list, from its first page to its last. */
class Pages<Row> {
  readonly rows = new Map<string, Row>();
  count = 0;
  missing: SvcError | null = null;
  readonly #request: ListRequest<Row>;
  readonly #until: number;
  readonly #content: ReadonlySet<string>;
  readonly #totals = new Set<number>();
  readonly #cursors = new Set<string>();
  /** The parameter that proved to lead to the next page. */
  #parameter: string | null = null;

  constructor(request: ListRequest<Row>, until: number) {
    this.#request = request;
    this.#until = until;
    this.#content = new Set(request.content);
  }

  get total(): "agrees" | "untold" | "changed" {
    if (this.#totals.size === 0) return "untold";
    return this.#totals.size === 1 && Math.max(...this.#totals) <= this.rows.size ? "agrees" : "changed";
  }

  async read(): Promise<void> {
    let page = await this.#page({});
    this.#take(page);
    for (;;) {
      const { signs } = page;
      if (signs.unclear[0] !== undefined)
        this.missing ??= this.#incomplete(`its answer holds "${signs.unclear[0]}", which may mean that there is more`);
      const ways = this.#waysOn(signs, page.rows.length);
      if (ways === null) return;
      if (typeof ways === "string") return void (this.missing ??= this.#incomplete(ways));
      if (this.count >= PAGES_MAX || this.rows.size > ROWS_MAX)
        return void (this.missing ??= this.#incomplete(`it does not end after ${this.count} pages`));
      if (this.#request.now() > this.#until)
        return void (this.missing ??= this.#incomplete(`it takes longer than ${LIST_MS_MAX / 1000} s`));
      const next = await this.#follow(ways);
      if (next === null) return;
      page = next;
    }
  }

  /** Takes the first of these ways that leads to a page that was not read yet; null if none does. */
  async #follow(ways: readonly Way[]): Promise<Page<Row> | null> {
    let failure: SvcError | null = null;
    for (const { query, parameter } of ways) {
      let page: Page<Row>;
      try {
        page = await this.#page(query);
      } catch (e) {
        if (!(e instanceof SvcError)) throw e;
        failure = e;
        // Only a refusal may concern the parameter.
        if (e.code !== "provider_error" || this.#parameter !== null) break;
        continue;
      }
      const isNew = page.rows.some((row) => !this.rows.has(this.#request.key(row)));
      const leadsBack = cursorsOf(page.signs).some((value) => this.#cursors.has(value));
      if (!isNew && (page.rows.length > 0 || leadsBack)) {
        failure ??= this.#incomplete(
          leadsBack ? "its pages go round in a circle" : "a page repeats rows that were read",
        );
        if (this.#parameter !== null) break;
        continue;
      }
      this.#parameter ??= parameter;
      this.#take(page);
      return page;
    }
    this.missing ??= failure ?? this.#incomplete("the list does not say how to request its next page");
    return null;
  }

  async #page(query: PageQuery): Promise<Page<Row>> {
    const { status, body, headers } = await this.#request.ask(query);
    const rows = this.#request.rows(body);
    const signs = signsOf(body, headers, this.#content);
    if (status !== 200) signs.unclear.push(`status: ${status}`);
    return { rows, signs };
  }

  #take({ rows, signs }: Page<Row>): void {
    this.count++;
    for (const row of rows) this.rows.set(this.#request.key(row), row);
    // A count of only this page's rows does not count as a total.
    if (signs.total !== null && signs.total !== rows.length) this.#totals.add(signs.total);
  }

  /**
   * The possible requests for the next page, the likeliest first; null at the end of the list, text if there is more
   * but no known way to it.
   */
  #waysOn(signs: Signs, length: number): Way[] | string | null {
    for (const link of signs.links) {
      const query = this.#queryOf(link);
      if (query === null) return `the next page is at another address (${firstChars(link, 100)})`;
      return this.#unseen(link, [{ query, parameter: "link" }]);
    }
    const [cursor] = signs.next;
    if (cursor !== undefined) return this.#unseen(cursor.value, this.#byCursor(cursor));
    const [maybe] = signs.maybeNext;
    if (maybe !== undefined && signs.more !== false && (length > 0 || signs.more === true))
      return this.#unseen(maybe.value, this.#byCursor(maybe));
    const counted = this.#byCounting(signs, length);
    if (counted !== null) return counted;
    return signs.more === true ? "it says that there is more, and not how to ask for it" : null;
  }

  #unseen(value: string, ways: Way[]): Way[] | string {
    if (this.#cursors.has(value)) return "its pages go round in a circle";
    this.#cursors.add(value);
    return ways;
  }

  #byCursor({ member, value }: Cursor): Way[] {
    const { cursorParameter } = this.#request;
    const names = cursorParameter === undefined ? parametersFor(member) : [cursorParameter];
    const known = this.#parameter;
    const usable = known !== null && names.includes(known) ? [known] : names;
    return usable.map((parameter) => ({ query: { [parameter]: value }, parameter }));
  }

  /** By page number or offset, if a total, a number of pages or a flag shows that there is more. */
  #byCounting(signs: Signs, length: number): Way[] | string | null {
    const { total, page, pages, offset, limit, more } = signs;
    const isLast = (page?.value ?? 1) >= (pages ?? 0) - (this.#startsAtZero(signs) ? 1 : 0);
    const fewer = total !== null && total > this.rows.size;
    const full = limit !== null && limit > 0 && length >= limit && total === null && !signs.endTold;
    // A page longer than a limit shows that the limit is not one of pages; with a position next to it, it is.
    const isFull = full && (length === limit || (page ?? offset) !== null);
    const isMore = more === true || fewer || (pages !== null && !isLast) || isFull;
    if (!isMore) return null;
    const ways: Way[] = [];
    if (page !== null) ways.push(...[...new Set([page.member, "page"])].map((member) => way(member, page.value + 1)));
    if (offset !== null) ways.push(way(offset.member, offset.value + length));
    if (ways.length === 0 && (fewer || isFull || pages !== null) && this.#request.cursorParameter === undefined)
      ways.push(way("page", this.count + 1), way("offset", this.rows.size));
    const known = ways.filter(({ parameter }) => parameter === this.#parameter);
    const usable = known.length > 0 ? known : ways;
    if (usable.length > 0) return usable;
    if (fewer) return `it shows ${this.rows.size} of ${total}`;
    return isFull ? "its page is full, and nothing says that it is the last one" : null;
  }

  #zero: boolean | null = null;
  #startsAtZero({ page }: Signs): boolean {
    this.#zero ??= page?.value === 0;
    return this.#zero;
  }

  /** Only the query of a link is used: the address stays the configured one. Null if the link leads to another path. */
  #queryOf(link: string): PageQuery | null {
    const base = `http://page.invalid${this.#request.path}`;
    if (!URL.canParse(link, base)) return null;
    const url = new URL(link, base);
    const [own, other] = [this.#request.path, url.pathname].map((path) => path.replace(/\/+$/, ""));
    // A proxy prefix or an API version may precede either path.
    if (own === undefined || other === undefined || !(own.endsWith(other) || other.endsWith(own))) return null;
    return Object.fromEntries(url.searchParams);
  }

  #incomplete(why: string): SvcError {
    return incomplete(this.#request, why);
  }
}

interface Page<Row> {
  rows: readonly Row[];
  signs: Signs;
}

interface Way {
  query: PageQuery;
  parameter: string;
}

const way = (parameter: string, value: number): Way => ({ query: { [parameter]: String(value) }, parameter });

const cursorsOf = ({ next, links }: Signs): string[] => [...next.map(({ value }) => value), ...links];

/** Parameters for the cursor of a member, the likeliest first. */
function parametersFor(member: string): string[] {
  const bare = member.replace(/^(next|end)[_-]?/i, "");
  const own = bare === "" ? [] : [bare.charAt(0).toLowerCase() + bare.slice(1)];
  return [...new Set([...own, "cursor", "after", "page_token", "pageToken", "page", member])];
}
