// podhost: polling, ending, listing; and the meaning of each unusual answer.

import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { PodhostProvider } from "../../src/providers/podhost/provider.ts";
import { shownInPart } from "../../src/providers/provider.ts";
import {
  data,
  errors,
  HANDLE,
  KEY,
  listing,
  never,
  pod,
  podhostStub,
  restPod,
  thrownBy,
  type Answer,
  type Stub,
} from "./podhost-stub.ts";

const BAD_HOSTS = ["-oProxyCommand=x", "a b", "../x", "root@h", "h/..", "$(id)", "", 7, null];

describe("a poll of a pod", () => {
  test("running, with a public address of port 22, is ready at that endpoint and its price", async () => {
    const { provider } = await podhostStub(listing(pod()));
    expect(await provider.inspect(HANDLE, never)).toEqual({
      phase: "ready",
      address: "203.0.113.20",
      ssh: [{ host: "203.0.113.20", port: 17445, user: "root" }],
      privateAddress: null,
      priceMicro: 2_990_000,
    });
  });

  test.each<[string, Record<string, unknown>, string, RegExp]>([
    ["without a container", { runtime: null }, "starting", /image is being fetched/],
    ["without ports", { runtime: { ports: null } }, "starting", /port 22/],
    [
      "with an inside port only",
      { runtime: { ports: [{ ip: "100.65.0.1", isIpPublic: false, privatePort: 22, publicPort: 5, type: "tcp" }] } },
      "starting",
      /port 22/,
    ],
    ["made a moment ago", { desiredStatus: "CREATED" }, "starting", /CREATED/],
    [
      "stopped, with stale ports",
      { desiredStatus: "EXITED", lastStatusChange: "Exited by User: x" },
      "broken",
      /a user stopped it/,
    ],
    [
      "stopped by the provider",
      { desiredStatus: "EXITED", lastStatusChange: "Exited by Runpod: x" },
      "broken",
      /the provider stopped it/,
    ],
    ["outbid", { desiredStatus: "EXITED", lastStatusChange: "Outbid: x" }, "broken", /outbid/],
    [
      "terminated but listed",
      { desiredStatus: "EXITED", lastStatusChange: "Terminated by RunPod: x" },
      "broken",
      /still lists it/,
    ],
    ["TERMINATED but listed", { desiredStatus: "TERMINATED", lastStatusChange: "" }, "broken", /TERMINATED/],
    ["dead", { desiredStatus: "DEAD", lastStatusChange: null }, "broken", /DEAD/],
  ])("%s", async (_, change, phase, why) => {
    const { provider } = await podhostStub(listing(pod(change)));
    const status = await provider.inspect(HANDLE, never);
    expect(status).toMatchObject({ phase, why: expect.stringMatching(why) });
  });

  test.each(BAD_HOSTS)("a host %j is never an endpoint", async (ip) => {
    const ports = [{ ip, isIpPublic: true, privatePort: 22, publicPort: 22, type: "tcp" }];
    const graphql = await podhostStub(listing(pod({ runtime: { ports } })));
    expect(await graphql.provider.inspect(HANDLE, never)).toMatchObject({ phase: "starting" });
    const direct = { host: ip, port: 22, username: "root" };
    const rest = await podhostStub(() => ({ json: { pods: [restPod({ ssh: { direct } })] } }), { api: "rest" });
    expect(await rest.provider.inspect(HANDLE, never)).toMatchObject({ phase: "starting" });
  });

  test.each([0, 65536, -1, "22x", 1.5, null])(
    "a port %j is not a port, but digits in a string are",
    async (publicPort) => {
      const port = (value: unknown) => ({
        ip: "203.0.113.20",
        isIpPublic: true,
        privatePort: 22,
        publicPort: value,
        type: "tcp",
      });
      const stub = await podhostStub(listing(pod({ runtime: { ports: [port(publicPort), port("2222")] } })));
      expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ ssh: [{ port: 2222 }] });
    },
  );

  test.each([["3,5"], [null], [0], [-1], ["NaN"], [{}]])(
    "a price %j is none; the adjusted one may stand in",
    async (costPerHr) => {
      const stub = await podhostStub(
        listing(pod({ costPerHr }), pod({ id: "other", costPerHr, adjustedCostPerHr: 1.5 })),
      );
      expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready", priceMicro: null });
      expect(await stub.provider.inspect({ ...HANDLE, id: "other" }, never)).toMatchObject({ priceMicro: 1_500_000 });
    },
  );

  test("many machines share one list", async () => {
    const pods = Array.from({ length: 50 }, (_, i) => pod({ id: `pod${i}` }));
    const stub = await podhostStub(listing(...pods));
    await Promise.all(pods.map((_, i) => stub.provider.inspect({ ...HANDLE, id: `pod${i}` }, never)));
    expect(stub.names()).toEqual(["myself"]);
    stub.clock.now += 2_001;
    await stub.provider.inspect({ ...HANDLE, id: "pod1" }, never);
    expect(stub.names()).toEqual(["myself", "myself"]);
  });

  test("an abort of one does not abort the list of the others", async () => {
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const control = new AbortController();
    const stub = await podhostStub(async () => {
      control.abort("killed");
      await held;
      return data({ myself: { pods: [pod()] } });
    });
    const one = stub.provider.inspect(HANDLE, control.signal);
    const other = stub.provider.inspect(HANDLE, never);
    await expect(one).rejects.toBe("killed");
    release();
    expect(await other).toMatchObject({ phase: "ready" });
    expect(stub.names()).toEqual(["myself"]);
  });
});

