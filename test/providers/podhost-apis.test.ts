// podhost: when REST takes over from GraphQL, and what a refusal before execution means for an order.

import { describe, expect, test } from "vitest";
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

const LISTED = data({ myself: { pods: [pod()] } });
const limited = (headers: Record<string, string> = { "retry-after": "2" }): Answer => ({
  status: 429,
  headers,
  json: { errors: [{ message: "Too many requests" }] },
});

/** GraphQL answers as given; REST has these pods, and can make and end them. */
const both = (graphql: (asked: Asked, nth: number) => Answer, pods: unknown[] = [restPod()]) => {
  let nth = 0;
  return (asked: Asked): Answer => {
    if (asked.path === "/graphql") return graphql(asked, (nth += 1));
    if (asked.method === "POST") return { status: 201, json: restPod({ name: asked.body.name }) };
    if (asked.method === "DELETE") return { status: 204 };
    return asked.path === "/v2/pods" ? { json: { pods } } : NO_POD;
  };
};

describe("REST takes over", () => {
  test.each<[string, Answer]>([
    ["a Deprecation header", { ...LISTED, headers: { deprecation: "@1798761600" } }],
    ["a Sunset header", { ...LISTED, headers: { sunset: "Fri, 01 Jan 2027 00:00:00 GMT" } }],
    ["a Warning header", { ...LISTED, headers: { warning: '299 - "GraphQL is deprecated"' } }],
    [
      "words beside the data",
      { json: { data: { myself: { pods: [pod()] } }, extensions: { notice: "This API will be retired in 2027" } } },
    ],
  ])(
    "after %s, in the middle of a run: a pod made by GraphQL is looked at and ordered by REST, and ended by both",
    async (_w, answer) => {
      const stub = await podhostStub(both(() => answer));
      expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
      stub.clock.now += 5_000;
      expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
      await stub.provider.terminate(HANDLE, never);
      await stub.provider.create(OFFER, orderOf());
      const [first, second, ...others] = stub.names();
      expect([first, second, others.pop()]).toEqual(["myself", "GET /v2/pods", "POST /v2/pods"]);
      expect(others.toSorted()).toEqual(["DELETE /v2/pods/q7r2vd0kx1", "podTerminate"]);
    },
  );

  test("after a third 429 in a row, and GraphQL has another chance later", async () => {
    const stub = await podhostStub(both((_asked, nth) => (nth <= 3 ? limited() : LISTED)));
    const look = async () => {
      stub.clock.now += 5_000;
      return (await stub.provider.inspect(HANDLE, never)).phase;
    };
    for (let i = 0; i < 2; i += 1) await expect(look()).rejects.toThrow("too many requests");
    expect(await look()).toBe("ready");
    expect(await look()).toBe("ready");
    expect(stub.names()).toEqual(["myself", "myself", "myself", "GET /v2/pods", "GET /v2/pods"]);
    stub.clock.now += 11 * 60_000;
    expect(await look()).toBe("ready");
    expect(stub.names().at(-1)).toBe("myself");
  });

  test("seconds after its own failure, while GraphQL still limits requests, and less often while it keeps failing", async () => {
    let working = false;
    const other = both(() => limited());
    const stub = await podhostStub((asked) =>
      asked.path === "/graphql" || working ? other(asked) : { status: 200, raw: "<html>" },
    );
    const tries = async (seconds: number): Promise<number> => {
      const before = stub.names().length;
      for (let at = 0; at < seconds; at += 5) {
        stub.clock.now += 5_000;
        await stub.provider.inspect(HANDLE, never).catch(() => undefined);
      }
      return stub
        .names()
        .slice(before)
        .filter((name) => name === "GET /v2/pods").length;
    };
    const [first, later] = [await tries(240), await tries(1_200)];
    expect([first >= 4, first <= 6, later >= 1, later <= 4]).toEqual([true, true, true, true]);
    working = true;
    stub.clock.now += 11 * 60_000;
    expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
  });

  test("for an order only once it has answered", async () => {
    const made = data({ podFindAndDeployOnDemand: pod() });
    const stub = await podhostStub(({ path, root }) =>
      path === "/graphql"
        ? { ...(root === "podFindAndDeployOnDemand" ? made : LISTED), headers: { deprecation: "true" } }
        : { status: 404, raw: "<html>" },
    );
    await stub.provider.listOwned("svc-", never);
    await stub.provider.create(OFFER, orderOf());
    expect(stub.names()).toEqual(["myself", "GET /v2/pods", "podFindAndDeployOnDemand"]);
  });

  test("only if it answers: otherwise GraphQL still serves everything, orders as well", async () => {
    const made = data({ podFindAndDeployOnDemand: pod() });
    const stub = await podhostStub(({ path, root }) =>
      path === "/graphql"
        ? { ...(root === "podFindAndDeployOnDemand" ? made : LISTED), headers: { deprecation: "true" } }
        : { status: 404, raw: "<html>" },
    );
    for (let i = 0; i < 3; i += 1) expect(await stub.provider.listOwned("svc-", never)).toHaveLength(1);
    await stub.provider.create(OFFER, orderOf());
    expect(stub.names()).toEqual(["myself", "GET /v2/pods", "myself", "myself", "podFindAndDeployOnDemand"]);
  });
});

