// The simulated market is as strict, as slow and as odd as the real one, according to its documentation and its users.
// @module-tag needs/sshd

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { call, eventually, login, ssh, testParts, type Answer, type TestParts } from "./harness-parts.ts";
import { MarketSim } from "./providers/market.ts";

let parts: TestParts;
let sim: MarketSim;
beforeAll(async () => {
  parts = await testParts();
  sim = await MarketSim.start(parts);
});
afterEach(async () => {
  parts.faults.clear();
  for (const instance of sim.instances.all.values()) await sim.instances.remove(instance, "vanished");
});
afterAll(async () => {
  await sim.close();
  await parts.close();
});

const api = (method: string, path: string, body?: unknown, key = parts.apiKey): Promise<Answer> =>
  call(method, `${sim.url}${path}`, { key, ...(body !== undefined && { body }) });
const GOOD = {
  verified: { eq: true },
  rentable: { eq: true },
  rented: { eq: false },
  external: { eq: false },
  order: [["dph_total", "asc"]],
};
const search = async (query: object): Promise<Record<string, unknown>[]> =>
  (await api("POST", "/api/v0/bundles/", { ...GOOD, ...query })).json["offers"] as Record<string, unknown>[];
const ORDER = { client_id: "me", image: "nvidia/cuda:12.8.1-base-ubuntu22.04", runtype: "ssh_direct", disk: 20 };
const rent = async (over: object = {}, id?: unknown): Promise<Answer> => {
  const offer = id ?? (await search({ gpu_name: { in: ["RTX 4090"] }, num_gpus: { eq: 1 } }))[0]?.["id"];
  return api("PUT", `/api/v0/asks/${String(offer)}/`, { ...ORDER, label: "svc-t-1", ...over });
};
const get = async (id: unknown): Promise<Record<string, unknown> | null> =>
  (await api("GET", `/api/v0/instances/${String(id)}/`)).json["instances"] as Record<string, unknown> | null;
const running = (id: unknown): Promise<Record<string, unknown>> =>
  eventually(async () => {
    const instance = await get(id);
    const ports = instance?.["ports"] as Record<string, unknown> | null | undefined;
    return instance?.["actual_status"] === "running" && ports?.["22/tcp"] ? instance : null;
  });
const alive = (): string[] => parts.ledger.alive().map(({ name }) => name);

describe("searching", () => {
  it("returns at most 64 offers, cheapest first on request, and the rest above the last price", async () => {
    const first = await search({ gpu_name: { eq: "RTX 4090" }, num_gpus: { eq: 1 }, limit: 1000 });
    expect(first).toHaveLength(64);
    const prices = first.map((offer) => Number(offer["dph_total"]));
    expect(prices).toEqual(prices.toSorted((a, b) => a - b));
    const more = await search({ gpu_name: { eq: "RTX 4090" }, num_gpus: { eq: 1 }, dph_total: { gt: prices.at(-1) } });
    expect(more.length).toBeGreaterThan(10);
  });

  it("prices the requested disk", async () => {
    const [small] = await search({ gpu_name: { eq: "L4" }, num_gpus: { eq: 1 }, allocated_storage: 0 });
    const [large] = await search({
      gpu_name: { eq: "L4" },
      ask_contract_id: { eq: small?.["id"] },
      allocated_storage: 720,
    });
    expect(Number(small?.["dph_total"])).toBe(small?.["dph_base"]);
    expect(Number(large?.["dph_total"]) - Number(large?.["dph_base"])).toBeCloseTo(Number(small?.["storage_cost"]), 9);
    expect(await search({ id: { eq: small?.["id"] } })).toEqual([]);
  });

  it("has traps below every honest price: offers that the filters do not exclude", async () => {
    const naive = await api("POST", "/api/v0/bundles/", { gpu_name: { eq: "H200" }, order: [["dph_total", "asc"]] });
    const [cheapest] = naive.json["offers"] as Record<string, unknown>[];
    const [honest] = await search({
      gpu_name: { eq: "H200" },
      reliability: { gte: 0.97 },
      duration: { gte: 86_400 },
      direct_port_count: { gte: 1 },
      disk_space: { gte: 100 },
    });
    expect(Number(cheapest?.["dph_base"])).toBeLessThan(Number(honest?.["dph_base"]) / 2);
    expect(cheapest?.["verification"]).toBe("unverified");
  });

  it.each([
    ["an operator that does not exist", { num_gpus: { atleast: 1 } }],
    ["a column that does not exist", { gpus: { eq: 1 } }],
    ["a value without its operator", { num_gpus: 1 }],
    ["an order that is none", { order: "dph_total" }],
    ["a type that is none", { type: "lease" }],
  ])("refuses %s", async (_what, query) => {
    expect((await api("POST", "/api/v0/bundles/", query)).status).toBe(400);
  });

  it("knows the command line's underscored names for none of its GPUs", async () => {
    expect(await search({ gpu_name: { in: ["RTX_4090"] } })).toEqual([]);
    const { json } = await call("GET", `${sim.url}/api/v0/gpu_names/unique/`);
    expect(json["gpu_names"]).toContain("RTX 4090");
  });

  it("returns malformed prices on demand", async () => {
    parts.faults.set("price_nan");
    expect((await search({}))[0]?.["dph_total"]).toBe(Infinity);
    parts.faults.clear();
    parts.faults.set("price_text");
    expect((await search({}))[0]?.["dph_total"]).toBe("free");
    parts.faults.clear();
    parts.faults.set("price_null");
    expect((await search({}))[0]?.["dph_total"]).toBeNull();
  });
});