describe("gone", () => {
  test("requires two complete polls without it, some time apart", async () => {
    const stub = await podhostStub(listing());
    expect(await stub.provider.inspect(HANDLE, never)).toEqual({ phase: "gone" });
    expect(stub.names()).toEqual(["myself", "pod", "myself", "pod"]);
    expect(stub.clock.pauses).toEqual([3_000]);
  });

  test("machines that vanish together share both lists", async () => {
    const stub = await podhostStub(listing());
    const handles = ["a", "b", "c"].map((id) => ({ ...HANDLE, id }));
    const phases = await Promise.all(handles.map(async (handle) => (await stub.provider.inspect(handle, never)).phase));
    expect(phases).toEqual(["gone", "gone", "gone"]);
    expect(stub.names().filter((name) => name === "myself").length).toBeLessThanOrEqual(3);
  });

  test("does not follow if the second poll has it again", async () => {
    const stub = await podhostStub(({ root }) =>
      root === "pod" ? data({ pod: null }) : data({ myself: { pods: stub.clock.pauses.length > 0 ? [pod()] : [] } }),
    );
    expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready" });
  });

  test("does not follow if only the list lacks it, nor if it is found by its id alone", async () => {
    const stub = await podhostStub(({ root }) =>
      root === "pod" ? data({ pod: pod() }) : data({ myself: { pods: [] } }),
    );
    expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready" });
  });

  test("an error for an unknown id lets the list decide", async () => {
    const stub = await podhostStub(({ root }) =>
      root === "pod"
        ? errors("Something went wrong. Please try again later or contact support.")
        : data({ myself: { pods: [] } }),
    );
    expect(await stub.provider.inspect(HANDLE, never)).toEqual({ phase: "gone" });
  });

  test("a young pod that no list had is not gone for two minutes, and is afterwards", async () => {
    const stub = await podhostStub(listing());
    const young = { ...HANDLE, extra: { createdAt: new Date(stub.clock.now).toISOString() } };
    expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "starting" });
    stub.clock.now += 60_000;
    expect(await stub.provider.inspect(young, never)).toMatchObject({ phase: "starting" });
    stub.clock.now += 60_001;
    expect(await stub.provider.inspect(young, never)).toEqual({ phase: "gone" });
  });

  test("a young pod that a list had may be gone sooner: ending it polls first", async () => {
    const stub = await podhostStub(listing(pod()));
    const young = { ...HANDLE, extra: { createdAt: new Date(stub.clock.now).toISOString() } };
    await stub.provider.terminate(young, never);
    expect(stub.names()).toEqual(["myself", "podTerminate"]);
    stub.script = listing();
    expect(await stub.provider.inspect(young, never)).toEqual({ phase: "gone" });
  });

  test("a pod with an unreadable id, but the right name, still exists", async () => {
    const stub = await podhostStub(listing(pod({ id: "../../x" })));
    expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "broken" });
  });

  test("a pod of ours without any id does not hide the others: the list is incomplete", async () => {
    const stub = await podhostStub(listing(pod({ id: null, name: `${HANDLE.name}9` }), pod()));
    const why = await stub.provider.listOwned(HANDLE.name, never).then(
      () => null,
      (e: unknown) => e,
    );
    expect(why).toMatchObject({ code: "provider_error", message: expect.stringContaining("console") as string });
    expect(shownInPart(why)?.machines).toMatchObject([{ id: HANDLE.id, name: HANDLE.name }]);
  });

  test.each<[string, Answer, string]>([
    ["myself is null: the key opens nothing", data({ myself: null }), "credential_refused"],
    ["status 401", { status: 401, json: {} }, "credential_refused"],
    ["pods is null", data({ myself: { pods: null } }), "provider_error"],
    ["pods holds no pod", data({ myself: { pods: [7] } }), "provider_error"],
    [
      "errors beside a list",
      { json: { errors: [{ message: "upstream" }], data: { myself: { pods: [] } } } },
      "provider_error",
    ],
    [
      "myself null with errors",
      { json: { errors: [{ message: "upstream" }], data: { myself: null } } },
      "provider_error",
    ],
    ["errors without words", { json: { errors: [{}], data: { myself: { pods: [] } } } }, "provider_error"],
    ["a web page with 200", { raw: "<html><body>ok</body></html>" }, "provider_error"],
    ["JSON that is cut short", { raw: '{"data":{"myself":{"po' }, "provider_error"],
    [
      "a bomb",
      { raw: gzipSync(Buffer.alloc(64 << 20, 32)), headers: { "content-encoding": "gzip" } },
      "provider_error",
    ],
    ["nothing", { raw: "" }, "provider_error"],
    ["status 403", { status: 403, json: { errors: [{ message: "denied" }] } }, "provider_error"],
    ["status 500", { status: 500, raw: "<html>" }, "provider_error"],
    ["status 302", { status: 302, headers: { location: "http://127.0.0.1:1/" } }, "provider_error"],
    ["status 429", { status: 429, raw: "<html>slow down" }, "provider_error"],
    ["a cut connection", { cut: true }, "provider_unreachable"],
  ])("is not: %s", async (_, answer, code) => {
    const { provider } = await podhostStub(() => answer);
    for (const error of [
      await thrownBy(provider.inspect(HANDLE, never)),
      await thrownBy(provider.listOwned("svc-", never)),
    ]) {
      expect(error.code).toBe(code);
      expect(error.message).not.toContain(KEY);
    }
  });
});