describe("an order that GraphQL refuses because it is not served any more", () => {
  const gone: Answer = { status: 410, json: { errors: [{ message: "Use REST v2." }] } };

  test("is made by REST under the same name, once REST's list shows no pod with that name", async () => {
    const stub = await podhostStub(both(() => gone, []));
    expect(await stub.provider.create(OFFER, orderOf())).toMatchObject({ id: "q7r2vd0kx1", name: orderOf().name });
    expect(stub.names()).toEqual(["podFindAndDeployOnDemand", "GET /v2/pods", "POST /v2/pods"]);
  });

  test.each<[string, Answer]>([
    ["REST's list shows such a pod", { json: { pods: [restPod()] } }],
    ["REST's list is incomplete", { json: { pods: [], hasMore: true } }],
    ["REST does not answer", { status: 503, json: { title: "x" } }],
  ])("is looked up by its name if %s", async (_what, list) => {
    const stub = await podhostStub(({ path }) => (path === "/graphql" ? gone : list));
    expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe("outcome_unknown");
    expect(stub.names()).not.toContain("POST /v2/pods");
  });

  test("is looked up by its name if only a page from a proxy says so", async () => {
    const stub = await podhostStub(both(() => ({ status: 404, raw: "<html>" }), []));
    expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe("outcome_unknown");
  });
});

test.each<[string, string, Answer, string]>([
  ["rest", "503 and no capacity", { status: 503, json: { detail: "no instances available" } }, "offer_taken"],
  ["rest", "409 and no capacity", { status: 409, json: { detail: "insufficient capacity" } }, "offer_taken"],
  ["rest", "404 and no such GPU", { status: 404, json: { detail: "gpu type not found" } }, "provider_refused"],
  ["rest", "404 and no such pod", { status: 404, json: { detail: "pod not found" } }, "outcome_unknown"],
  ["rest", "503", { status: 503, json: { detail: "Service Unavailable" } }, "outcome_unknown"],
  ["graphql", "503 and no capacity", { status: 503, json: { message: "no instances available" } }, "offer_taken"],
  ["graphql", "an error in words alone", errors("Unheard-of trouble"), "outcome_unknown"],
  [
    "graphql",
    "200 and a validation error",
    { json: { data: null, errors: [{ message: "bad gpuTypeId", extensions: { code: "BAD_USER_INPUT" } }] } },
    "provider_refused",
  ],
])("%s: a create call that ends with %s", async (api, _what, answer, code) => {
  const stub = await podhostStub(() => answer, { api });
  expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe(code);
  expect(stub.asked).toHaveLength(1);
});

test.each<[string, Answer, string]>([
  ["an error", errors("Something went wrong."), "provider_error"],
  ["a 502", { status: 502, raw: "<html>" }, "provider_error"],
  ["no answer", { cut: true }, "provider_unreachable"],
])(
  "the end of a pod that GraphQL answers with %s is requested of REST; if that fails as well, svc asks again",
  async (_, answer, code) => {
    let rest: Answer = { status: 500 };
    const stub = await podhostStub((asked) => {
      if (asked.method === "DELETE") return rest;
      return asked.root === "podTerminate" ? answer : LISTED;
    });
    expect((await thrownBy(stub.provider.terminate(HANDLE, never))).code).toBe(code);
    rest = { status: 204 };
    await stub.provider.terminate(HANDLE, never);
    expect(stub.names().filter((name) => name.startsWith("DELETE"))).toContain("DELETE /v2/pods/q7r2vd0kx1");
  },
);

test("an API that the owner has chosen alone is the only one asked for an end", async () => {
  const stub = await podhostStub(
    (asked) => (asked.root === "podTerminate" ? errors("Something went wrong.") : LISTED),
    { api: "graphql" },
  );
  expect((await thrownBy(stub.provider.terminate(HANDLE, never))).code).toBe("provider_error");
  expect(stub.names()).not.toContain("DELETE /v2/pods/q7r2vd0kx1");
});
