// @module-tag needs/sshd

import { buildSchema } from "graphql";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { call, eventually, login, ssh, testParts, type Answer, type TestParts } from "./harness-parts.ts";
import { project, readQuery } from "./providers/graphql-query.ts";
import { PodhostSim, type PodhostOptions } from "./providers/podhost.ts";

let parts: TestParts;
let sim: PodhostSim;
const open: PodhostSim[] = [];
const POD =
  "id name desiredStatus lastStatusChange costPerHr env runtime { ports { ip isIpPublic privatePort publicPort type } }";
const CREATE = `mutation C($input: PodFindAndDeployOnDemandInput!) { podFindAndDeployOnDemand(input: $input) { ${POD} } }`;
const TERMINATE = "mutation T($input: PodTerminateInput!) { podTerminate(input: $input) }";
const TIMINGS = { pullMs: 20, portsMs: 20, sshdMs: 0, exitedMs: 1_000 };

async function start(options: Partial<PodhostOptions> = {}): Promise<void> {
  sim = await PodhostSim.start({ ...parts, timings: TIMINGS, ...options });
  open.push(sim);
}
beforeEach(async () => {
  parts = await testParts();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  await parts.close();
});

const ask = (query: string, variables: object = {}, key: string | null = parts.apiKey): Promise<Answer> =>
  call("POST", `${sim.url}/graphql`, { ...(key === null ? {} : { key }), body: { query, variables } });
const order = (more: object = {}) => ({
  input: {
    name: "svc-test-n0-1",
    gpuTypeId: "NVIDIA L4",
    gpuCount: 1,
    cloudType: "SECURE",
    imageName: "runpod/pytorch:1",
    ports: "22/tcp",
    env: [{ key: "PUBLIC_KEY", value: parts.publicKey }],
    ...more,
  },
});
interface SeenPod {
  id: string;
  name: string;
  desiredStatus: string;
  lastStatusChange: string;
  costPerHr: unknown;
  env: string[];
  runtime: { ports: { ip: string; privatePort: number; publicPort: number }[] | null } | null;
}
const data = (answer: Answer): Record<string, unknown> => answer.json["data"] as Record<string, unknown>;
const made = (answer: Answer): SeenPod => data(answer)["podFindAndDeployOnDemand"] as SeenPod;
const message = (answer: Answer): string => (answer.json["errors"] as { message: string }[])[0]?.message ?? "";
const pods = async (): Promise<SeenPod[]> =>
  (data(await ask(`query { myself { pods { ${POD} } } }`))["myself"] as { pods: SeenPod[] }).pods;
const wayIn = (name = "svc-test-n0-1") =>
  eventually(async () =>
    (await pods()).find((pod) => pod.name === name)?.runtime?.ports?.find((port) => port.privatePort === 22),
  );

const wayOf = ({ ip, publicPort }: { ip: string; publicPort: number }) => ({
  host: ip,
  port: publicPort,
  user: "root",
  keyPath: parts.keyPath,
});

describe("queries as text", () => {
  const schema = buildSchema(`
    enum Size { E }
    input Wanted { n: Int!, o: String, x: [Size] }
    type Deep { v: Int }
    type Pod { id: Int, deep: Deep }
    type Query { pods(input: Wanted): [Pod] }`);
  const read = (text: string, variables: unknown = {}) => readQuery(schema, text, variables);

  test("Aliases, literals, variables and nested selections are read; unknown fields are refused", () => {
    const text = "query Q($n: Int!, $o: String) { a: pods(input: {x: [E], n: $n, o: $o}) { id deep { v } } }";
    const { kind, fields } = read(text, { n: 3 });
    expect([kind, fields[0]?.alias, fields[0]?.name]).toEqual(["query", "a", "pods"]);
    expect(fields[0]?.args).toEqual({ input: { x: ["E"], n: 3, o: undefined } });
    expect(project([{ id: 1, deep: null, other: 2 }], fields[0]?.fields ?? null)).toEqual([{ id: 1, deep: null }]);
    expect(() => read("{ pods { no } }")).toThrow('Cannot query field "no"');
    expect(() => read("{ pods }")).toThrow("must have a selection of subfields");
    expect(() => read("{ pods(input: {n: 1, z: 2}) { id } }")).toThrow('Field "z" is not defined by type "Wanted"');
    for (const bad of ["", "query {", "query { a(b: ) }", "query { a } }"])
      expect(() => read(bad), bad).toThrow(/^Syntax Error|non-empty `query`/);
    expect(() => read("query ($n: Int!) { pods(input: {n: $n}) { id } }")).toThrow(/\$n/);
  });

  test("An order with an unknown field, or a field of the wrong type, is refused", async () => {
    await start();
    for (const wrong of [
      { gpus: 1 },
      { gpuCount: "one" },
      { cloudType: "MOON" },
      { env: [{ key: "A" }] },
      { stopAfter: "soon" },
    ])
      expect((await ask(CREATE, order(wrong))).status, JSON.stringify(wrong)).toBe(400);
  });
});