describe("rate limits", () => {
  test.each<[string, Record<string, string>]>([
    ["seconds", { "retry-after": "30" }],
    ["a policy header", { ratelimit: '"default";r=0;t=30' }],
  ])("svc sends no request before the time that %s requires, except to end machines", async (_, headers) => {
    const stub = await podhostStub(() => ({ status: 429, headers, raw: "<html>" }));
    expect((await thrownBy(stub.provider.listOwned("svc-", never))).message).toContain("in 30 s");
    expect((await thrownBy(stub.provider.listOwned("svc-", never))).message).toContain("rate limit is used up");
    expect(stub.names()).toEqual(["myself"]);
    stub.script = listing();
    await stub.provider.terminate(HANDLE, never);
    expect(stub.names()).toEqual(["myself", "podTerminate"]);
    stub.clock.now += 30_001;
    expect(await stub.provider.listOwned("svc-", never)).toEqual([]);
  });
});

describe("ending a pod", () => {
  test.each<[string, Answer]>([
    ["accepted", data({ podTerminate: null })],
    [
      "unknown",
      {
        json: {
          errors: [{ message: "pod not found to terminate", extensions: { code: "POD_NOT_FOUND" } }],
          data: null,
        },
      },
    ],
  ])("%s: accepted, because a later poll proves the end", async (_, answer) => {
    const stub = await podhostStub((asked) => (asked.root === "podTerminate" ? answer : listing(pod())(asked)));
    await stub.provider.terminate(HANDLE, never);
    expect(stub.asked.at(-1)?.body.variables).toEqual({ input: { podId: HANDLE.id } });
    expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready" });
  });

  test("a failing list does not prevent its end", async () => {
    const stub = await podhostStub(({ root }) =>
      root === "podTerminate" ? data({ podTerminate: null }) : { status: 500 },
    );
    await stub.provider.terminate(HANDLE, never);
    expect(stub.names()).toEqual(["myself", "podTerminate"]);
  });
});

describe("lists", () => {
  const twins = [
    pod(),
    pod({ id: "second", costPerHr: "x" }),
    pod({ id: 12345, name: "mine" }),
    pod({ id: "-x", name: null }),
  ];

  test("return all machines of one name, and exclude foreign ones", async () => {
    const stub = await podhostStub(listing(...twins));
    const owned = await stub.provider.listOwned("svc-abc-job1-", never);
    expect(owned.map(({ id, name, priceMicro }) => [id, name, priceMicro])).toEqual([
      ["q7r2vd0kx1", "svc-abc-job1-n0-1", 2_990_000],
      ["second", "svc-abc-job1-n0-1", null],
    ]);
    expect(owned[0]).toMatchObject({
      v: 1,
      provider: "podhost",
      extra: { machineId: "m4k2", createdAt: "2026-06-01T12:00:00.000Z" },
    });
    expect(await stub.provider.listForeign("svc-abc-", never)).toEqual([
      { id: "12345", name: "mine" },
      { id: "(unreadable)", name: null },
    ]);
  });

  test("are requested again every time", async () => {
    const stub = await podhostStub(listing());
    await stub.provider.listOwned("svc-", never);
    await stub.provider.listOwned("svc-", never);
    expect(stub.asked).toHaveLength(2);
    expect(stub.asked[0]?.key).toBe(`Bearer ${KEY}`);
  });

  test("with one of ours whose id is not even text are an error, not a shorter list", async () => {
    const stub = await podhostStub(listing(pod({ id: ["x"] })));
    expect((await thrownBy(stub.provider.listOwned("svc-", never))).message).toContain("an id that cannot be one");
  });
});

