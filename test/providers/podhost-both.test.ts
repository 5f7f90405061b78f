// podhost: while GraphQL is served, REST alone neither ends a pod nor proves its end.

import { describe, expect, test, vi } from "vitest";
import { shownInPart } from "../../src/providers/provider.ts";
import { DEADLINE_MS } from "../deadline.ts";
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

const ENDS = { deprecation: "true" };
const GPUS = [{ id: "NVIDIA L4", memoryInGb: 24, securePrice: 1, maxGpuCount: 8 }];
/** GraphQL announces its end and keeps these pods; REST answers as given. */
const retiring = (pods: unknown[], rest: (asked: Asked) => Answer) => (asked: Asked) => {
  if (asked.path !== "/graphql") return rest(asked);
  if (asked.root === "podTerminate") pods.length = 0;
  const found: Record<string, unknown> = {
    gpuTypes: GPUS,
    pod: pods[0] ?? null,
    podTerminate: null,
    podFindAndDeployOnDemand: pod(),
  };
  const value = asked.root === "myself" ? { pods, id: "u1" } : found[asked.root];
  return { ...data({ [asked.root]: value }), headers: ENDS };
};
const without = (asked: Asked): Answer =>
  asked.method === "DELETE" ? { status: 204 } : asked.path === "/v2/pods" ? { json: { pods: [] } } : NO_POD;

describe("REST that answers only 404 does not take over", () => {
  test("when its catalogue comes from GraphQL: GraphQL still lists, orders and ends", async () => {
    const pods = [pod()];
    const stub = await podhostStub(retiring(pods, () => NO_POD));
    for (let look = 0; look < 3; look++) {
      await stub.provider.listOffers({ ...orderOf().spec, gpus: "L4:1" }, never);
      stub.clock.now += 20 * 60_000;
    }
    expect((await stub.provider.create(OFFER, orderOf())).id).toBe(HANDLE.id);
    expect(await stub.provider.listOwned("svc-", never)).toHaveLength(1);
    expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
    await stub.provider.terminate(HANDLE, never);
    expect(pods).toEqual([]);
    expect(stub.names()).not.toContain("POST /v2/pods");
  });

  test("does not keep a call from GraphQL that fails there after it had answered", async () => {
    const pods = [pod()];
    let working = true;
    const rest = (asked: Asked): Answer =>
      working && asked.path === "/v2/pods" ? { json: { pods: [restPod()] } } : NO_POD;
    const stub = await podhostStub(retiring(pods, rest));
    const look = async () => {
      stub.clock.now += 5_000;
      return (await stub.provider.inspect(HANDLE, never)).phase;
    };
    expect([await look(), await look()]).toEqual(["ready", "ready"]);
    working = false;
    expect(await look()).toBe("ready");
    expect((await stub.provider.create(OFFER, orderOf())).id).toBe(HANDLE.id);
    expect(stub.names()).not.toContain("POST /v2/pods");
  });

  test("by an account that REST does not name, after GraphQL is not served any more", async () => {
    const stub = await podhostStub(({ path }) => (path === "/graphql" ? { status: 410, json: {} } : NO_POD));
    expect((await thrownBy(stub.provider.accountId(never))).code).toBe("provider_error");
    stub.script = retiring([pod()], () => NO_POD);
    expect(await stub.provider.listOwned("svc-", never)).toHaveLength(1);
  });
});