describe("a pod", () => {
  test("exists from rented to gone, can be logged into, and is in the books throughout", async () => {
    await start();
    const pod = made(await ask(CREATE, order()));
    expect(pod).toMatchObject({ name: "svc-test-n0-1", desiredStatus: "RUNNING", costPerHr: 0.43, runtime: null });
    expect(pod.env).toEqual([`PUBLIC_KEY=${parts.publicKey}`]);
    expect(pod.lastStatusChange).toMatch(/^Rented by User: \w{3} \w{3} \d\d \d{4} [\d:]{8} GMT\+0000/);
    const port = await wayIn();
    const { out: said } = await login(wayOf(port), "tr '\\0' '\\n' </proc/1/environ; env");
    if (parts.fleet.kind === "namespaces") {
      expect(said).toContain(`RUNPOD_POD_ID=${pod.id}`);
      expect(said.match(/RUNPOD_API_KEY=/g), "SSH sessions do not see it").toHaveLength(1);
    }
    expect(data(await ask(TERMINATE, { input: { podId: pod.id } }))).toEqual({ podTerminate: null });
    expect((await pods())[0]).toMatchObject({
      desiredStatus: "EXITED",
      lastStatusChange: expect.stringMatching(/^Terminated by User/),
    });
    await eventually(async () => (await pods()).length === 0);
    expect(message(await ask(TERMINATE, { input: { podId: pod.id } }))).toBe("pod not found to terminate");
    expect(parts.ledger.all()).toMatchObject([{ id: pod.id, usdPerHour: 0.43, endedBy: "terminated", foreign: false }]);
    expect(parts.fleet.machines()).toEqual([]);
  });

  test("ends itself with its own key, which opens no other pod", { tags: "needs/namespaces" }, async () => {
    await start();
    const other = made(await ask(CREATE, order({ name: "svc-test-n1-1" })));
    const script = [
      `key=$RUNPOD_API_KEY pod=$RUNPOD_POD_ID`,
      `ask() { curl -s -H "Authorization: Bearer $key" -H "Content-Type: application/json" -d '{"query":"mutation T($input: PodTerminateInput!) { podTerminate(input: $input) }","variables":{"input":{"podId":"'"$1"'"}}}' ${sim.url}/graphql; }`,
      `ask ${other.id} >/workspace/other; sleep 1; ask "$pod"; /start.sh`,
    ].join("\n");
    const { id } = made(
      await ask(CREATE, order({ dockerArgs: JSON.stringify({ entrypoint: ["/bin/sh", "-c"], cmd: [script] }) })),
    );
    await eventually(() => parts.ledger.all().find((line) => line.id === id)?.endedBy === "self");
    expect(parts.ledger.alive().map((line) => line.id)).toEqual([other.id]);
    expect(parts.ledger.calls.filter((line) => line.startsWith("terminate"))).toEqual([`terminate ${id}`]);
  });

  test("restarts for ever when its command returns", { tags: "needs/namespaces" }, async () => {
    await start();
    await ask(
      CREATE,
      order({
        dockerArgs:
          "bash -c 'mkdir -p /root/.ssh; echo $PUBLIC_KEY >>/root/.ssh/authorized_keys; echo again >>/workspace/runs'",
      }),
    );
    const port = await wayIn();
    await eventually(async () => {
      const { out } = await ssh(wayOf(port), "cat /workspace/runs");
      return out.split("again").length > 3;
    });
  });
});

