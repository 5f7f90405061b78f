import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { guardScript } from "../../src/providers/guard.ts";
import { SvcError } from "../../src/errors/index.ts";
import { SharedLook } from "../../src/providers/market/shared-look.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import {
  KEY,
  machineRow,
  NAME,
  offerRow,
  order,
  page,
  PREFIX,
  PUBLIC_KEY,
  refusal,
  spec,
  Stub,
  type Reply,
} from "./market-stub.ts";

const signal = new AbortController().signal;
const LIST = "GET /api/v1/instances/";
const GET = "GET /api/v0/instances/9001/";
const DESTROY = "DELETE /api/v0/instances/9001/";
const ATTACH = "POST /api/v0/instances/9001/ssh/";
const HANDLE: MachineHandle = { v: 1, provider: "market", id: "9001", name: NAME, address: null, priceMicro: 430_000 };
const NULL: Reply = { json: { instances: null } };

let stub: Stub;
beforeEach(async () => {
  stub = await new Stub().start();
});
afterEach(() => stub.close());

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const thrown = await promise.then(
    () => "nothing",
    (e: unknown) => e,
  );
  return thrown instanceof SvcError ? thrown.code : String(thrown);
}
const look = (changes: Record<string, unknown>, handle = HANDLE) => {
  stub.routes[LIST] = () => page([machineRow(changes)]);
  return stub.provider().inspect(handle, signal);
};
const young = (): MachineHandle => ({ ...HANDLE, extra: { made_at: String(stub.clock.ms - 1_000) } });

describe("a machine without a usable id", () => {
  test.each(["../../x", "$(touch x)", "-rf", "a\nb"])(
    "%j: held by its name, used for nothing, and ended",
    async (id) => {
      const destroy = `DELETE /api/v0/instances/${encodeURIComponent(id)}/`;
      let rows = [machineRow({ id, label: NAME }), machineRow({ id: 7, label: "other" })];
      stub.routes[LIST] = () => page(rows);
      stub.routes[destroy] = () => {
        rows = rows.slice(1);
        return { json: { success: true } };
      };
      const provider = stub.provider();
      const owned = await provider.listOwned(PREFIX, signal);
      expect(owned.map((machine) => machine.name)).toEqual([NAME]);
      expect(await provider.inspect(owned[0]!, signal)).toMatchObject({ phase: "broken" });
      await provider.terminate(owned[0]!, signal);
      expect(await provider.inspect(owned[0]!, signal)).toEqual({ phase: "gone" });
      expect(rows.map((row) => row["id"])).toEqual([7]);
    },
  );

  test("a foreign machine without an id does not hide another machine", async () => {
    stub.routes[LIST] = () => page([machineRow({ id: "../x", label: "theirs" }), machineRow()]);
    expect((await stub.provider().inspect(HANDLE, signal)).phase).toBe("ready");
    expect(await stub.provider().listForeign(PREFIX, signal)).toEqual([{ id: "(unreadable)", name: "theirs" }]);
  });
});

