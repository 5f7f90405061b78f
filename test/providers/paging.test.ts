// Lists in pages, in every form that APIs use, and in malformed ones.

import { describe, expect, test } from "vitest";
import { SvcError } from "../../src/errors/index.ts";
import { readList, wholeList, type ListRequest, type PageAnswer, type PageQuery } from "../../src/providers/paging.ts";

const NAMES = ["a", "b", "c", "d", "e", "f", "ours"];
const SIZE = 3;

type Answer = (query: PageQuery, call: number) => PageAnswer | SvcError;

function list(answer: Answer, change: Partial<ListRequest<string>> = {}): ListRequest<string> & { calls: PageQuery[] } {
  const calls: PageQuery[] = [];
  return {
    calls,
    provider: "podhost",
    what: "list of pods",
    path: "/v2/pods",
    content: ["pods"],
    now: () => 0,
    key: (row) => row,
    rows: (body) => (Array.isArray(body) ? body : (body as { pods: string[] }).pods),
    ask: async (query) => {
      calls.push(query);
      const given = answer(query, calls.length);
      if (given instanceof SvcError) throw given;
      return given;
    },
    ...change,
  };
}
const page = (rows: unknown, more: object = {}, headers: Record<string, string> = {}): PageAnswer => ({
  status: 200,
  body: Array.isArray(rows) && Object.keys(more).length === 0 ? rows : { pods: rows, ...more },
  headers,
});
const from = (at: number, names = NAMES): string[] => names.slice(at, at + SIZE);
const refusal = new SvcError("provider_error", { provider: "podhost", why: "422" });

/** Each form answers with a page of three from the requested position, and names the next page in its own way. */
const FORMS: Record<string, Answer> = {
  "a cursor in an object beside the list": ({ cursor = "0" }) => {
    const next = Number(cursor) + SIZE;
    const hasNextPage = next < NAMES.length;
    return page(from(Number(cursor)), { pagination: { nextCursor: hasNextPage ? String(next) : null, hasNextPage } });
  },
  "a cursor that is a number": ({ cursor = "0" }) =>
    page(from(Number(cursor)), { next_cursor: Number(cursor) + SIZE < NAMES.length ? Number(cursor) + SIZE : 0 }),
  "a token": ({ pageToken = "0" }) =>
    page(
      from(Number(pageToken)),
      Number(pageToken) + SIZE < NAMES.length ? { nextPageToken: `${Number(pageToken) + SIZE}` } : {},
    ),
  "a cursor with an end of its own on every page": ({ after = "0" }) =>
    page(from(Number(after)), {
      pageInfo: { endCursor: `${Number(after) + SIZE}`, hasNextPage: Number(after) + SIZE < 7 },
    }),
  "an address": ({ page: at = "0" }) =>
    page(from(Number(at) * SIZE), {
      next: Number(at) < 2 ? `https://elsewhere.example/v2/pods?page=${Number(at) + 1}` : null,
    }),
  links: ({ start = "0" }) =>
    page(from(Number(start)), {
      links: {
        self: "/v2/pods",
        prev: null,
        last: "/v2/pods?start=6",
        next: Number(start) < 6 ? { href: `/v2/pods?start=${Number(start) + SIZE}` } : null,
      },
    }),
  "a Link header over a bare list": ({ start = "0" }) =>
    page(
      from(Number(start)),
      {},
      Number(start) < 6
        ? { link: `</v2/pods?start=0>; rel="first", </v2/pods?start=${Number(start) + SIZE}>; rel="next"` }
        : {},
    ),
  "page numbers": ({ page: at = "1" }) =>
    page(from((Number(at) - 1) * SIZE), { page: Number(at), total_pages: 3, per_page: SIZE }),
  "page numbers from zero": ({ pageNumber = "0" }) =>
    page(from(Number(pageNumber) * SIZE), { meta: { pageNumber: Number(pageNumber), totalPages: 3 } }),
  "an offset and a total": ({ offset = "0" }) =>
    page(from(Number(offset)), { offset: Number(offset), limit: SIZE, total: 7 }),
  "an offset and a limit alone": ({ offset = "0" }) =>
    page(from(Number(offset)), { offset: Number(offset), limit: SIZE }),
  "a total alone": ({ offset = "0" }) => page(from(Number(offset)), { totalCount: 7 }),
  "a total in a header": ({ page: at = "1" }) => page(from((Number(at) - 1) * SIZE), {}, { "x-total-count": "7" }),
  "a token whose end is an empty text": ({ page_token: at = "0" }) =>
    page(from(Number(at)), { next_page_token: Number(at) < 6 ? `${Number(at) + SIZE}` : "" }),
  "a token for the start of the next page": ({ start_token: at = "0" }) =>
    page(from(Number(at)), { next_start_token: Number(at) < 6 ? `${Number(at) + SIZE}` : null }),
  "the key of the last row that was read": ({ last_key: at = "0" }) =>
    page(from(Number(at)), Number(at) < 6 ? { last_key: `${Number(at) + SIZE}` } : {}),
  "a Link header without quotes behind others": ({ page: at = "1" }) =>
    page(
      from((Number(at) - 1) * SIZE),
      {},
      {
        link: `</v2/pods?page=3>; title="a, b"; rel="last"${at === "3" ? "" : `, </v2/pods?page=${Number(at) + 1}>; rel=next`}`,
      },
    ),
  "the number of a page under another name than its parameter": ({ page: at = "0" }) =>
    page(from(Number(at) * SIZE), { number: Number(at), size: SIZE, totalElements: 7, totalPages: 3 }),
  "a total with its relation": ({ offset = "0" }) =>
    page(from(Number(offset)), { total: { value: 7, relation: "eq" } }),
  "a limit alone": ({ offset = "0" }) => page(from(Number(offset)), { limit: SIZE }),
  "the range of its rows": ({ offset = "0" }) => page(from(Number(offset)), {}, { "content-range": "pods 0-2/7" }),
  "a next page in a header": ({ page: at = "1" }) =>
    page(from((Number(at) - 1) * SIZE), {}, { "x-next-page": Number(at) < 3 ? `${Number(at) + 1}` : "" }),
};