describe("a pod that GraphQL still shows", () => {
  test.each<[string, (asked: Asked) => Answer]>([
    ["accepts its end and lists nothing", without],
    ["does not know it", (asked) => (asked.method === "DELETE" ? NO_POD : without(asked))],
    ["fails to end it", (asked) => (asked.method === "DELETE" ? { status: 500 } : without(asked))],
    [
      "says that it was terminated",
      (asked) => (asked.path === "/v2/pods" ? { json: { pods: [restPod({ status: "TERMINATED" })] } } : without(asked)),
    ],
  ])("is not gone, and is ended there, if REST %s", async (_what, rest) => {
    const pods = [pod()];
    const stub = await podhostStub(retiring(pods, rest));
    await stub.provider.listOwned("svc-", never);
    for (let look = 0; look < 2; look++) {
      stub.clock.now += 30_000;
      expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
      expect(await stub.provider.listOwned("svc-", never)).toMatchObject([{ id: HANDLE.id }]);
    }
    await stub.provider.terminate(HANDLE, never);
    expect(pods).toEqual([]);
    expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("gone");
    expect(await stub.provider.listOwned("svc-", never)).toEqual([]);
  });

  test("is ended there even if REST never answers", async () => {
    const pods = [pod()];
    const control = new AbortController();
    let silent = false;
    const stub = await podhostStub(
      retiring(pods, (asked) => (silent ? (new Promise<Answer>(() => undefined) as never) : without(asked))),
    );
    await stub.provider.listOwned("svc-", never);
    silent = true;
    const over = stub.provider.terminate(HANDLE, control.signal).catch(() => undefined);
    await vi.waitFor(() => expect(pods).toEqual([]), DEADLINE_MS);
    control.abort("REST never answers");
    await over;
  });
});

test.each<[string, Answer]>([
  ["limits requests", { status: 429, headers: { "retry-after": "1" }, json: { errors: [{ message: "slow down" }] } }],
  ["fails", errors("Something went wrong.")],
  ["leaves its list incomplete", data({ myself: { pods: [null] } })],
])("While GraphQL %s, a pod that REST does not list is unknown, and a listed one exists", async (_what, answer) => {
  const other = restPod({ id: "other" });
  const stub = await podhostStub(
    retiring([], (asked) => (asked.path === "/v2/pods" ? { json: { pods: [other] } } : NO_POD)),
  );
  await stub.provider.listOwned("svc-", never);
  const { script } = stub;
  stub.script = (asked) => (asked.path === "/graphql" ? answer : script(asked));
  stub.clock.now += 5_000;
  expect((await thrownBy(stub.provider.inspect(HANDLE, never))).code).toBe("provider_error");
  expect((await stub.provider.inspect({ ...HANDLE, id: "other" }, never)).phase).toBe("ready");
  const owned = shownInPart(await thrownBy(stub.provider.listOwned("svc-", never)));
  expect(owned?.machines).toMatchObject([{ id: "other" }]);
});

test("REST alone proves the end of a pod once GraphQL is not served any more", async () => {
  const stub = await podhostStub(retiring([pod()], without));
  await stub.provider.listOwned("svc-", never);
  const { script } = stub;
  stub.script = (asked) => (asked.path === "/graphql" ? { status: 410, json: { message: "gone" } } : script(asked));
  stub.clock.now += 5_000;
  expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("gone");
});

test.each([true, false])(
  "while GraphQL limits requests again and again, REST alone proves the end of a pod only if it has shown it (%s)",
  async (known) => {
    let pods = known ? [restPod()] : [];
    const stub = await podhostStub(
      retiring([pod()], (asked) => (asked.path === "/v2/pods" ? { json: { pods } } : NO_POD)),
    );
    await stub.provider.listOwned("svc-", never);
    await stub.provider.listOwned("svc-", never);
    const { script } = stub;
    const slow = { status: 429, json: { errors: [{ message: "slow down" }] } };
    stub.script = (asked) => (asked.path === "/graphql" ? slow : script(asked));
    pods = [];
    for (let look = 0; look < 3; look++) {
      stub.clock.now += 5_000;
      await stub.provider.inspect(HANDLE, never).catch(() => undefined);
    }
    stub.clock.now += 5_000;
    const said = await stub.provider.inspect(HANDLE, never).catch((e: unknown) => e);
    expect(said).toMatchObject(known ? { phase: "gone" } : { code: "provider_error" });
    // REST answers that there is no such pod: an attempt after the one that ended it must reach the proof.
    const ended = await stub.provider.terminate(HANDLE, never).then(
      () => "asked to end",
      (e: unknown) => e,
    );
    expect(ended).toEqual(known ? "asked to end" : expect.objectContaining({ code: "provider_error" }));
    const owned = await stub.provider.listOwned("svc-", never).catch((e: unknown) => e);
    expect(owned).toEqual(known ? [] : expect.objectContaining({ code: "provider_error" }));
  },
);

