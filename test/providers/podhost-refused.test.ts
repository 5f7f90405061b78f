// podhost: an order that is refused with "too many requests". The provider may have made the pod before it refused: each resend is
// preceded by a list, and so is the report that nothing was ordered.

import { describe, expect, test } from "vitest";
import { mayHaveBeenSent } from "../../src/providers/http.ts";
import {
  data,
  never,
  OFFER,
  orderOf,
  pod,
  podhostStub,
  restPod,
  thrownBy,
  type Answer,
  type Asked,
} from "./podhost-stub.ts";

const REFUSED: Answer = {
  status: 429,
  headers: { "retry-after": "2" },
  json: { errors: [{ message: "Too many requests" }] },
};
const limited = (after: string): Answer => ({ ...REFUSED, headers: { "retry-after": after } });

describe.each(["graphql", "rest"])("%s: an order that is refused with 429", (api) => {
  const isRest = api === "rest";
  const isOrder = ({ method, path, root }: Asked): boolean =>
    isRest ? method === "POST" && path === "/v2/pods" : root === "podFindAndDeployOnDemand";
  const made = (name: string): Answer =>
    isRest ? { status: 201, json: restPod({ name }) } : data({ podFindAndDeployOnDemand: pod({ name }) });
  const listed = (...names: string[]): Answer =>
    isRest
      ? { json: { pods: names.map((name, i) => restPod({ name, id: `pod${i}` })) } }
      : data({ myself: { pods: names.map((name, i) => pod({ name, id: `pod${i}` })) } });
  const [order, list] = isRest ? ["POST /v2/pods", "GET /v2/pods"] : ["podFindAndDeployOnDemand", "myself"];
  const { name } = orderOf();
  const sent = (stub: { asked: Asked[] }): number => stub.asked.filter(isOrder).length;

  test("waits as requested and is sent again, under the same name, once a list has no pod of that name", async () => {
    let n = 0;
    const stub = await podhostStub((asked) => (isOrder(asked) ? ((n += 1) <= 1 ? REFUSED : made(name)) : listed("x")), {
      api,
    });
    expect((await stub.provider.create(OFFER, orderOf())).name).toBe(name);
    expect(stub.clock.pauses.reduce((sum, ms) => sum + ms, 0)).toBe(2_000);
    expect(stub.names()).toEqual([order, list, order]);
  });

  test("is not sent again if it has made the pod: the pod is the ordered machine", async () => {
    const pods: string[] = [];
    const stub = await podhostStub((asked) => (isOrder(asked) ? (pods.push(name), REFUSED) : listed(...pods)), { api });
    expect(await stub.provider.create(OFFER, orderOf())).toMatchObject({ id: "pod0", name, priceMicro: 2_990_000 });
    expect(pods).toHaveLength(1);
    expect(await stub.provider.listOwned("svc-", never)).toHaveLength(1);
  });

  test.each(["2", "120"])(
    "for ever (Retry-After: %s) is given up within 20 s, and is no lost answer",
    async (after) => {
      const stub = await podhostStub((asked) => (isOrder(asked) ? limited(after) : listed()), { api });
      const began = stub.clock.now;
      const error = await thrownBy(stub.provider.create(OFFER, orderOf()));
      expect(error.code).toBe("provider_error");
      expect(error.message).toContain("too many requests");
      expect(mayHaveBeenSent(error)).toBe(false);
      expect(stub.clock.now - began).toBeLessThanOrEqual(20_000);
      expect(stub.names().at(-1)).toBe(list);
    },
  );

  test.each(["0", "Mon, 01 Jan 2024 00:00:00 GMT"])(
    "for ever, with a delay of nothing (Retry-After: %s), is sent twice, seconds apart",
    async (after) => {
      const stub = await podhostStub(
        (asked) => (isOrder(asked) ? (sent(stub) > 20 ? made(name) : limited(after)) : listed()),
        { api },
      );
      await stub.provider.create(OFFER, orderOf()).catch(() => undefined);
      expect(sent(stub)).toBe(2);
      expect(Math.min(...stub.clock.pauses)).toBeGreaterThanOrEqual(2_000);
    },
  );

  test.each<[string, Answer]>([
    ["is refused as well", REFUSED],
    ["is refused for longer", limited("120")],
    ["is incomplete", isRest ? { json: { pods: [], hasMore: true } } : data({ myself: { pods: [null] } })],
    ["does not come", { cut: true }],
    ["has two such pods", listed(name, name)],
  ])("is a lost answer if the list %s", async (_what, answer) => {
    const stub = await podhostStub((asked) => (isOrder(asked) ? REFUSED : answer), { api });
    const error = await thrownBy(stub.provider.create(OFFER, orderOf()));
    expect(error.code).toBe("outcome_unknown");
    expect(mayHaveBeenSent(error)).toBe(true);
    expect(sent(stub)).toBe(1);
  });

  test("waits for its list, too, if that is refused with a delay", async () => {
    let n = 0;
    const stub = await podhostStub(
      (asked) => (isOrder(asked) ? (sent(stub) === 1 ? REFUSED : made(name)) : (n += 1) === 1 ? REFUSED : listed()),
      { api },
    );
    expect((await stub.provider.create(OFFER, orderOf())).name).toBe(name);
    expect(stub.names()).toEqual([order, list, list, order]);
  });

  test("is not sent again once its list took longer than an order may wait", async () => {
    const stub = await podhostStub(
      (asked) => {
        if (isOrder(asked)) return REFUSED;
        stub.clock.now += 60_000;
        return listed();
      },
      { api },
    );
    expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe("provider_error");
    expect(sent(stub)).toBe(1);
  });

  test("is a lost answer once a list shows the pod of an earlier order that was refused as well", async () => {
    const pods: string[] = [];
    let lag = Infinity;
    const stub = await podhostStub(
      (asked) => (isOrder(asked) ? (pods.push(name), REFUSED) : listed(...(lag === 0 ? pods.slice(0, 1) : []))),
      { api },
    );
    expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe("provider_error");
    lag = 0;
    const next = { ...orderOf(), name: "svc-abc-job1-n0-2" };
    const error = await thrownBy(stub.provider.create(OFFER, next));
    expect([error.code, mayHaveBeenSent(error), sent(stub)]).toEqual(["outcome_unknown", true, 3]);
    // Another order's pod says nothing, and neither does one that was refused long ago.
    stub.clock.now += 60 * 60_000;
    expect((await thrownBy(stub.provider.create(OFFER, next))).code).toBe("provider_error");
  });

  test("by a page without a delay may mean a request that was passed on", async () => {
    const stub = await podhostStub(() => ({ status: 429, raw: "<html>slow down</html>" }), { api });
    expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe("outcome_unknown");
    expect(stub.asked).toHaveLength(1);
  });
});
