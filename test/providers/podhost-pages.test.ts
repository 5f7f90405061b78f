// podhost: lists that come in pages, by both of its APIs.

import { expect, test } from "vitest";
import { shownInPart } from "../../src/providers/provider.ts";
import {
  data,
  errors,
  HANDLE,
  never,
  NO_POD,
  OFFER,
  orderOf,
  pod,
  podhostStub,
  restPod,
  thrownBy,
  type Answer,
  type Asked,
} from "./podhost-stub.ts";

const REST = { api: "rest" };
const strangers = ["s1", "s2", "s3"].map((id) => restPod({ id, name: `stranger-${id}` }));

/** Lists have pages of three, selected by the cursor; the answer to the create call never comes. */
function pages(): (asked: Asked) => Answer {
  const pods = [...strangers];
  return ({ method, path, query, body }) => {
    if (method === "POST") return (pods.push(restPod({ name: body.name })), { cut: true });
    if (method === "DELETE") return (pods.pop(), { status: 204 });
    if (path !== "/v2/pods") return NO_POD;
    const from = Number(query.get("cursor") ?? 0);
    const hasNextPage = from + 3 < pods.length;
    const nextCursor = hasNextPage ? String(from + 3) : null;
    return { json: { pods: pods.slice(from, from + 3), pagination: { nextCursor, hasNextPage } } };
  };
}

test("REST: a pod whose create answer was lost is found on the second page, behind foreign pods", async () => {
  const stub = await podhostStub(pages(), REST);
  expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe("outcome_unknown");
  const owned = await stub.provider.listOwned("svc-", never);
  expect(owned.map(({ id }) => id)).toEqual(["q7r2vd0kx1"]);
  expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
  expect(await stub.provider.listForeign("svc-", never)).toHaveLength(3);
  await stub.provider.terminate(HANDLE, never);
  expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("gone");
});

test.each<[string, unknown]>([
  ["a cursor that leads nowhere new", { nextCursor: "3", hasNextPage: true }],
  ["a flag alone", { hasNextPage: true }],
  ["a total", { total: 4 }],
  ["a page as long as its limit", { limit: 3 }],
  ["a word that nobody knows", { continuationState: "open" }],
])("REST: a list with %s is incomplete: it does not prove that a missing pod is gone", async (_what, pagination) => {
  const stub = await podhostStub(
    ({ path }) =>
      path === "/v2/pods" ? { json: { pods: strangers, pagination } } : { status: 404, json: { title: "no" } },
    REST,
  );
  const error = await thrownBy(stub.provider.listOwned("svc-", never));
  expect(error.code).toBe("provider_error");
  expect(error.message).toContain("its list of pods is not complete");
  expect(shownInPart(error)).toEqual({ machines: [], gap: "anywhere" });
  expect((await thrownBy(stub.provider.inspect(HANDLE, never))).code).toBe("provider_error");
});

test("REST: a pod on a readable page exists, even if the next page fails", async () => {
  const stub = await podhostStub(
    ({ query }) =>
      query.get("cursor") === null
        ? { json: { pods: [restPod()], pagination: { nextCursor: "1", hasNextPage: true } } }
        : { status: 500, json: { title: "trouble" } },
    REST,
  );
  expect(shownInPart(await thrownBy(stub.provider.listOwned("svc-", never)))?.machines).toMatchObject([
    { id: HANDLE.id },
  ]);
  expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
});

test.each<[string, Answer]>([
  ["a Link header", { json: { data: { myself: { pods: [] } } }, headers: { link: '</graphql?page=2>; rel="next"' } }],
  ["an extension", { json: { data: { myself: { pods: [] } }, extensions: { pagination: { hasNextPage: true } } } }],
  ["a member beside the pods", data({ myself: { pods: [], podsTotal: 3 } })],
])("GraphQL: a list with %s that announces more is incomplete", async (_what, answer) => {
  const stub = await podhostStub(({ root }) => (root === "pod" ? errors("no") : answer));
  expect((await thrownBy(stub.provider.listOwned("svc-", never))).message).toContain("is not complete");
});

test("GraphQL: the cost of a call, and an announced retirement, say nothing about the list", async () => {
  const extensions = { cost: { remaining: 900 }, warnings: ["GraphQL is deprecated"] };
  const stub = await podhostStub(({ root }) =>
    root === "" ? { status: 404 } : { json: { data: { myself: { pods: [pod()] } }, extensions } },
  );
  expect(await stub.provider.listOwned("svc-", never)).toHaveLength(1);
});

test.each([[null], [7], [{}]])(
  "GraphQL and REST: a row %j hides no other pod, and leaves the list incomplete",
  async (row) => {
    for (const api of ["graphql", "rest"]) {
      const stub = await podhostStub(
        ({ root, path, method }) =>
          root === "podTerminate"
            ? data({ podTerminate: null })
            : method === "DELETE"
              ? { status: 204 }
              : path === "/v2/pods"
                ? { json: { pods: [row, restPod()], total: 2 } }
                : root === "myself"
                  ? data({ myself: { pods: [row, pod()] } })
                  : NO_POD,
        { api },
      );
      const error = await thrownBy(stub.provider.listOwned("svc-", never));
      expect(error.message).toContain("cannot be read");
      expect(shownInPart(error)).toMatchObject({ machines: [{ id: HANDLE.id }], gap: "anywhere" });
      expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
      await stub.provider.terminate(HANDLE, never);
      expect((await thrownBy(stub.provider.inspect({ ...HANDLE, id: "other" }, never))).code).toBe("provider_error");
    }
  },
);
