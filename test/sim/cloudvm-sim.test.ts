// The simulated cloud is as strict, as slow and as odd as the real one, according to its documentation and its users.
// @module-tag needs/sshd

import { createPrivateKey, randomUUID, sign } from "node:crypto";
import { userInfo } from "node:os";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { call, eventually, login, ssh, testParts, type Answer, type TestParts } from "./harness-parts.ts";
import { CloudvmSim } from "./providers/cloudvm.ts";
import { BadFilter, parseFilter } from "./providers/cloudvm-filter.ts";
import { scaledClock } from "./providers/clock.ts";

let parts: TestParts;
let sim: CloudvmSim;
let token: string;
beforeAll(async () => {
  parts = await testParts();
  sim = await CloudvmSim.start(parts);
  token = String((await exchange()).json["access_token"]);
});
afterEach(async () => {
  parts.faults.clear();
  for (const instance of sim.instances.all.values()) await sim.instances.vanish(instance);
});
afterAll(async () => {
  await sim.close();
  await parts.close();
});

const coded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");
function assertion(claims: object = {}, header: object = {}): string {
  const now = Math.floor(parts.clock.now() / 1000);
  const aud = `${sim.url}/token`;
  const scope = "https://www.googleapis.com/auth/compute";
  const head = coded({ alg: "RS256", typ: "JWT", kid: sim.desk.keyId, ...header });
  const text = `${head}.${coded({ iss: sim.desk.email, scope, aud, iat: now, exp: now + 3600, ...claims })}`;
  return `${text}.${sign("RSA-SHA256", Buffer.from(text), createPrivateKey(sim.desk.privateKey)).toString("base64url")}`;
}
const exchange = (jwt = assertion(), grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"): Promise<Answer> =>
  call("POST", `${sim.url}/token`, {
    headers: { "content-type": "application/x-www-form-urlencoded" },
    text: new URLSearchParams({ grant_type: grant, assertion: jwt }).toString(),
  });
const api = (method: string, path: string, body?: unknown, key = token): Promise<Answer> =>
  call(method, `${sim.url}/compute/v1/projects/${sim.project}${path}`, { key, ...(body !== undefined && { body }) });

/** Machines that share this computer also share its users. */
const user = (): string => (parts.fleet.kind === "plain" ? userInfo().username : "svc");
const ZONE = "us-central1-a";
const insertBody = (name: string, over: object = {}): Record<string, unknown> => ({
  name,
  machineType: `zones/${ZONE}/machineTypes/g2-standard-8`,
  labels: { "svc-owner": "h-1" },
  disks: [
    {
      boot: true,
      autoDelete: true,
      initializeParams: {
        sourceImage: "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580",
        diskSizeGb: "100",
        diskType: `zones/${ZONE}/diskTypes/pd-balanced`,
      },
    },
  ],
  scheduling: {
    onHostMaintenance: "TERMINATE",
    automaticRestart: false,
    maxRunDuration: { seconds: "3600" },
    instanceTerminationAction: "DELETE",
  },
  networkInterfaces: [
    { network: "global/networks/default", accessConfigs: [{ type: "ONE_TO_ONE_NAT", name: "External NAT" }] },
  ],
  metadata: {
    items: [
      { key: "ssh-keys", value: `${user()}:${parts.publicKey}` },
      { key: "enable-oslogin", value: "FALSE" },
      { key: "startup-script", value: "#!/bin/sh\nid -un >/tmp/started-by\n" },
    ],
  },
  ...over,
});
const scheduled = (provisioningModel: string, seconds: number) => ({
  onHostMaintenance: "TERMINATE",
  automaticRestart: false,
  provisioningModel,
  maxRunDuration: { seconds: String(seconds) },
  instanceTerminationAction: "DELETE",
});
const FLEX = {
  scheduling: scheduled("FLEX_START", 3_600),
  params: { requestValidForDuration: { seconds: "900" } },
  reservationAffinity: { consumeReservationType: "NO_RESERVATION" },
};
const FLEX_LONG = { ...FLEX, scheduling: scheduled("FLEX_START", 8 * 86_400) };
const BOUND = { scheduling: scheduled("RESERVATION_BOUND", 3_600) };
const SPECIFIC = {
  consumeReservationType: "SPECIFIC_RESERVATION",
  key: "compute.googleapis.com/reservation-name",
  values: ["theirs"],
};
const insert = (name: string, over: object = {}, query = ""): Promise<Answer> =>
  api("POST", `/zones/${ZONE}/instances${query}`, insertBody(name, over));
const get = async (name: string): Promise<Answer> => api("GET", `/zones/${ZONE}/instances/${name}`);
const done = (operation: Answer, zone = ZONE): Promise<Answer> =>
  eventually(async () => {
    const seen = await api("POST", `/zones/${zone}/operations/${String(operation.json["name"])}/wait`);
    return seen.json["status"] === "DONE" ? seen : null;
  });
const reason = ({ json }: Answer): unknown =>
  (json["error"] as { errors?: { reason: string }[] } | undefined)?.errors?.[0]?.reason;
const code = ({ json }: Answer): unknown =>
  (json["error"] as { errors?: { code: string }[] } | undefined)?.errors?.[0]?.code;
const alive = (): string[] => parts.ledger.alive().map(({ name }) => name);

describe("tokens", () => {
  it.each<[string, () => string, string]>([
    ["a signature of another key", () => `${assertion().slice(0, -6)}AAAAAA`, "Invalid JWT Signature."],
    [
      "another audience",
      () => assertion({ aud: "https://oauth2.googleapis.com/token" }),
      "Invalid JWT: Failed audience check.",
    ],
    ["more than an hour", () => assertion({ exp: Math.floor(Date.now() / 1000) + 4000 }), "Invalid JWT: Token must be"],
    ["a clock that is wrong", () => assertion({ iat: 1_000, exp: 2_000 }), "Invalid JWT: Token must be"],
    ["an unknown account", () => assertion({ iss: "x@example.org" }), "Invalid grant: account not found"],
    ["no scope", () => assertion({ scope: "" }), "Invalid OAuth scope"],
    ["another algorithm", () => assertion({}, { alg: "HS256" }), "Invalid JWT"],
    ["nothing", () => "", "Invalid JWT"],
  ])("are not made for %s", async (_what, jwt, description) => {
    const answer = await exchange(jwt());
    expect(answer.status).toBe(400);
    expect(answer.json["error"]).toMatch(/^invalid_(grant|scope)$/);
    expect(answer.json["error_description"]).toContain(description);
  });

  it("are short-lived, and cannot be forged or read", async () => {
    expect((await exchange(assertion(), "password")).json["error"]).toBe("unsupported_grant_type");
    sim.desk.tokenS = 0;
    const { json } = await exchange();
    sim.desk.tokenS = 3600;
    expect(json).toMatchObject({ token_type: "Bearer", expires_in: 0 });
    for (const key of [String(json["access_token"]), "ya29.x", assertion()])
      expect(await api("GET", "", undefined, key)).toMatchObject({
        status: 401,
        json: { error: { status: "UNAUTHENTICATED" } },
      });
    expect((await api("GET", "")).json).toMatchObject({ name: sim.project });
  });
});

describe("inserting", () => {
  const gpuless = { scheduling: { onHostMaintenance: "MIGRATE" } };
  it.each<[string, object, number, string]>([
    ["a field that it does not know", { svcJob: 1 }, 400, "badRequest"],
    ["a nested field that it does not know", { scheduling: { maxRun: 1 } }, 400, "badRequest"],
    ["a name with capitals", { name: "Svc-1" }, 400, "invalid"],
    ["a bare machine type", { machineType: "g2-standard-8" }, 400, "invalid"],
    ["a machine type of another zone", { machineType: "zones/us-east1-b/machineTypes/g2-standard-8" }, 400, "invalid"],
    ["a machine type that nobody sells", { machineType: `zones/${ZONE}/machineTypes/g2-standard-9` }, 400, "invalid"],
    ["GPUs that would migrate", gpuless, 400, "invalid"],
    [
      "a time limit below 30 seconds",
      {
        scheduling: {
          onHostMaintenance: "TERMINATE",
          maxRunDuration: { seconds: "29" },
          instanceTerminationAction: "DELETE",
        },
      },
      400,
      "invalid",
    ],
    ["a label with capitals", { labels: { "svc-job": "01JX" } }, 400, "invalid"],
    ["no network", { networkInterfaces: [] }, 400, "required"],
    [
      "GPUs that the machine type does not carry",
      {
        guestAccelerators: [
          { acceleratorType: `zones/${ZONE}/acceleratorTypes/nvidia-h100-80gb`, acceleratorCount: 1 },
        ],
      },
      400,
      "invalid",
    ],
    [
      "three T4",
      {
        machineType: `zones/${ZONE}/machineTypes/n1-standard-8`,
        guestAccelerators: [{ acceleratorType: `zones/${ZONE}/acceleratorTypes/nvidia-tesla-t4`, acceleratorCount: 3 }],
      },
      400,
      "invalid",
    ],
    ["one H100 on demand", { machineType: `zones/${ZONE}/machineTypes/a3-highgpu-1g` }, 400, "invalid"],
    [
      "a disk smaller than its image",
      {
        disks: [
          {
            boot: true,
            initializeParams: {
              sourceImage:
                "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580",
              diskSizeGb: "10",
            },
          },
        ],
      },
      400,
      "invalid",
    ],
    [
      "an image family that is gone",
      {
        disks: [
          {
            boot: true,
            initializeParams: {
              sourceImage: "projects/deeplearning-platform-release/global/images/family/pytorch-latest-gpu",
            },
          },
        ],
      },
      404,
      "notFound",
    ],
    ["terms that nobody sells", { scheduling: { ...FLEX.scheduling, provisioningModel: "CHEAP" } }, 400, "invalid"],
    ["a queue without its time", { ...FLEX, params: {} }, 400, "invalid"],
    ["a queue of a minute", { ...FLEX, params: { requestValidForDuration: { seconds: "60" } } }, 400, "invalid"],
    ["a queue for reserved capacity", { ...FLEX, reservationAffinity: SPECIFIC }, 404, "notFound"],
    ["a queue for any capacity", { ...FLEX, reservationAffinity: {} }, 400, "invalid"],
    ["a queue for eight days of running", FLEX_LONG, 400, "invalid"],
    ["a bound machine without a reservation", BOUND, 400, "invalid"],
    ["a reservation that nobody made", { ...BOUND, reservationAffinity: SPECIFIC }, 404, "notFound"],
  ])("refuses %s, and makes nothing", async (_what, over, status, why) => {
    const answer = await insert("svc-no-1", over);
    expect([answer.status, reason(answer)]).toEqual([status, why]);
    expect(alive()).toEqual([]);
  });

  it("makes a machine that is reached at its outer address, as a user with sudo, once its agent has run", async () => {
    const operation = await insert("svc-up-1", {}, `?requestId=${randomUUID()}`);
    expect(operation.json).toMatchObject({ kind: "compute#operation", operationType: "insert", status: "PENDING" });
    const seen = await get("svc-up-1");
    expect(["PROVISIONING", "STAGING"]).toContain(seen.json["status"]);
    expect(seen.text).not.toContain("natIP");
    expect((await done(operation)).json["error"]).toBeUndefined();
    const { json } = await get("svc-up-1");
    expect(json["status"]).toBe("RUNNING");
    const [nic] = json["networkInterfaces"] as { networkIP: string; accessConfigs: { natIP: string }[] }[];
    const host = nic?.accessConfigs[0]?.natIP ?? "";
    const way = { host, port: sim.instances.sshPort, user: user(), keyPath: parts.keyPath };
    expect((await login(way)).out.trim()).toBe(user());
    if (parts.fleet.kind === "namespaces") {
      await eventually(async () => (await ssh(way, "sudo -n cat /tmp/started-by")).out.trim() === "root");
      expect((await ssh({ ...way, user: "root" }, "true")).code).toBe(255);
    }
    expect(json["id"]).toMatch(/^[0-9]{19}$/);
    const limit = (json["resourceStatus"] as { scheduling: { terminationTimestamp: string } }).scheduling
      .terminationTimestamp;
    expect(Date.parse(limit) - Date.now()).toBeGreaterThan(3_400_000);
  });

  it("returns the same operation for the same requestId, and a conflict without it", async () => {
    const id = randomUUID();
    const first = await insert("svc-twice-1", {}, `?requestId=${id}`);
    const again = await insert("svc-twice-1", {}, `?requestId=${id}`);
    expect(again.json["name"]).toBe(first.json["name"]);
    const other = await insert("svc-twice-1");
    expect([other.status, reason(other)]).toEqual([409, "alreadyExists"]);
    expect((await insert("svc-x-1", {}, "?requestId=1")).status).toBe(400);
    expect(alive()).toEqual(["svc-twice-1"]);
  });

  it("reports a lack of capacity in the operation: the machine is visible for a moment", async () => {
    sim.stockouts.add(ZONE);
    const operation = await insert("svc-full-1");
    sim.stockouts.clear();
    expect(operation.status).toBe(200);
    expect((await get("svc-full-1")).status).toBe(200);
    const failed = await done(operation);
    expect(code(failed)).toBe("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS");
    expect(failed.json["httpErrorStatusCode"]).toBe(503);
    expect(failed.text).toContain("us-central1-b");
    expect((await get("svc-full-1")).status).toBe(404);
    expect(alive()).toEqual([]);
  });

  it("reports a quota at once and in the operation", async () => {
    sim.quota = { metric: "NVIDIA_L4_GPUS", limit: 0, how: "at once" };
    const atOnce = await insert("svc-quota-1");
    sim.quota = { metric: "GPUS_ALL_REGIONS", limit: 0, how: "in the operation" };
    const later = await done(await insert("svc-quota-2"));
    sim.quota = null;
    expect([atOnce.status, reason(atOnce)]).toEqual([403, "quotaExceeded"]);
    expect(code(later)).toBe("QUOTA_EXCEEDED");
    expect(later.text).toContain("GPUS_ALL_REGIONS");
  });

  it("loses answers after it has made the machine, and fails before", async () => {
    parts.faults.set("lost_after_create");
    await expect(insert("svc-lost-1")).rejects.toThrow("fetch failed");
    parts.faults.set("error_after_create");
    expect((await insert("svc-late-1")).status).toBe(503);
    parts.faults.set("error_before_create");
    expect((await insert("svc-early-1")).status).toBe(503);
    expect(alive()).toEqual(["svc-lost-1", "svc-late-1"]);
  });
});

describe("lists", () => {
  it("have no items when empty, warnings for empty zones, pages, and zones that do not answer", async () => {
    expect((await api("GET", `/zones/${ZONE}/instances`)).json).not.toHaveProperty("items");
    for (const n of [1, 2, 3])
      sim.addForeign(`other-${n}`, { team: n === 1 ? "a" : "b" }, n === 3 ? "us-central1-b" : ZONE);
    sim.pageSize = 2;
    const first = await api("GET", "/aggregated/instances");
    const rest = await api("GET", `/aggregated/instances?pageToken=${String(first.json["nextPageToken"])}`);
    sim.pageSize = 500;
    const items = first.json["items"] as Record<string, { instances?: unknown[]; warning?: { code: string } }>;
    expect(items[`zones/${ZONE}`]?.instances).toHaveLength(2);
    expect(items["zones/us-central1-b"]?.warning?.code).toBe("NO_RESULTS_ON_PAGE");
    expect(rest.text).toContain("other-3");
    expect(rest.json).not.toHaveProperty("nextPageToken");
    const filtered = await api("GET", `/zones/${ZONE}/instances?filter=${encodeURIComponent("labels.team=b")}`);
    expect((filtered.json["items"] as { name: string }[]).map(({ name }) => name)).toEqual(["other-2"]);
    sim.unreachable.add("us-central1-b");
    const partial = await api("GET", "/aggregated/instances?returnPartialSuccess=true");
    const whole = await api("GET", "/aggregated/instances");
    sim.unreachable.clear();
    expect(partial.json["unreachables"]).toEqual([`projects/${sim.project}/zones/us-central1-b`]);
    expect(partial.text).not.toContain("other-3");
    expect(whole.status).toBe(503);
  });

  it.each<[string, boolean]>([
    ["", true],
    ["labels.svc-owner=h-1", true],
    ["labels.svc-owner!=h-1", false],
    ["labels.svc-owner:*", true],
    ["labels.other:*", false],
    ["(labels.svc-owner=h-2) OR (status=RUNNING AND name=svc-*)", true],
    ['status="STOPPED" OR (name=x AND status=RUNNING)', false],
  ])("take the filter %j", (filter, expected) => {
    const row = { name: "svc-1", status: "RUNNING", labels: { "svc-owner": "h-1" } };
    expect(parseFilter(filter)(row)).toBe(expected);
  });

  it.each(["=", "a=", "(a=b", "a=b)", "a~b", "name eq svc-.*"])("refuse the filter %j", (filter) => {
    expect(() => parseFilter(filter)).toThrow(BadFilter);
  });
});

describe("the end of a machine", () => {
  it("takes some time, shows STOPPING meanwhile, and answers 404 only at its end", async () => {
    await done(await insert("svc-end-1"));
    const operation = await api("DELETE", `/zones/${ZONE}/instances/svc-end-1`);
    expect((await get("svc-end-1")).json["status"]).toBe("STOPPING");
    expect(alive()).toEqual(["svc-end-1"]);
    await done(operation);
    expect((await get("svc-end-1")).status).toBe(404);
    expect(alive()).toEqual([]);
    expect((await api("DELETE", `/zones/${ZONE}/instances/svc-end-1`)).status).toBe(404);
  });

  it("may be requested during the creation, whose operation then fails", async () => {
    const operation = await insert("svc-cancel-1");
    await api("DELETE", `/zones/${ZONE}/instances/svc-cancel-1`);
    expect(code(await done(operation))).toBe("CONFLICT");
    await eventually(() => alive().length === 0);
  });

  it("happens without a request at the time limit, by preemption, or for no reason; the operations show which", async () => {
    const quick = await testParts(scaledClock(200));
    const other = await CloudvmSim.start({ ...quick, project: sim.project });
    try {
      const jwtParts = { now: Math.floor(quick.clock.now() / 1000), aud: `${other.url}/token` };
      const head = coded({ alg: "RS256", typ: "JWT" });
      const text = `${head}.${coded({ iss: other.desk.email, scope: "https://www.googleapis.com/auth/compute", aud: jwtParts.aud, iat: jwtParts.now, exp: jwtParts.now + 3600 })}`;
      const jwt = `${text}.${sign("RSA-SHA256", Buffer.from(text), createPrivateKey(other.desk.privateKey)).toString("base64url")}`;
      const form = new URLSearchParams({ grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: jwt });
      const answer = await call("POST", jwtParts.aud, {
        headers: { "content-type": "application/x-www-form-urlencoded" },
        text: form.toString(),
      });
      const key = String(answer.json["access_token"]);
      const made = await call("POST", `${other.url}/compute/v1/projects/${sim.project}/zones/${ZONE}/instances`, {
        key,
        body: insertBody("svc-limit-1", {
          scheduling: {
            onHostMaintenance: "TERMINATE",
            maxRunDuration: { seconds: "300" },
            instanceTerminationAction: "DELETE",
          },
        }),
      });
      expect(made.status).toBe(200);
      await eventually(() => quick.ledger.all().find((line) => line.name === "svc-limit-1")?.endedBy === "limit");
      expect(other.instances.operations.map(({ type }) => type)).toContain("compute.instances.deferredDelete");
    } finally {
      await other.close();
      await quick.close();
    }

    await done(await insert("svc-spot-1"));
    parts.faults.set("preempted", 0);
    await eventually(async () => (await get("svc-spot-1")).status === 404);
    await done(await insert("svc-host-1"));
    parts.faults.set("vanishes", 0);
    await eventually(async () => (await get("svc-host-1")).status === 404);
    const { json } = await api("GET", `/zones/${ZONE}/operations?orderBy=creationTimestamp%20desc`);
    const types = (json["items"] as { operationType: string; user: string }[]).map(
      (one) => `${one.operationType} by ${one.user}`,
    );
    expect(types).toContain("compute.instances.preempted by system");
    expect(types[0]).toBe("compute.instances.hostError by system");
  });

  it("does not happen if the delete was ignored; keys are ignored under OS Login", async () => {
    sim.instances.projectOsLogin = true;
    const operation = await insert("svc-stay-1", {
      metadata: { items: [{ key: "ssh-keys", value: `${user()}:${parts.publicKey}` }] },
    });
    await done(operation);
    sim.instances.projectOsLogin = false;
    parts.faults.set("delete_ignored", 1);
    await done(await api("DELETE", `/zones/${ZONE}/instances/svc-stay-1`));
    const { json } = await get("svc-stay-1");
    expect(json["status"]).toBe("RUNNING");
    const [nic] = json["networkInterfaces"] as { accessConfigs: { natIP: string }[] }[];
    const way = {
      host: nic?.accessConfigs[0]?.natIP ?? "",
      port: sim.instances.sshPort,
      user: user(),
      keyPath: parts.keyPath,
    };
    const refused = await eventually(async () => {
      const tried = await ssh(way, "true");
      return tried.err.includes("Permission denied") ? tried : null;
    });
    expect(refused.code).toBe(255);
  });
});