describe("a list in pages is read to its end by", () => {
  test.each(Object.entries(FORMS))("%s", async (_form, answer) => {
    expect(await wholeList(list(answer))).toEqual(NAMES);
  });
});

describe("a list is not complete", () => {
  test.each<[string, Answer]>([
    ["where a flag says that there is more, and nothing else", () => page(from(0), { hasMore: true })],
    ["where it is said not to be", () => page(from(0), { complete: false })],
    ["where some are said to be left out", () => page(from(0), { omitted: 4 })],
    ["where it is said to be cut", () => page(from(0), { isTruncated: true })],
    ["where a member that may mean more is not understood", () => page(from(0), { paging: "v3:opaque" })],
    ["where a warning stands beside it", () => page(from(0), { warnings: [{ message: "region eu did not answer" }] })],
    ["where a place did not answer", () => page(from(0), { unreachable: ["eu"] })],
    ["where a total is larger than it", () => page(from(0), { total: 7 })],
    ["where its page is as long as its limit", () => page(from(0), { pageSize: SIZE })],
    ["where its page is as long as the limit of a header", () => page(from(0), {}, { "x-per-page": "3" })],
    ["where the total is a lower bound", () => page(from(0), { total: { value: 3, relation: "gte" } })],
    ["where the key of its last row is an object", () => page(from(0), { LastEvaluatedKey: { id: { S: "c" } } })],
    ["where a token leads backwards to the next page", () => page(from(0), { next_before: "abc" })],
    ["where a token of any name continues it", () => page(from(0), { iterator: "abc" })],
    ["where an array names the next page", () => page(from(0), { next: ["abc"] })],
    ["where a state says so", () => page(from(0), { status: "PARTIAL" })],
    ["where a sentence counts it", () => page(from(0), { message: "Showing 3 of 7 pods" })],
    ["where a place timed out", () => page(from(0), { regions: { eu: "timeout", us: "ok" } })],
    ["where an error stands beside it", () => page(from(0), { error: "eu: internal error" })],
    ["where success is denied", () => page(from(0), { success: false })],
    ["where it was cut by time", () => page(from(0), { timed_out: true })],
    ["where a flag is text", () => page(from(0), { isLast: "false" })],
    ["where a flag is a number", () => page(from(0), { complete: 0 })],
    ["where the range of its rows has no total", () => page(from(0), {}, { "content-range": "pods 0-2/*" })],
    ["where a header warns", () => page(from(0), {}, { warning: '199 - "list was cut"' })],
    ["where its status says so", () => ({ ...page(from(0)), status: 206 })],
    ["where the next page is at another address", () => page(from(0), { next: "https://x.example/v3/machines?c=1" })],
    [
      "where the cursor goes round in a circle",
      ({ cursor = "0" }) => page([`x${cursor}`], { nextCursor: cursor === "1" ? "2" : "1" }),
    ],
    ["where every page is the first one", () => page(from(0), { nextCursor: "3" })],
    ["where pages never end", (_query, call) => page([`x${call}`], { nextCursor: `c${call}` })],
    ["where empty pages never end", (_query, call) => page([], { nextCursor: `c${call}` })],
    ["where the second page fails", (_query, call) => (call === 1 ? page(from(0), { nextCursor: "3" }) : refusal)],
  ])("%s", async (_case, answer) => {
    const request = list(answer);
    const { missing, rows } = await readList(request);
    expect(missing?.code).toBe("provider_error");
    // The listed rows exist.
    expect(rows).toEqual([...new Set(rows)]);
    expect(request.calls.length).toBeLessThanOrEqual(1_000);
    await expect(wholeList(list(answer))).rejects.toThrow(/./);
  });

  test("if it takes longer than two minutes", async () => {
    let now = 0;
    const request = list((_query, call) => ((now += 10_000), page([`x${call}`], { nextCursor: `c${call}` })), {
      now: () => now,
    });
    expect((await readList(request)).missing?.message).toContain("longer than 120 s");
    expect(request.calls.length).toBeLessThan(20);
  });
});