describe("requests of other programs", () => {
  test("An order by entrypoint and command runs it, and each ordered port leads to the machine", async () => {
    await start();
    const key = parts.apiKey;
    const gpu = { id: "NVIDIA L4", count: 1, minCudaVersion: "12.8", minRamPerGpu: 20, minVcpuCountPerGpu: 4 };
    const command = { entrypoint: ["/bin/sh"], cmd: ["-c", "exec /start.sh"] };
    const env = { PUBLIC_KEY: parts.publicKey };
    const body = { name: "peer-0", image: "base", gpu, ports: ["22/tcp", "10022/tcp"], env, ...command };
    const pod = await call("POST", `${sim.url}/v2/pods`, { key, body });
    expect(pod.status).toBe(201);
    const shown = await eventually(async () => {
      const { json } = await call("GET", `${sim.url}/v2/pods/${String(pod.json["id"])}`, { key });
      const ports = (json["runtime"] as { ports: { private: number; public: number }[] } | null)?.ports ?? [];
      return ports.length > 0 ? ports : undefined;
    });
    expect(shown.map((port) => port.private)).toEqual([22, 10_022]);
    expect(shown[0]?.public).toBe(shown[1]?.public);
    for (const path of ["account/ssh-keys", "registries"])
      expect((await call("GET", `${sim.url}/v2/${path}`, { key })).status).toBe(200);
  });

  test("A key of the account can be set, and is read again", async () => {
    await start();
    const set = await ask(`mutation { updateUserSettings(input: { pubKey: "ssh-ed25519 AAAA me" }) { id pubKey } }`);
    expect(set.status).toBe(200);
    const asked = await ask("query { myself { pubKey podTemplates { name } networkVolumes { id } } }");
    expect(data(asked)["myself"]).toEqual({ pubKey: "ssh-ed25519 AAAA me", podTemplates: [], networkVolumes: [] });
  });
});

describe("strictness", () => {
  test("a missing, wrong or read-only key is refused", async () => {
    await start({ readOnlyKeys: ["looks-only"] });
    expect(data(await ask("query { myself { id } }", {}, null))).toEqual({ myself: null });
    expect((await ask("query { myself { id } }", {}, "wrong")).status).toBe(401);
    expect((await ask(CREATE, order(), "looks-only")).status).toBe(403);
    expect(
      (await call("POST", `${sim.url}/graphql?api_key=${parts.apiKey}`, { body: { query: "{ myself { email } }" } }))
        .text,
    ).toContain("someone@");
    expect((await call("GET", `${sim.url}/v2/pods`, { key: "wrong" })).status).toBe(401);
    expect(parts.ledger.all()).toEqual([]);
  });

  test.each([
    ["an input field it does not know", CREATE, { gpuCont: 1 }, "gpuCont"],
    ["text for a number", CREATE, { gpuCount: "1" }, "gpuCount"],
    ["a duration for an instant", CREATE, { terminateAfter: "1h" }, "DateTime"],
    ["a field it does not have", CREATE.replace("lastStatusChange", "lastChange"), {}, "lastChange"],
  ])("%s is 400 and makes nothing", async (_, query, more, says) => {
    await start();
    const answer = await ask(query, order(more));
    expect([answer.status, message(answer)]).toEqual([400, expect.stringContaining(says)]);
    expect(parts.ledger.all().length, "refused only after it was made").toBeLessThanOrEqual(
      says === "lastChange" ? 1 : 0,
    );
  });

  test("reports missing money, an unknown GPU or count, and no capacity in its own words, with status 200", async () => {
    await start({ balanceUsd: 0.1 });
    const refused = async (more: object = {}): Promise<string> => {
      const answer = await ask(CREATE, order(more));
      expect([answer.status, data(answer)]).toEqual([200, { podFindAndDeployOnDemand: null }]);
      return message(answer);
    };
    expect(await refused()).toContain("balance is too low");
    sim.orders.balanceUsd = 50;
    expect(await refused({ gpuTypeId: "Tesla T4" })).toContain("no longer any instances available");
    parts.faults.set("offer_taken");
    expect(await refused()).toContain("does not have the resources");
    expect(made(await ask(CREATE, order())).id).toMatch(/^[a-z0-9]{14}$/);
  });

  test("the second API takes orders, lists pods, and answers problems with a status of their own", async () => {
    await start();
    const key = parts.apiKey;
    const body = {
      name: "svc-r-n0-1",
      image: "x/y:1",
      ports: ["22/tcp"],
      env: { PUBLIC_KEY: parts.publicKey },
      gpu: { id: "NVIDIA L4", count: 2 },
    };
    expect((await call("POST", `${sim.url}/v2/pods`, { key, body: { ...body, volumne: 1 } })).status).toBe(422);
    const pod = await call("POST", `${sim.url}/v2/pods`, { key, body });
    expect([pod.status, pod.json["status"], pod.json["cost"]]).toEqual([201, "PROVISIONING", 0.86]);
    const url = `${sim.url}/v2/pods/${String(pod.json["id"])}`;
    await eventually(async () => (await call("GET", url, { key })).json["status"] === "RUNNING");
    expect((await call("DELETE", url, { key })).status).toBe(204);
    await eventually(async () => (await call("GET", url, { key })).status === 404);
    expect(parts.ledger.alive()).toEqual([]);
  });
});