describe("a bare 404 or 405 in place of GraphQL's answer", () => {
  /** GraphQL, as given, and REST, which shows these pods and accepts every end. */
  const stubOf = async (graphql: (asked: Asked) => Answer, rest: { pods: unknown[] }) =>
    podhostStub((asked) => {
      if (asked.path === "/graphql") return graphql(asked);
      if (asked.method === "POST") return { status: 201, json: restPod({ name: asked.body.name }) };
      return asked.path === "/v2/pods" ? { json: rest } : asked.method === "DELETE" ? { status: 204 } : NO_POD;
    });
  const PAGE: Answer = { status: 404, raw: "<html>404 default backend</html>" };
  const served = ({ root }: Asked): Answer =>
    data({ [root]: root === "myself" ? { id: "u1", pods: [pod()] } : root === "pod" ? pod() : null });

  test.each<[string, Answer]>([
    ["404 with a page", PAGE],
    ["404 without a word", { status: 404, raw: "" }],
    ["405", { status: 405, raw: "Not allowed" }],
  ])("once (%s) proves no end of a pod that REST does not list, and GraphQL is asked again", async (_what, page) => {
    let answer: ((asked: Asked) => Answer) | null = null;
    const stub = await stubOf((asked) => (answer ?? served)(asked), { pods: [] });
    expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
    stub.clock.now += 30_000;
    answer = () => page;
    expect((await thrownBy(stub.provider.inspect(HANDLE, never))).code).toBe("provider_error");
    answer = null;
    for (let look = 0; look < 4; look++) {
      stub.clock.now += 30_000;
      expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
      expect(await stub.provider.listOwned("svc-", never)).toMatchObject([{ id: HANDLE.id }]);
    }
  });

  test("now and then, hours apart, proves no end either", async () => {
    let isBlip = true;
    const stub = await stubOf((asked) => (isBlip ? PAGE : served(asked)), { pods: [] });
    for (let look = 0; look < 4; look++) {
      stub.clock.now += 60 * 60_000;
      await thrownBy(stub.provider.inspect(HANDLE, never));
    }
    isBlip = false;
    for (let look = 0; look < 36; look++) {
      stub.clock.now += 30_000;
      // One other answer between the pages: the ten minutes start again.
      isBlip = look !== 18;
      const said = await stub.provider.inspect(HANDLE, never).catch((e: unknown) => e);
      expect(said).toMatchObject(isBlip ? { code: "provider_error" } : { phase: "ready" });
    }
  });

  test("for ten minutes, and nothing else, means that REST serves and proves everything, until GraphQL answers again", async () => {
    let isServed = false;
    const rest = { pods: [restPod()] };
    const stub = await stubOf((asked) => (isServed ? served(asked) : PAGE), rest);
    expect((await stub.provider.inspect(HANDLE, never)).phase).toBe("ready");
    rest.pods = [];
    let minutes = 0;
    const look = async () => {
      stub.clock.now += 30_000;
      return stub.provider.inspect(HANDLE, never).then(
        ({ phase }) => phase,
        () => "unknown",
      );
    };
    for (; minutes < 20 && (await look()) === "unknown"; minutes += 0.5);
    expect(minutes).toBeGreaterThan(9);
    expect(minutes).toBeLessThan(12);
    expect(await look()).toBe("gone");
    expect(await stub.provider.listOwned("svc-", never)).toEqual([]);
    expect((await stub.provider.create(OFFER, orderOf())).id).toBe(HANDLE.id);
    stub.asked.length = 0;
    await stub.provider.terminate(HANDLE, never);
    expect(stub.names().filter((name) => name.startsWith("DELETE") || name === "podTerminate")).toHaveLength(2);
    isServed = true;
    stub.clock.now += 61_000;
    expect(await look()).toBe("ready");
  });

  test("for ten minutes proves nothing if REST has not answered", async () => {
    const stub = await podhostStub(({ path }) => (path === "/graphql" ? PAGE : { status: 404, raw: "<html>" }));
    for (let look = 0; look < 40; look++) {
      stub.clock.now += 30_000;
      expect((await thrownBy(stub.provider.inspect(HANDLE, never))).code).toBe("provider_error");
    }
  });
});