describe("the account", () => {
  const me = (change: Record<string, unknown>): Answer =>
    data({
      myself: {
        id: "u1",
        email: "a@b.c",
        clientBalance: 50,
        currentSpendPerHr: 2,
        spendLimit: 80,
        minBalance: 0,
        underBalance: false,
        ...change,
      },
    });

  test.each<[Record<string, unknown>, RegExp | null]>([
    [{}, null],
    [{ clientBalance: 1.5 }, /less than an hour/],
    [{ clientBalance: 0 }, /no credit left/],
    [{ underBalance: true }, /below what the provider wants/],
    [{ currentSpendPerHr: 80, clientBalance: 1000 }, /limit of \$80 an hour/],
  ])("%j", async (change, warning) => {
    const { provider } = await podhostStub(() => me(change));
    const account = await provider.account(never);
    expect(account.name).toBe("a@b.c");
    expect(account.balanceUsd).toBe(change["clientBalance"] ?? 50);
    if (warning === null) expect(account.warnings).toEqual([]);
    else expect(account.warnings).toEqual([expect.stringMatching(warning)]);
  });

  test.each<[string, Answer, string]>([
    ["no such key", { status: 401, raw: "" }, "credential_refused"],
    ["a key without an account", data({ myself: null }), "credential_refused"],
    ["a key without the right", { status: 403, json: { errors: [{ message: "Forbidden" }] } }, "credential_refused"],
    ["somebody in between", { status: 403, raw: "<html>blocked" }, "provider_error"],
    ["an outage", { status: 503, raw: "" }, "provider_error"],
  ])("%s", async (_, answer, code) => {
    const { provider } = await podhostStub(() => answer);
    expect((await thrownBy(provider.account(never))).code).toBe(code);
  });
});