describe("a list is complete", () => {
  test.each<[string, PageAnswer]>([
    ["bare", page(NAMES)],
    [
      "with ends in every form",
      page(NAMES, {
        next: null,
        nextCursor: "",
        has_more: false,
        total: 7,
        page: 1,
        pages: 1,
        pagination: { hasNextPage: false },
      }),
    ],
    [
      "with what is no sign of a page",
      page(NAMES, { success: true, requestId: "x", previous: null, self: "/v2/pods" }),
    ],
    [
      "with a rate limit",
      page(NAMES, {}, { "x-ratelimit-remaining": "59", "x-request-count": "3", ratelimit: "r=1;t=2" }),
    ],
    [
      "with a warning that its API will be retired",
      page(NAMES, { warnings: ["GraphQL is deprecated and will be retired in 2027"] }),
    ],
    ["with a limit that it exceeds, so that it limits something else", page(NAMES, { limit: 3 })],
    [
      "with limits of another kind in headers",
      page(NAMES, {}, { "x-envoy-max-retries": "7", "x-concurrency-limit": "7" }),
    ],
    ["with a limit that it does not reach", page(NAMES, { limit: 25 })],
    [
      "with a header about the API",
      page(NAMES, {}, { warning: '299 - "deprecated"', "keep-alive": "timeout=5, max=7" }),
    ],
    [
      "with times and its last row",
      page(NAMES, { lastUpdated: "2026-11-01", last_id: "ours", message: "7 of 7 pods" }),
    ],
    ["with a count of itself", page(NAMES, { count: 7 })],
    ["with a cursor where it ends, and a flag that it ends there", page(NAMES, { endCursor: "7", hasNextPage: false })],
  ])("%s", async (_case, answer) => {
    const request = list(() => answer);
    expect(await wholeList(request)).toEqual(NAMES);
    expect(request.calls).toHaveLength(1);
  });
});

test("a refused or ignored parameter is followed by the next likely one, and then kept", async () => {
  const request = list(({ cursor, after, page_token: token }) => {
    if (cursor !== undefined) return refusal;
    const at = Number(token ?? "0");
    return page(from(after === undefined ? at : 0), { nextThing: at + SIZE < 7 ? `${at + SIZE}` : null });
  });
  expect(await wholeList(request)).toEqual(NAMES);
  const tried = request.calls.map((query) => Object.keys(query)[0] ?? "").slice(0, 6);
  expect(tried).toEqual(["", "thing", "cursor", "after", "page_token", "page_token"]);
});

describe("a list that changes while its pages are read", () => {
  /** A stranger's machine on page one ends after that page was read: every later machine moves forward by one. */
  const shrinking =
    (total: boolean, times: number): Answer =>
    ({ cursor = "0" }, call) => {
      const names = cursor === "0" || call > times * 3 ? NAMES : NAMES.slice(1);
      const at = Number(cursor);
      const more = at + SIZE < names.length;
      return page(from(at, names), {
        nextCursor: more ? String(at + SIZE) : null,
        ...(total && { total: names.length }),
      });
    };

  test.each([true, false])("is read again until it stops changing (total reported: %s)", async (total) => {
    const eight = list(shrinking(total, 1));
    expect(await wholeList(eight)).toEqual(NAMES);
  });

  test("is incomplete if it never stops, and rows of any reading are kept", async () => {
    let n = 0;
    const request = list(({ cursor = "0" }) =>
      cursor === "0" ? page(from(0), { nextCursor: "3" }) : page([`stranger-${(n += 1)}`]),
    );
    const { rows, missing } = await readList(request);
    expect(missing?.message).toContain("changes while its pages are read");
    expect(rows).toEqual([...from(0), "stranger-1", "stranger-2", "stranger-3"]);
  });

  test("that cannot be read to its end has the rows of the pages before", async () => {
    const request = list(({ cursor = "0" }) => (cursor === "0" ? page(from(0), { nextCursor: "3" }) : refusal));
    const { rows, missing } = await readList(request);
    expect([rows, missing?.code]).toEqual([from(0), "provider_error"]);
  });

  test("is read once if the caller does not rely on absence", async () => {
    const request = list(FORMS["a token"] ?? (() => refusal), { provesAbsence: false });
    expect(await wholeList(request)).toEqual(NAMES);
    expect(request.calls.length).toBeLessThan(6);
  });
});

test("10,000 rows in pages of 25 are read in 400 calls", async () => {
  const many = Array.from({ length: 10_000 }, (_, i) => `n${i}`);
  const request = list(
    ({ cursor = "0" }) =>
      page(many.slice(Number(cursor), Number(cursor) + 25), {
        nextCursor: Number(cursor) + 25 < 10_000 ? `${Number(cursor) + 25}` : null,
      }),
    { provesAbsence: false },
  );
  expect(await wholeList(request)).toHaveLength(10_000);
  expect(request.calls).toHaveLength(400);
});