describe("faults", () => {
  test("a lost, failed or late answer leaves a machine behind; an early failure does not", async () => {
    await start();
    parts.faults.set("lost_after_create");
    await expect(ask(CREATE, order({ name: "svc-a-n0-1" }))).rejects.toThrow("fetch failed");
    parts.faults.set("error_after_create");
    expect(message(await ask(CREATE, order({ name: "svc-a-n0-2" })))).toContain("Something went wrong");
    parts.faults.set("slow_create", 3_000);
    await expect(ask(CREATE, order({ name: "svc-a-n0-3" }))).rejects.toThrow("fetch failed");
    expect(parts.ledger.alive()).toHaveLength(2);
    await eventually(() => parts.ledger.alive().length === 3);
    parts.faults.set("error_before_create");
    expect((await ask(CREATE, order())).status).toBe(502);
    expect(parts.ledger.alive()).toHaveLength(3);
    expect(parts.ledger.mostAtOnce("svc-a-n0-")).toBe(3);
  });

  test("listings can lag, and have pages, cut bodies, bombs, limits and malformed prices", async () => {
    await start();
    const foreign = sim.pods.foreign("somebody-else");
    const names = async () => (await pods()).map(({ name }) => name);
    expect(await names()).toEqual(["somebody-else"]);
    parts.faults.set("listing_lag", 600);
    made(await ask(CREATE, order()));
    expect(await names()).not.toContain("svc-test-n0-1");
    await eventually(async () => (await names()).includes("svc-test-n0-1"));
    parts.faults.set("html_200");
    expect((await ask("{ myself { id } }")).text).toMatch(/^<!DOCTYPE html>/);
    parts.faults.set("cut_json");
    expect((await ask("{ myself { id } }")).text).not.toMatch(/\}$/);
    parts.faults.set("rate_limited", 3);
    for (let i = 0; i < 3; i += 1) expect((await ask("{ myself { id } }")).status).toBe(429);
    parts.faults.set("price_nan");
    const prices = "{ gpuTypes { id securePrice } }";
    expect((await ask(prices)).text).toContain('"securePrice":1e999');
    parts.faults.clear("price_nan");
    parts.faults.set("price_text");
    expect((await ask(prices)).text).toContain("about a dollar");
    expect(parts.ledger.alive().map(({ id }) => id)).not.toContain(foreign.id);
  });

  test("deletions can be ignored twice, fail for a while, or be done without an answer", async () => {
    await start();
    const { id } = made(await ask(CREATE, order()));
    parts.faults.set("delete_errors", 150);
    expect(message(await ask(TERMINATE, { input: { podId: id } }))).toContain("Something went wrong");
    await eventually(
      () =>
        parts.faults.get("delete_errors") === null || ask(TERMINATE, { input: { podId: "none" } }).then(() => false),
    );
    parts.faults.set("delete_ignored");
    for (let i = 0; i < 2; i += 1)
      expect(data(await ask(TERMINATE, { input: { podId: id } }))).toEqual({ podTerminate: null });
    expect(parts.ledger.alive()).toHaveLength(1);
    parts.faults.set("delete_lost");
    await expect(ask(TERMINATE, { input: { podId: id } })).rejects.toThrow("fetch failed");
    expect(parts.ledger.alive()).toEqual([]);
  });

  test("machines can cost more than quoted, never come up, break, be outbid or move", async () => {
    await start();
    parts.faults.set("price_higher", 200);
    expect(made(await ask(CREATE, order({ name: "svc-b-n0-1" }))).costPerHr).toBe(0.86);
    parts.faults.set("boot_fails");
    await ask(CREATE, order({ name: "svc-b-n0-2" }));
    await eventually(async () => (await pods()).some((pod) => pod.lastStatusChange.startsWith("Exited by Runpod")));
    await wayIn("svc-b-n0-1");
    const before = await wayIn("svc-b-n0-1");
    parts.faults.set("port_swap", 10);
    await eventually(async () => (await wayIn("svc-b-n0-1")).publicPort !== before.publicPort);
    parts.faults.set("preempted", 10);
    await eventually(() => parts.ledger.all().some((line) => line.endedBy === "preempted"));
    expect(parts.ledger.alive()).toHaveLength(1);
  });
});