describe("the two APIs", () => {
  const NO_POD = { status: 404, json: { title: "Not Found", status: 404, detail: "pod not found" } };
  const restOnly =
    (retired: Answer, pods: unknown[] = [restPod()]) =>
    ({ path, method }: { path: string; method: string }): Answer =>
      path === "/graphql"
        ? retired
        : method === "DELETE"
          ? { status: 204 }
          : path === "/v2/pods"
            ? { json: { pods } }
            : NO_POD;

  test.each<[string, Answer]>([
    ["410", { status: 410, json: { message: "gone" } }],
    ["words", errors("The GraphQL API has been retired. Please use REST.")],
  ])("after %s from the first API, svc uses the second one", async (_, retired) => {
    const stub = await podhostStub(restOnly(retired));
    expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready", priceMicro: 2_990_000 });
    await stub.provider.terminate(HANDLE, never);
    expect(stub.names()).toEqual(["myself", "GET /v2/pods", "DELETE /v2/pods/q7r2vd0kx1"]);
  });

  test.each<[string, Answer]>([
    ["404 with a page", { status: 404, raw: "<html>" }],
    ["405", { status: 405, raw: "" }],
  ])("after %s from the first API, the second one shows a pod, and both are asked to end it", async (_, page) => {
    const stub = await podhostStub(restOnly(page));
    expect(await stub.provider.inspect(HANDLE, never)).toMatchObject({ phase: "ready", priceMicro: 2_990_000 });
    await stub.provider.terminate(HANDLE, never);
    const [first, second, ...ends] = stub.names();
    expect([first, second]).toEqual(["myself", "GET /v2/pods"]);
    expect(ends.toSorted()).toEqual(["DELETE /v2/pods/q7r2vd0kx1", "podTerminate"]);
  });

  test("an outage, a page with 200, or a JSON 404 does not mean retirement", async () => {
    for (const answer of [{ status: 503 }, { raw: "<html>" }, { status: 404, json: { message: "no" } }]) {
      const stub = await podhostStub(restOnly(answer));
      expect((await thrownBy(stub.provider.inspect(HANDLE, never))).code).toBe("provider_error");
      expect(stub.names()).toEqual(["myself"]);
    }
  });

  test("api=graphql never switches, api=rest never uses the first, any other value is refused", async () => {
    const first = await podhostStub(restOnly({ status: 410 }), { api: "graphql" });
    expect((await thrownBy(first.provider.listOwned("svc-", never))).message).toContain("not served any more");
    const second = await podhostStub(restOnly({ status: 500 }), { api: "rest" });
    expect(await second.provider.listOwned("svc-", never)).toHaveLength(1);
    expect(second.names()).toEqual(["GET /v2/pods"]);
    const neither = await podhostStub(restOnly({ status: 500 }), { api: "soap" });
    expect((await thrownBy(neither.provider.listOwned("svc-", never))).code).toBe("credential_missing");
  });

  test.each<[Record<string, unknown>, string]>([
    [{ status: "PROVISIONING" }, "starting"],
    [{ status: "STARTING" }, "starting"],
    [{ ssh: null }, "starting"],
    [{ ssh: null, runtime: { ports: [{ private: 22, public: 2201, type: "tcp", ip: "203.0.113.9" }] } }, "ready"],
    [{ status: "EXITED" }, "broken"],
    [{ status: "ERROR" }, "broken"],
    [{ status: "TERMINATED" }, "gone"],
  ])("REST: %j is %s", async (change, phase) => {
    const stub = await podhostStub(restOnly({}, [restPod(change)]), { api: "rest" });
    expect((await stub.provider.inspect(HANDLE, never)).phase).toBe(phase);
    const owned = await stub.provider.listOwned("svc-", never);
    expect(owned).toHaveLength(phase === "gone" ? 0 : 1);
  });

  test("REST: a 404 counts only together with a list that opens, and a page for people proves nothing", async () => {
    const gone = await podhostStub(restOnly({}, []), { api: "rest" });
    expect(await gone.provider.inspect(HANDLE, never)).toEqual({ phase: "gone" });
    const shut = await podhostStub(({ path }) => (path === "/v2/pods" ? { status: 401, json: {} } : NO_POD), {
      api: "rest",
    });
    expect((await thrownBy(shut.provider.inspect(HANDLE, never))).code).toBe("credential_refused");
  });

  test.each([[{ nextCursor: "x" }], [{ next: "/v2/pods?page=2" }], [{ has_more: true }], [{ total: 4 }]])(
    "REST: a list with %j is a part of one",
    async (more) => {
      const none = { next: null, nextCursor: "", hasMore: false, total: 0 };
      const stub = await podhostStub(() => ({ json: { ...none, ...more, pods: [] } }), { api: "rest" });
      expect((await thrownBy(stub.provider.listOwned("svc-", never))).code).toBe("provider_error");
      stub.script = () => ({ json: { ...none, pods: [] } });
      expect(await stub.provider.listOwned("svc-", never)).toEqual([]);
    },
  );

  test("REST: ending a missing pod succeeds, a conflict does not", async () => {
    const stub = await podhostStub(({ method }) => (method === "DELETE" ? NO_POD : { json: { pods: [] } }), {
      api: "rest",
    });
    await stub.provider.terminate(HANDLE, never);
    stub.script = ({ method }) =>
      method === "DELETE" ? { status: 409, json: { detail: "cluster member" } } : { json: { pods: [] } };
    expect((await thrownBy(stub.provider.terminate(HANDLE, never))).message).toContain("cluster member");
  });

  test("REST: the account is the list that its key opens", async () => {
    const stub = await podhostStub(restOnly({}), { api: "rest" });
    expect(await stub.provider.account(never)).toMatchObject({ balanceUsd: null, warnings: [] });
    stub.script = () => ({ status: 403, json: { detail: "access denied" } });
    expect((await thrownBy(stub.provider.account(never))).code).toBe("credential_refused");
  });
});

test("a base address that would show the key is refused before anything is sent, and /graphql at its end is accepted", async () => {
  const stub: Stub = await podhostStub(listing());
  const build = (baseUrl: string) =>
    new PodhostProvider({
      credential: () => ({ secret: KEY, settings: {} }),
      baseUrl,
      publicKey: async () => "",
      access: () => expect.fail("nothing is reached here"),
      now: () => 0,
      pause: async () => undefined,
    });
  expect((await thrownBy(build("http://example.com").listOwned("svc-", never))).code).toBe("provider_unavailable");
  expect(await build(`${stub.url}/graphql/`).listOwned("svc-", never)).toEqual([]);
  expect(stub.asked[0]?.path).toBe("/graphql");
});