describe("keys and endpoints", () => {
  it("answers a wrong key as 401 and as 404, with the same message", async () => {
    const answers = [
      await api("GET", "/api/v0/users/current/", undefined, "x"),
      await api("GET", "/api/v0/users/current/", undefined, "x"),
    ];
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 404]));
    for (const { json } of answers) expect(json).toMatchObject({ success: false, error: "auth_error" });
    expect((await api("POST", "/api/v0/bundles/", {}, "x")).status).toBe(404);
    expect((await call("POST", `${sim.url}/api/v0/bundles/`, { body: {} })).status).toBe(200);
    expect((await api("GET", "/api/v0/users/current/")).json).toMatchObject({ credit: 25 });
  });

  it("has no list at v0 any more", async () => {
    expect(await api("GET", "/api/v0/instances/")).toMatchObject({
      status: 410,
      json: { error: "deprecated_endpoint" },
    });
  });

  it("enforces the minimum time between calls of one kind on request, in three wordings", async () => {
    sim.intervals = true;
    try {
      const answers: Answer[] = [];
      for (let i = 0; i < 8; i += 1) answers.push(await api("GET", "/api/v1/instances/"));
      expect(answers[0]?.status).toBe(200);
      const late = answers.filter(({ status }) => status === 429);
      expect(late.length).toBeGreaterThanOrEqual(6);
      expect(late.some(({ json }) => json["error"] === "rate_limit_exceeded")).toBe(true);
      expect(late.some(({ json }) => "detail" in json)).toBe(true);
      expect(late.some(({ text }) => text.startsWith("API requests"))).toBe(true);
    } finally {
      sim.intervals = false;
    }
  });
});