describe("polling a machine", () => {
  test("running: the direct endpoint first, then the proxy, and its current price", async () => {
    expect(await look({})).toEqual({
      phase: "ready",
      address: "203.0.113.45",
      ssh: [
        { host: "203.0.113.45", port: 41022, user: "root" },
        { host: "ssh5.example.test", port: 15678, user: "root" },
      ],
      priceMicro: 430_000,
    });
  });

  test.each<[string, Record<string, unknown>, string[]]>([
    ["ports come late", { ports: null }, ["ssh5.example.test:15678"]],
    ["no port 22 is mapped", { ports: {} }, ["ssh5.example.test:15678"]],
    ["ports are a list of numbers", { ports: [22] }, ["ssh5.example.test:15678"]],
    [
      "the image is a notebook's",
      { ports: null, image_runtype: "jupyter_direc ssh_proxy" },
      ["ssh5.example.test:15679"],
    ],
    ["there is no proxy", { ssh_host: null, ssh_port: null }, ["203.0.113.45:41022"]],
    ["the proxy's port is text", { ports: null, ssh_port: "15678" }, ["ssh5.example.test:15678"]],
    ["the host is an option", { public_ipaddr: "-oProxyCommand=id" }, ["ssh5.example.test:15678"]],
    ["the proxy is shell text", { ssh_host: "a;reboot" }, ["203.0.113.45:41022"]],
    ["the port is shell text", { ports: { "22/tcp": [{ HostPort: "22 -x" }] } }, ["ssh5.example.test:15678"]],
    ["the port is no port", { ports: { "22/tcp": [{ HostPort: 70000 }, null] } }, ["ssh5.example.test:15678"]],
    ["the address has two lines", { public_ipaddr: "203.0.113.45\nevil" }, ["ssh5.example.test:15678"]],
  ])("endpoints if %s", async (_what, changes, ways) => {
    const status = await look(changes);
    expect(status.phase === "ready" && status.ssh?.map(({ host, port }) => `${host}:${port}`)).toEqual(ways);
  });

  test("running without any usable endpoint is not ready", async () => {
    expect((await look({ ports: null, ssh_host: "$(id)" })).phase).toBe("starting");
  });

  test.each([null, undefined, "0,43", 0, "0", "NaN", -1])(
    "a price of %s is null, also where it was known before",
    async (dph_total) => {
      expect(await look({ dph_total })).toMatchObject({ phase: "ready", priceMicro: null });
    },
  );

  test.each<[string, Record<string, unknown>, RegExp]>([
    ["null", { actual_status: null }, /provisioned/],
    ["created", { actual_status: "created" }, /container/],
    ["loading", { actual_status: "loading", status_msg: "3f1a: Downloading\u001b[31m 42%\n" }, /Downloading \[31m 42%/],
    ["one nobody knows", { actual_status: "defragmenting" }, /defragmenting/],
  ])("the state %s is starting", async (_what, changes, why) => {
    const status = await look(changes);
    expect(status.phase).toBe("starting");
    expect(status.phase === "starting" && status.why).toMatch(why);
  });

  const stopped = { cur_state: "stopped", next_state: "stopped", intended_status: "stopped" };
  test.each<[string, Record<string, unknown>, RegExp]>([
    ["exited", { actual_status: "exited" }, /exited/],
    ["stopped", { actual_status: "stopped" }, /stopped/],
    ["offline", { actual_status: "offline" }, /disconnected/],
    ["unknown", { actual_status: "unknown" }, /no sign of life/],
    ["frozen", { actual_status: "frozen" }, /frozen/],
    ["unloaded", { cur_state: "unloaded" }, /destroyed/],
    ["stopped by the provider", { ...stopped, actual_status: "exited" }, /credit|outbid/],
    ["stopped at its end", { ...stopped, end_date: 1_700_000_000 }, /end date/],
    ["an OCI failure", { actual_status: "created", status_msg: "OCI runtime create failed: x" }, /cannot start: OCI/],
    ["an unknown image", { actual_status: "loading", status_msg: "manifest unknown" }, /manifest/],
    ["a private image", { actual_status: null, status_msg: "pull access denied for x" }, /denied/],
  ])("reports a machine as broken, with the reason and its cost: %s", async (_what, changes, why) => {
    const status = await look(changes);
    expect(status).toMatchObject({ phase: "broken", priceMicro: 430_000 });
    expect(status.phase === "broken" && status.why).toMatch(why);
  });

  test("a host that worked may come back; after a minute and a half it is broken", async () => {
    let actual_status = "running";
    stub.routes[LIST] = () => page([machineRow({ actual_status })]);
    const provider = stub.provider();
    const phase = async () => (await provider.inspect(HANDLE, signal)).phase;
    expect(await phase()).toBe("ready");
    actual_status = "offline";
    stub.clock.ms += 10_000;
    expect(await phase()).toBe("starting");
    stub.clock.ms += 60_000;
    expect(await phase()).toBe("starting");
    stub.clock.ms += 40_000;
    expect(await phase()).toBe("broken");
    actual_status = "running";
    stub.clock.ms += 10_000;
    expect(await phase()).toBe("ready");
  });

  test("a rising price is noticed", async () => {
    let dph_total = 0.43;
    stub.routes[LIST] = () => page([machineRow({ dph_total })]);
    const provider = stub.provider();
    expect(await provider.inspect(HANDLE, signal)).toMatchObject({ priceMicro: 430_000 });
    dph_total = 0.9;
    stub.clock.ms += 5_000;
    expect(await provider.inspect(HANDLE, signal)).toMatchObject({ priceMicro: 900_000 });
  });

  test("two hundred concurrent polls cost one listing", async () => {
    const rows = Array.from({ length: 60 }, (_, i) => machineRow({ id: 1 + i, label: `${PREFIX}${i}` }));
    stub.routes[LIST] = ({ query }) => {
      const from = Number(query.get("after_token") ?? 0);
      return page(rows.slice(from, from + 25), from + 25 < rows.length ? String(from + 25) : null, rows.length);
    };
    const provider = stub.provider();
    const looks = Array.from({ length: 200 }, (_, i) =>
      provider.inspect({ ...HANDLE, id: String(1 + (i % 60)) }, new AbortController().signal),
    );
    expect(new Set((await Promise.all(looks)).map((status) => status.phase))).toEqual(new Set(["ready"]));
    expect(stub.count(LIST)).toBe(3);
    expect(stub.calls.map((call) => call.query.get("limit"))).toEqual(["25", "25", "25"]);
    expect((stub.calls[2]?.at ?? 0) - (stub.calls[0]?.at ?? 0)).toBe(2_000);
  });
});

describe("gone", () => {
  test("requires a complete listing, and three seconds later the machine itself", async () => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => NULL;
    expect(await stub.provider().inspect(HANDLE, signal)).toEqual({ phase: "gone" });
    const [listed, asked] = stub.calls;
    expect((asked?.at ?? 0) - (listed?.at ?? 0)).toBeGreaterThanOrEqual(3_000);
  });

  test("does not follow from a listing that the machine contradicts", async () => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => ({ json: { instances: [machineRow()] } });
    expect((await stub.provider().inspect(HANDLE, signal)).phase).toBe("ready");
  });

  test.each<[string, Reply, string]>([
    ["a bad key as 404", refusal(404, "auth_error", "Invalid user key"), "credential_refused"],
    ["a bad key as 401", { status: 401, json: {} }, "credential_refused"],
    ["a bare 404", { status: 404, text: "404: Not Found" }, "provider_error"],
    ["a page with 404", { status: 404, html: "<html>no such instance</html>" }, "provider_error"],
    ["no word on machines", { json: { success: true } }, "provider_error"],
    ["another machine", { json: { instances: machineRow({ id: 9002 }) } }, "provider_error"],
    ["a 500", { status: 500, json: { error: "not_found" } }, "provider_error"],
    ["no answer", "cut", "provider_unreachable"],
  ])("is not what %s says", async (_what, reply, code) => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => reply;
    expect(await codeOf(stub.provider().inspect(HANDLE, signal))).toBe(code);
  });

  test.each<[string, Reply]>([
    ["404 no_such_instance", refusal(404, "no_such_instance", "")],
    ["404 not_found", refusal(404, "not_found", "Instance 9001 not found")],
    ["an empty list", { json: { instances: [] } }],
  ])("is what %s says", async (_what, reply) => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => reply;
    expect((await stub.provider().inspect(HANDLE, signal)).phase).toBe("gone");
  });

  test("a second listing decides if its own address gives no clear answer", async () => {
    let rows: unknown[] = [];
    stub.routes[LIST] = () => page(rows);
    stub.routes[GET] = () => ((rows = [machineRow()]), refusal(410, "deprecated_endpoint"));
    expect((await stub.provider().inspect(HANDLE, signal)).phase).toBe("ready");
    stub.routes[GET] = () => ({ status: 404, json: { detail: "Not found." } });
    rows = [];
    expect((await stub.provider().inspect(HANDLE, signal)).phase).toBe("gone");
    expect(stub.count(LIST)).toBe(4);
  });

  test("a young machine that was never seen is not gone but not yet listed, even after it was ended", async () => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => NULL;
    stub.routes[DESTROY] = () => ({ json: { success: true } });
    const provider = stub.provider();
    const handle = young();
    await provider.terminate(handle, signal);
    expect(await provider.inspect(handle, signal)).toMatchObject({ phase: "starting" });
    stub.clock.ms += 120_000;
    expect((await provider.inspect(handle, signal)).phase).toBe("gone");
  });

  test("a young machine that was seen is gone at its first miss", async () => {
    let rows = [machineRow({ end_date: stub.clock.ms / 1000 - 1 })];
    stub.routes[LIST] = () => page(rows);
    stub.routes[GET] = () => NULL;
    stub.routes[DESTROY] = () => ({ json: { success: true } });
    const provider = stub.provider();
    await provider.inspect(young(), signal);
    rows = [];
    await provider.terminate(young(), signal);
    expect(await provider.inspect(young(), signal)).toEqual({
      phase: "gone",
      why: "its rental had reached its end date",
    });
  });

  test("an abort ends the wait between the two looks", async () => {
    stub.routes[LIST] = () => page([]);
    stub.routes[GET] = () => NULL;
    const abort = new AbortController();
    const waiting = stub.provider().inspect(HANDLE, abort.signal);
    abort.abort(new Error("killed"));
    await expect(waiting).rejects.toThrow("killed");
    expect(stub.count(GET)).toBe(0);
  });
});

describe("listings", () => {
  test("have all pages; ours by the whole name, everything else is foreign", async () => {
    const labels = [`${NAME} \n`, `${PREFIX}job;rm -rf`, null, "svc-ffffffff-job-n0-1"];
    const rows = labels.map((label, at) => machineRow({ id: at === 0 ? 9001 : at + 1, label }));
    stub.routes[LIST] = ({ query }) =>
      query.get("after_token") === "t2" ? page(rows.slice(2), null, 4) : page(rows.slice(0, 2), "t2", 4);
    const provider = stub.provider();
    expect(await provider.listOwned(PREFIX, signal)).toMatchObject([{ id: "9001", name: NAME, priceMicro: 430_000 }]);
    expect((await provider.listForeign(PREFIX, signal)).map(({ id, name }) => [id, name])).toEqual([
      ["2", `${PREFIX}job;rm -rf`],
      ["3", null],
      ["4", "svc-ffffffff-job-n0-1"],
    ]);
  });

  test("are complete by the last page's token if the provider counts nothing", async () => {
    stub.routes[LIST] = () => ({ json: { success: true, instances: [machineRow()], next_token: null } });
    expect(await stub.provider().listOwned(PREFIX, signal)).toMatchObject([{ id: "9001", name: NAME }]);
  });

  test.each<[string, (call: number) => Reply, string]>([
    ["the old address' 410", () => refusal(410, "deprecated_endpoint"), "provider_error"],
    ["a 500", () => ({ status: 500, text: "" }), "provider_error"],
    ["success: false", () => ({ json: { success: false, instances: [] } }), "provider_error"],
    ["no list", () => ({ json: { success: true, instances: null } }), "provider_error"],
    ["a page for people", () => ({ html: "<html></html>" }), "provider_error"],
    ["half a page", () => "torn", "provider_unreachable"],
    [
      "a second page that fails",
      (n) => (n === 1 ? page([machineRow()], "t") : refusal(400, "bad_token")),
      "provider_error",
    ],
    ["fewer machines than it counts", () => page([machineRow({ id: 1 })], null, 2), "provider_error"],
    ["no count and no end", () => ({ json: { success: true, instances: [] } }), "provider_error"],
    ["pages in a circle", () => page([machineRow({ id: 1 })], "t"), "provider_error"],
    ["an id that is not even text", () => page([machineRow({ id: ["x"] })]), "provider_error"],
    ["a bad key", () => refusal(404, "auth_error"), "credential_refused"],
  ])("%s is an error, never an empty listing", async (_what, reply, code) => {
    let n = 0;
    stub.routes[LIST] = () => reply(++n);
    const provider = stub.provider();
    expect(await codeOf(provider.listOwned(PREFIX, signal))).toBe(code);
    expect(await codeOf(provider.inspect(HANDLE, signal))).toBe(code);
    expect(n).toBeLessThanOrEqual(6);
  });

  test.each<[string, Reply]>([
    ["text", { status: 429, text: "API requests too frequent: endpoint threshold=1" }],
    ["detail", { status: 429, json: { detail: "API requests too frequent" } }],
    ["code", refusal(429, "rate_limit_exceeded")],
  ])("too many requests (%s): svc waits, and then reports an error", async (_what, reply) => {
    let refusals = 2;
    stub.routes[LIST] = () => (refusals-- > 0 ? reply : page([machineRow()]));
    expect(await stub.provider().listOwned(PREFIX, signal)).toHaveLength(1);
    refusals = 99;
    expect(await codeOf(stub.provider().listOwned(PREFIX, signal))).toBe("provider_error");
  });

  test("give a call during a running answer the next one, shared; an older answer serves callers that allow it", async () => {
    const answers: ((value: number) => void)[] = [];
    const shared = new SharedLook(
      () => new Promise<number>((resolve) => answers.push(resolve)),
      () => 1_000,
    );
    const first = shared.get(0);
    const [second, third, old] = [shared.get(0), shared.get(0), shared.get(500)];
    expect(answers).toHaveLength(1);
    answers[0]?.(1);
    expect([(await first).value, (await old).value]).toEqual([1, 1]);
    expect(answers).toHaveLength(2);
    shared.forget();
    const late = shared.get(500);
    answers[1]?.(2);
    expect([(await second).value, (await third).value]).toEqual([2, 2]);
    expect(answers).toHaveLength(3);
    answers[2]?.(3);
    expect((await late).value).toBe(3);
  });

  test("a listing that is requested again begins after the request", async () => {
    let rows: unknown[] = [];
    stub.routes[LIST] = () => page(rows);
    const provider = stub.provider();
    const before = provider.listOwned(PREFIX, signal);
    const after = before.then(() => ((rows = [machineRow()]), provider.listOwned(PREFIX, signal)));
    expect([(await before).length, (await after).length]).toEqual([0, 1]);
    // Two requests during a third one share the next answer, not the one of the third.
    const three = await Promise.all([1, 2, 3].map(() => provider.listOwned(PREFIX, signal)));
    expect(three.map((found) => found.length)).toEqual([1, 1, 1]);
    expect(stub.count(LIST)).toBe(4);
  });
});