describe("renting", () => {
  it.each([
    ["a start script of more than 4096 characters", { onstart: "x".repeat(4097) }, "invalid_args"],
    ["a label of more than 256 characters", { label: "x".repeat(257) }, "label_too_long"],
    ["less than 8 GB", { disk: 7 }, "invalid_args"],
    ["variables as text", { env: "-e A=b" }, "invalid_args"],
    ["no image", { image: undefined }, "invalid_args"],
    ["a field that does not exist", { onStart: "true" }, "invalid_args"],
    ["a bid of nothing", { price: 0 }, "invalid_price"],
  ])("refuses %s, and makes nothing", async (_what, over, error) => {
    expect(await rent(over)).toMatchObject({ status: 400, json: { success: false, error } });
    expect(alive()).toEqual([]);
  });

  it("makes a machine, shows how it comes up, lets its own key end it and nothing else", async () => {
    const { json } = await rent({ onstart: 'printf %s "$CONTAINER_ID" >/root/id', env: { A: "b" }, label: "svc-t-7" });
    const { new_contract: id, instance_api_key: own } = json as { new_contract: number; instance_api_key: string };
    expect(await get(id)).toMatchObject({ label: "svc-t-7", intended_status: "running", ports: null });
    await api("POST", `/api/v0/instances/${id}/ssh/`, { ssh_key: parts.publicKey });
    const up = await running(id);
    expect(up["public_ipaddr"]).toBe("127.0.0.1\n");
    expect(up).toMatchObject({ dph_total: parts.ledger.alive()[0]?.usdPerHour, image_runtype: "ssh_direc ssh_proxy" });
    const ports = up["ports"] as Record<string, { HostPort: string }[]>;
    const direct = {
      host: "127.0.0.1",
      port: Number(ports["22/tcp"]?.[0]?.HostPort),
      user: "root",
      keyPath: parts.keyPath,
    };
    expect((await login(direct, "cat /root/id 2>/dev/null || true")).code).toBe(0);
    expect((await ssh({ ...direct, port: Number(up["ssh_port"]) }, "id -un")).out.trim()).toBe("root");

    for (const [method, path] of [
      ["GET", "/api/v1/instances/"],
      ["GET", `/api/v0/instances/${id}/`],
      ["GET", "/api/v0/users/current/"],
      ["DELETE", `/api/v0/instances/${id + 1}/`],
    ] as const)
      expect((await api(method, path, undefined, own)).status).toBe(403);
    const ended = await ssh(
      direct,
      `curl -fsS -X DELETE -H 'Authorization: Bearer ${own}' -H 'Content-Type: application/json' -d '{}' ${sim.url}/api/v0/instances/${id}/ &`,
    );
    expect(ended.code).toBeGreaterThanOrEqual(0);
    await eventually(async () => (await get(id)) === null);
    expect(parts.ledger.all().find((line) => line.id === String(id))).toMatchObject({ endedBy: "self" });
    expect((await api("DELETE", `/api/v0/instances/${id}/`, {})).json).toMatchObject({ error: "no_such_instance" });
  });

  it("reports a taken offer in four ways", async () => {
    const seen = new Set<string>();
    parts.faults.set("offer_taken", 4);
    for (let i = 0; i < 4; i += 1) {
      const { status, text } = await rent();
      expect(text).toMatch(/no_such_ask|not available|no longer available/);
      seen.add(String(status));
    }
    expect([...seen].toSorted()).toEqual(["200", "400", "404", "410"]);
    expect(alive()).toEqual([]);
  });

  it("makes one machine of an offer, or a second that breaks", async () => {
    const [offer] = await search({ gpu_name: { eq: "A10" }, num_gpus: { eq: 1 } });
    expect((await rent({}, offer?.["id"])).json).toMatchObject({ success: true });
    expect((await rent({}, offer?.["id"])).json["new_contract"]).toBeUndefined();
    sim.doubleRent = "break";
    const second = (await rent({}, offer?.["id"])).json["new_contract"];
    sim.doubleRent = "reject";
    await eventually(async () => String((await get(second))?.["status_msg"]).includes("OCI runtime create failed"));
  });

  it("makes a stopped machine of a low bid, and says that it failed", async () => {
    const low = await rent({ price: 0.001, cancel_unavail: false });
    expect(low.json).toMatchObject({ success: false, new_contract: expect.any(Number) as number });
    expect(await get(low.json["new_contract"])).toMatchObject({ actual_status: "stopped", cur_state: "stopped" });
    expect((await rent({ price: 0.001, cancel_unavail: true })).json["new_contract"]).toBeUndefined();
  });

  it("loses answers, fails late and early, hides new machines, and ends only when it says so", async () => {
    parts.faults.set("lost_after_create");
    await expect(rent({ label: "svc-t-lost" })).rejects.toThrow("fetch failed");
    parts.faults.set("error_after_create");
    expect((await rent({ label: "svc-t-late" })).status).toBe(502);
    parts.faults.set("error_before_create");
    expect((await rent({ label: "svc-t-early" })).status).toBe(502);
    expect(alive()).toEqual(["svc-t-lost", "svc-t-late"]);
    parts.faults.set("listing_lag", 60_000);
    expect((await api("GET", "/api/v1/instances/")).json["instances"]).toEqual([]);
    parts.faults.clear();
    const rows = (await api("GET", "/api/v1/instances/")).json["instances"] as { id: number; label: string }[];
    expect(rows.map(({ label }) => label)).toEqual(["svc-t-lost", "svc-t-late"]);
    const id = rows[0]?.id;
    parts.faults.set("delete_ignored", 1);
    expect((await api("DELETE", `/api/v0/instances/${id}/`, {})).json).toEqual({ success: true });
    expect(await get(id)).not.toBeNull();
    parts.faults.set("delete_lost");
    await expect(api("DELETE", `/api/v0/instances/${id}/`, {})).rejects.toThrow("fetch failed");
    await eventually(async () => (await get(id)) === null);
    expect(alive()).toEqual(["svc-t-late"]);
  });
});