describe("ending a machine", () => {
  test.each<[string, Reply, string]>([
    ["success", { json: { success: true } }, "nothing"],
    ["no such machine", refusal(404, "no_such_instance"), "nothing"],
    ["none there", NULL, "nothing"],
    ["not found in other words", { status: 404, json: { detail: "Not found." } }, "nothing"],
    ["a bad key as 404", refusal(404, "auth_error", "Invalid user key"), "credential_refused"],
    ["a key without the right", refusal(403, "not_authorized"), "credential_refused"],
    ["a bare 404", { status: 404, text: "404: Not Found" }, "provider_error"],
    ["a no", { json: { success: false, msg: "busy" } }, "provider_error"],
    ["a 500", { status: 500, text: "" }, "provider_error"],
    ["a page", { html: "<html></html>" }, "provider_error"],
    ["no answer", "cut", "provider_unreachable"],
  ])("%s", async (_what, reply, code) => {
    stub.routes[DESTROY] = () => reply;
    expect(await codeOf(stub.provider().terminate(HANDLE, signal))).toBe(code);
  });

  test("too many requests: waits, and retries", async () => {
    let refusals = 2;
    stub.routes[DESTROY] = () => (refusals-- > 0 ? { status: 429, text: "API requests too frequent" } : NULL);
    await stub.provider().terminate(HANDLE, signal);
    expect(stub.calls.map((call) => call.at - (stub.calls[0]?.at ?? 0))).toEqual([0, 3_000, 9_000]);
  });

  test("an unusable id is not sent anywhere", async () => {
    expect(await codeOf(stub.provider().terminate({ ...HANDLE, id: "1/../../x" }, signal))).toBe("provider_error");
    expect(stub.calls).toEqual([]);
  });

  test("a host whose machine could not start is avoided while there is another", async () => {
    let rows = [offerRow(), offerRow({ id: 502, ask_contract_id: 502, machine_id: 4412, dph_total: 0.5 })];
    stub.routes["POST /api/v0/bundles/"] = () => ({ json: { offers: rows } });
    stub.routes[LIST] = () => page([machineRow({ actual_status: "exited" })]);
    const provider = stub.provider();
    const ids = async () => (await provider.listOffers(spec(), signal)).map((offer) => offer.id);
    expect(await ids()).toEqual(["501", "502"]);
    expect((await provider.inspect(HANDLE, signal)).phase).toBe("broken");
    stub.clock.ms += 10_000;
    expect(await ids()).toEqual(["502"]);
    rows = rows.slice(0, 1);
    stub.clock.ms += 10_000;
    expect(await ids()).toEqual(["501"]);
  });

  test("svc avoids a host whose machine never came up before its end, but not one that served a run", async () => {
    const rows = [offerRow(), offerRow({ id: 502, ask_contract_id: 502, machine_id: 4412, dph_total: 0.5 })];
    stub.routes["POST /api/v0/bundles/"] = () => ({ json: { offers: rows } });
    stub.routes[DESTROY] = () => ({ json: { success: true } });
    for (const [actual_status, cheapest] of [
      ["running", "501"],
      ["loading", "502"],
    ] as const) {
      stub.routes[LIST] = () => page([machineRow({ actual_status })]);
      const provider = stub.provider();
      const [handle = HANDLE] = await provider.listOwned(PREFIX, signal);
      await provider.inspect(handle, signal);
      await provider.terminate(handle, signal);
      expect((await provider.listOffers(spec(), signal))[0]?.id).toBe(cheapest);
    }
  });
});