describe("the list", () => {
  it("has pages of 25, filters on stored columns, and refuses the computed ones", async () => {
    for (let i = 0; i < 30; i += 1) sim.addForeign(i % 2 === 0 ? `svc-page-${i}` : null);
    const first = await api("GET", "/api/v1/instances/?limit=100");
    expect(first.json["instances"]).toHaveLength(25);
    const token = String(first.json["next_token"]);
    const second = await api("GET", `/api/v1/instances/?limit=100&after_token=${token}`);
    expect(second.json).toMatchObject({ instances_found: 30, next_token: null });
    expect(second.json["instances"]).toHaveLength(5);
    const filter = (value: object): string =>
      `/api/v1/instances/?select_filters=${encodeURIComponent(JSON.stringify(value))}`;
    expect((await api("GET", filter({ label: { eq: "svc-page-4" } }))).json["instances"]).toHaveLength(1);
    expect((await api("GET", filter({ dph_total: { lte: 1 } }))).status).toBe(400);
    expect((await api("GET", "/api/v1/instances/?after_token=zzz")).status).toBe(400);
    expect(parts.ledger.alive()).toEqual([]);
  });
});

describe("the life of a machine", () => {
  it("halts it when another user pays more, and bills until it is destroyed", async () => {
    const id = (await rent()).json["new_contract"];
    await running(id);
    parts.faults.set("preempted", 0);
    const stopped = await eventually(async () => {
      const instance = await get(id);
      return instance?.["cur_state"] === "stopped" ? instance : null;
    });
    expect(stopped).toMatchObject({ next_state: "stopped", intended_status: "stopped", actual_status: "exited" });
    expect(alive()).toEqual(["svc-t-1"]);
  });

  it("moves both endpoints, and lists the new ones", async () => {
    const id = (await rent()).json["new_contract"];
    const before = await running(id);
    parts.faults.set("port_swap", 0);
    await eventually(async () => (await get(id))?.["ssh_port"] !== before["ssh_port"]);
  });

  it("ends silently", async () => {
    const id = (await rent()).json["new_contract"];
    await running(id);
    parts.faults.set("vanishes", 0);
    await eventually(async () => (await get(id)) === null);
    expect(parts.ledger.all().find((line) => line.id === String(id))?.endedBy).toBe("vanished");
    expect(parts.fleet.machines()).toEqual([]);
  });

  it("never comes up, or breaks with a message", async () => {
    parts.faults.set("boot_never");
    const never = (await rent({ label: "svc-t-never" })).json["new_contract"];
    await eventually(async () => (await get(never))?.["actual_status"] === "loading");
    parts.faults.set("boot_fails");
    const fails = (await rent({ label: "svc-t-fails" })).json["new_contract"];
    await eventually(async () => (await get(fails))?.["actual_status"] === "created");
    expect(await get(never)).toMatchObject({ actual_status: "loading", ports: null });
  });
});