describe("the account", () => {
  test("its name and credit, and obstacles to renting", async () => {
    let credit: unknown = 12.5;
    stub.routes["GET /api/v0/users/current/"] = () => ({ json: { id: 5, email: "a@example.test", credit } });
    const provider = stub.provider();
    expect(await provider.account(signal)).toEqual({ name: "a@example.test", balanceUsd: 12.5, warnings: [] });
    credit = -0.2;
    expect((await provider.account(signal)).warnings).toHaveLength(1);
    credit = null;
    expect(await provider.account(signal)).toMatchObject({ balanceUsd: null, warnings: [] });
  });

  test("a wrong key is refused, and no error shows it", async () => {
    stub.routes[LIST] = () => ({ status: 500, text: `what is ${KEY}?` });
    const error: unknown = await stub
      .provider()
      .listOwned(PREFIX, signal)
      .catch((e: unknown) => e);
    expect(String(error)).toMatch(/what is \*\*\*redacted\*\*\*\?/);
    stub.secret = "mk-wrong-key-000";
    expect(await codeOf(stub.provider().account(signal))).toBe("credential_refused");
  });
});

describe("the endpoint, and the end", () => {
  test("the key is attached again on request", async () => {
    stub.routes[ATTACH] = () => refusal(400, "invalid_args", "key already attached");
    await stub.provider().attachKey(HANDLE, signal);
    expect(stub.calls[0]?.body).toEqual({ ssh_key: PUBLIC_KEY });
    stub.routes[ATTACH] = () => refusal(404, "no_such_instance");
    expect(await codeOf(stub.provider().attachKey(HANDLE, signal))).toBe("provider_error");
  });

  test("the machine ends itself with its own key, by the provider's API", () => {
    const selfEnd = stub.provider().selfEnd(NAME) ?? "";
    const shell = `svc_env() { eval "printf %s \\"\\\${$1-}\\""; }\nsvc_call() { echo "$SVC_KEY $*"; }\n${selfEnd}`;
    const env = { PATH: process.env.PATH ?? "", CONTAINER_ID: "9001", CONTAINER_API_KEY: "own" };
    expect(execFileSync("sh", ["-c", shell], { env }).toString()).toBe(
      `own DELETE ${stub.url}/api/v0/instances/9001/ {}\n`,
    );
    expect(() => execFileSync("sh", ["-c", shell], { env: { ...env, CONTAINER_ID: "x/../y" }, stdio: "pipe" })).toThrow(
      "Command failed",
    );
    execFileSync("sh", ["-n"], { input: guardScript({ name: NAME, graceSeconds: 60, stopSeconds: 10, selfEnd }) });
    expect(selfEnd).not.toContain(KEY);
  });

  test("a machine's own description", () => {
    const { info, certainty } = stub.provider();
    expect(info).toMatchObject({ name: "market", speaks: "Vast.ai", capabilities: { nodes_max: 1, self_end: true } });
    expect(certainty.listingLagMs).toBeGreaterThanOrEqual(120_000);
    expect(certainty.horizonMs).toBeGreaterThanOrEqual(120_000);
    expect(order().spec.provider).toBe("market");
  });
});
