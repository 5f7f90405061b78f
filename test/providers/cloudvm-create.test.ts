// The create calls of `cloudvm`: their content, their zones, and the meaning of each answer.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { requestIdOf, SECONDS_AROUND } from "../../src/providers/cloudvm/instance-body.ts";
import { madeInVain, NOTHING_MADE, type MachineHandle, type Order } from "../../src/providers/provider.ts";
import type { RunSpecInput } from "../../src/schemas/spec.ts";
import {
  apiError,
  CloudStub,
  failed,
  instance,
  LOGIN_KEY,
  MACHINE,
  never,
  notFound,
  operation,
  PROJECT,
  spec,
  ZONE,
} from "./cloudvm-stub.ts";
import { graceIn } from "./guard-text.ts";

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
});
afterEach(async () => {
  expect(stub.unexpected).toEqual([]);
  await stub.close();
});

const order = (change: Partial<RunSpecInput> = {}): Order => ({
  name: MACHINE,
  jobId: "job000000001",
  node: 0,
  spec: spec(change),
});
const OFFER = { id: `${ZONE}.g2-standard-8`, priceMicro: null, extra: { zone: ZONE } };
const INSERT = `/zones/${ZONE}/instances`;
const OPERATION = `/zones/${ZONE}/operations/operation-1`;
const SELF = `${INSERT}/${MACHINE}`;
const create = (change: Partial<RunSpecInput> = {}, settings: Record<string, string> = {}): Promise<MachineHandle> =>
  stub.provider(settings).create(OFFER, order(change));
const inserts = () => stub.asked("POST", /\/instances$/);
interface Body {
  machineType: string;
  disks: { initializeParams: Record<string, unknown> }[];
  guestAccelerators?: unknown[];
  scheduling: Record<string, unknown>;
  metadata: { items: { key: string; value: string }[] };
  networkInterfaces: Record<string, unknown>[];
  labels: Record<string, string>;
}
const sentBody = (): Body => JSON.parse(inserts().at(-1)?.body ?? "{}") as Body;
const metadata = (): Record<string, string> =>
  Object.fromEntries(sentBody().metadata.items.map(({ key, value }) => [key, value]));

describe("the zones that are tried", () => {
  const zones = async (change: Partial<RunSpecInput>, settings: Record<string, string> = {}) =>
    (await stub.provider(settings).listOffers(spec(change), never)).map((offer) => offer.extra?.["zone"]);

  it("the credential's zone first, then the others of its region that have the GPU, without a price", async () => {
    const facts = (zone: string) => ({ machine: "g2-standard-8", place: `us-central1-${zone}` });
    expect(await stub.provider().listOffers(spec(), never)).toEqual([
      {
        id: "us-central1-a.g2-standard-8",
        priceMicro: null,
        extra: { zone: "us-central1-a", asked: "yes" },
        facts: facts("a"),
      },
      { id: "us-central1-b.g2-standard-8", priceMicro: null, extra: { zone: "us-central1-b" }, facts: facts("b") },
      { id: "us-central1-c.g2-standard-8", priceMicro: null, extra: { zone: "us-central1-c" }, facts: facts("c") },
    ]);
    expect(await zones({ gpus: "A100" }, { zone: "us-central1-c" })).toEqual(["us-central1-c", "us-central1-a"]);
    expect(await zones({ gpus: "cpu" })).toEqual(["us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"]);
    expect(stub.seen).toEqual([]);
  });

  it("a region or a zone of the run comes before the credential's", async () => {
    expect(await zones({ region: "europe-west4" })).toEqual(["europe-west4-a", "europe-west4-b", "europe-west4-c"]);
    expect(await zones({ region: "us-east4-c" })).toEqual(["us-east4-c", "us-east4-a"]);
    expect(await zones({ region: "us-central1" }, { zone: "us-central1-b" })).toEqual([
      "us-central1-b",
      "us-central1-a",
      "us-central1-c",
    ]);
  });

  it("requests a region that the table does not know; one that does not exist is named", async () => {
    stub.on("GET", "/regions/mars-north1", {
      json: { zones: ["https://www.googleapis.com/compute/v1/projects/lab-1/zones/mars-north1-a"] },
    });
    expect(await zones({ gpus: "T4", region: "mars-north1" })).toEqual(["mars-north1-a"]);
    stub.on("GET", "/regions/moon", notFound("regions/moon"));
    await expect(zones({ region: "moon" })).rejects.toMatchObject({
      code: "provider_refused",
      message: expect.stringContaining("no region moon") as string,
      errors: [{ field: "spec.region", message: "moon does not exist" }],
    });
  });

  it("without a zone or a project it says which is missing", async () => {
    const missing = (words: string) => ({
      code: "credential_missing",
      message: expect.stringContaining(words) as string,
    });
    await expect(zones({}, { zone: "" })).rejects.toMatchObject(missing("zone is not set"));
    const nowhere = stub.provider({ project: "" }, () => stub.keyFile({ project_id: undefined }));
    await expect(nowhere.listOffers(spec(), never)).rejects.toMatchObject(missing("project is not set"));
    await expect(zones({}, { project: "../../x" })).rejects.toMatchObject(missing("not a project id"));
    await expect(zones({}, { zone: "a/b" })).rejects.toMatchObject(missing("zone"));
    expect(stub.seen).toEqual([]);
  });
});

describe("the machines that can be requested", () => {
  const check = (change: Partial<RunSpecInput>, settings: Record<string, string> = {}) =>
    stub.provider(settings).check(spec(change));
  const refused = (field: string, words: RegExp) =>
    expect.objectContaining({
      errors: [expect.objectContaining({ field, message: expect.stringMatching(words) as string })],
    });

  it("names the possible counts", () => {
    expect(() => check({ gpus: "H100:3" })).toThrow(refused("spec.gpus", /comes as 1, 2, 4 or 8 on one machine/));
    expect(() => check({ gpus: "H200:1" })).toThrow(refused("spec.gpus", /comes as 8 on one machine/));
    expect(() => check({ gpus: "T4:8" })).toThrow(refused("spec.gpus", /1, 2 or 4/));
    for (const gpus of ["cpu", "L4", "l4:2", "A100-80GB:8", "A100-PCIe:16", "nvidia-tesla-t4:4", "NV-NEXT:2"])
      expect(() => check({ gpus })).not.toThrow();
  });

  it("names the field that is unavailable", () => {
    expect(() => check({ gpus: "T4", min_vram_gb: 24 })).toThrow(refused("spec.min_vram_gb", /at most 16/));
    expect(() => check({ disk_gb: 100_000 })).toThrow(refused("spec.disk_gb", /at most 65536/));
    expect(() => check({ image: "my/image:1" })).toThrow(refused("spec.image", /image family/));
    expect(() => check({ region: "Über all" })).toThrow(refused("spec.region", /region or a zone/));
    expect(() => check({ gpus: "RTX 4090/x" })).toThrow(refused("spec.gpus", /is not a GPU of this provider/));
  });

  it("checks without a credential, too", () => {
    const provider = stub.provider({}, () => "nothing");
    expect(() => provider.check(spec({ gpus: "L4:3" }))).toThrow(refused("spec.gpus", /1, 2, 4 or 8/));
  });
});

describe("the request", () => {
  beforeEach(() => {
    stub.on("POST", INSERT, operation());
  });

  it("carries labels, limit, keys, guard and no account", async () => {
    await create({ max_runtime_minutes: 60, orphan_grace_minutes: 30, disk_gb: 200 });
    const [sent] = inserts();
    expect(sent?.query.get("requestId")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    const labels = { "svc-owner": "abcd1234", "svc-job": "job000000001", "svc-node": "0" };
    const { metadata: items, ...body } = sentBody();
    expect(items.items).toHaveLength(5);
    expect(body).toEqual({
      name: MACHINE,
      machineType: `zones/${ZONE}/machineTypes/g2-standard-8`,
      labels,
      disks: [
        {
          boot: true,
          autoDelete: true,
          type: "PERSISTENT",
          initializeParams: {
            sourceImage:
              "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580",
            diskSizeGb: "200",
            diskType: `zones/${ZONE}/diskTypes/pd-balanced`,
            labels,
          },
        },
      ],
      guestAccelerators: [
        {
          acceleratorType: `projects/${PROJECT}/zones/${ZONE}/acceleratorTypes/nvidia-l4`,
          acceleratorCount: 1,
        },
      ],
      scheduling: {
        onHostMaintenance: "TERMINATE",
        automaticRestart: false,
        provisioningModel: "STANDARD",
        maxRunDuration: { seconds: String(60 * 60 + SECONDS_AROUND + 30 * 60 + 10) },
        instanceTerminationAction: "DELETE",
      },
      networkInterfaces: [
        {
          network: "global/networks/default",
          accessConfigs: [{ type: "ONE_TO_ONE_NAT", name: "External NAT", networkTier: "PREMIUM" }],
        },
      ],
      tags: { items: ["svc"] },
    });
    const { "startup-script": script, ...words } = metadata();
    expect(words).toEqual({
      "ssh-keys": `svc:${LOGIN_KEY}`,
      "enable-oslogin": "FALSE",
      "block-project-ssh-keys": "TRUE",
      "install-nvidia-driver": "True",
    });
    expect(script?.startsWith("#!/bin/sh\n")).toBe(true);
    expect(script).toContain(`echo ${MACHINE} >/var/lib/svc/${MACHINE}/SVC_MACHINE`);
    expect(script).toContain(stub.provider().selfEnd(MACHINE));
    expect(inserts()[0]?.body).not.toContain("PRIVATE KEY");
  });

  it("fits the machine to the GPU", async () => {
    await create({ gpus: "T4:2" });
    expect(sentBody().machineType).toBe(`zones/${ZONE}/machineTypes/n1-standard-16`);
    expect(sentBody().guestAccelerators).toEqual([
      { acceleratorType: expect.stringMatching(/\/nvidia-tesla-t4$/) as string, acceleratorCount: 2 },
    ]);
    await create({ gpus: "H200:8" });
    expect(sentBody().disks[0]?.initializeParams["diskType"]).toBe(`zones/${ZONE}/diskTypes/hyperdisk-balanced`);
    await create({ gpus: "nvidia-next:4" });
    expect(sentBody().machineType).toBe(`zones/${ZONE}/machineTypes/n1-standard-32`);
    expect(JSON.stringify(sentBody().guestAccelerators)).toContain("/acceleratorTypes/nvidia-next");
    await create({ gpus: "cpu" });
    expect(sentBody().machineType).toBe(`zones/${ZONE}/machineTypes/e2-standard-4`);
    expect(sentBody().guestAccelerators).toBeUndefined();
    expect(metadata()).not.toHaveProperty("install-nvidia-driver");
    await create({ gpus: "L4:1" }, { machine_type: "g2-standard-4", provisioning: "spot" });
    expect(sentBody().machineType).toBe(`zones/${ZONE}/machineTypes/g2-standard-4`);
    expect(sentBody().guestAccelerators).toBeUndefined();
    expect(sentBody().scheduling["provisioningModel"]).toBe("SPOT");
  });

  it("reads image, disk, network and login from run and settings", async () => {
    await create({ image: "common-cu129-ubuntu-2404-nvidia-580", disk_gb: 20 });
    expect(sentBody().disks[0]?.initializeParams).toMatchObject({
      sourceImage: "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-580",
      // Its images need at least this size.
      diskSizeGb: "50",
    });
    const own = "projects/my-images/global/images/family/tiny";
    await create({ image: own, disk_gb: 20 }, { network: "lab", subnetwork: "inner", ssh_user: "ubuntu" });
    expect(sentBody().disks[0]?.initializeParams).toMatchObject({ sourceImage: own, diskSizeGb: "20" });
    expect(sentBody().networkInterfaces[0]).toMatchObject({
      network: "global/networks/lab",
      subnetwork: "regions/us-central1/subnetworks/inner",
    });
    expect(metadata()["ssh-keys"]).toBe(`ubuntu:${LOGIN_KEY}`);
    await expect(create({}, { ssh_user: "-oProxyCommand=x" })).rejects.toMatchObject({ code: "credential_missing" });
    await expect(create({}, { network: "../x" })).rejects.toMatchObject({ code: "credential_missing" });
  });
});

describe("the text that runs on the machine", () => {
  const dir = mkdtempSync(join(tmpdir(), "svc-cloudvm-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  writeFileSync(join(dir, "poweroff"), `#!/bin/sh\necho off >>${dir}/called\n`, { mode: 0o755 });
  // As the guard defines it.
  const svcEnv = `svc_env() { cat "${dir}/${MACHINE}/$1"; }\n`;
  const here = (script: string): string => script.replaceAll("/var/lib/svc/", `${dir}/`);
  const run = (script: string): number | null =>
    spawnSync("/bin/sh", ["-c", svcEnv + script], { env: { PATH: `${dir}:/usr/bin:/bin` } }).status;

  it("is well-formed shell that records the machine's name", async () => {
    stub.on("POST", INSERT, operation());
    await create();
    const script = metadata()["startup-script"] ?? "";
    expect(spawnSync("/bin/sh", ["-n"], { input: script }).status).toBe(0);
    expect(graceIn(script)).toBe(10);
    await create({ gpus: "L4:4" });
    expect(graceIn(metadata()["startup-script"] ?? ""), "as long as torchrun waits for its ranks").toBe(40);
    expect(script.split("\n")[1]).toBe(
      `mkdir -p /var/lib/svc/${MACHINE} && echo ${MACHINE} >/var/lib/svc/${MACHINE}/SVC_MACHINE`,
    );
    expect(run(here(script.split("\n")[1] ?? ""))).toBe(0);
  });

  it("powers off its own machine, and no other", () => {
    const end = here(stub.provider().selfEnd(MACHINE));
    expect(run(end)).toBe(0);
    expect(readFileSync(join(dir, "called"), "utf8")).toBe("off\n");
    expect(run(here(stub.provider().selfEnd("svc-abcd1234-other-n0-1")))).toBe(1);
    writeFileSync(join(dir, MACHINE, "SVC_MACHINE"), "another\n");
    expect(run(end)).toBe(1);
    expect(readFileSync(join(dir, "called"), "utf8")).toBe("off\n");
  });
});

describe("an answer that is good", () => {
  it("is accepted once the operation is done; ids stay strings", async () => {
    stub.on("POST", INSERT, operation({ status: "PENDING", targetId: undefined }));
    stub.on("GET", OPERATION, operation({ status: "RUNNING" }), { status: 503, text: "<html>" }, operation());
    expect(await create()).toEqual({
      v: 1,
      provider: "cloudvm",
      id: "4200000000000000001",
      name: MACHINE,
      address: null,
      priceMicro: null,
      extra: {
        project: PROJECT,
        zone: ZONE,
        ssh_user: "svc",
        made_at_ms: expect.stringMatching(/^\d+$/) as string,
        operation: "operation-1",
      },
    });
    expect(stub.asked("GET", /operations/)).toHaveLength(3);
  });

  it("gets three minutes at most: the machine is known by then", async () => {
    stub.on("POST", INSERT, operation({ status: "RUNNING" }));
    stub.on("GET", OPERATION, operation({ status: "RUNNING" }));
    stub.on("GET", SELF, { json: instance({ status: "PROVISIONING" }) });
    const startedAt = stub.nowMs;
    expect(await create()).toMatchObject({ name: MACHINE, id: "4200000000000000001" });
    expect(stub.nowMs - startedAt).toBeLessThan(200_000);
    expect(stub.nowMs - startedAt).toBeGreaterThanOrEqual(180_000);
  });

  it("ends the wait once the machine has its resources", async () => {
    stub.on("POST", INSERT, operation({ status: "RUNNING" }));
    stub.on("GET", OPERATION, operation({ status: "RUNNING" }));
    stub.on("GET", SELF, notFound(), { cut: true }, { json: instance({ status: "STAGING" }) });
    const startedAt = stub.nowMs;
    expect(await create()).toMatchObject({ name: MACHINE, extra: { operation: "operation-1" } });
    expect(stub.nowMs - startedAt).toBeLessThan(30_000);
  });

  it("never follows the links in it", async () => {
    stub.on("POST", INSERT, operation({ status: "RUNNING", selfLink: "http://127.0.0.1:1/steal" }));
    stub.on("GET", OPERATION, operation());
    await create();
    expect(stub.seen.every(({ path }) => path.startsWith(`/compute/v1/projects/${PROJECT}/zones/`))).toBe(true);
  });
});

describe("an answer that was lost", () => {
  it("is requested again with the same request", async () => {
    stub.on("POST", INSERT, { cut: true }, { status: 503, text: "<html>busy</html>" }, operation());
    expect((await create()).id).toBe("4200000000000000001");
    const ids = inserts().map((seen) => seen.query.get("requestId"));
    expect(ids).toHaveLength(3);
    expect(new Set(ids)).toEqual(new Set([requestIdOf(MACHINE, ZONE)]));
    expect(requestIdOf(MACHINE, "us-central1-b")).not.toBe(ids[0]);
  });

  it("twice, stays unknown", async () => {
    for (const answer of [
      { cut: true },
      apiError(500, "backendError", "Internal error"),
      { text: "<html>hello</html>" },
      { text: '{"name":"oper' },
    ]) {
      stub.on("POST", INSERT, answer);
      await expect(create()).rejects.toMatchObject({ code: "outcome_unknown" });
    }
    expect(inserts()).toHaveLength(12);
  });

  it("does not count as a refusal when a refusal follows it", async () => {
    stub.on("POST", INSERT, { cut: true }, apiError(403, "quotaExceeded", "Quota 'NVIDIA_L4_GPUS' exceeded."));
    await expect(create()).rejects.toMatchObject({ code: "outcome_unknown" });
  });

  it("leaves the machine to be adopted when its name is taken by then", async () => {
    stub.on("POST", INSERT, { cut: true }, apiError(409, "alreadyExists", "already exists"));
    stub.on("GET", SELF, { json: instance({ status: "PROVISIONING" }) });
    expect(await create()).toMatchObject({ id: "4200000000000000001", name: MACHINE });
  });

  it("does not lead to the adoption of a foreign machine", async () => {
    stub.on("POST", INSERT, apiError(409, "alreadyExists", "already exists"));
    stub.on("GET", SELF, { json: instance({ labels: { "svc-owner": "zzzz9999" } }) });
    await expect(create()).rejects.toMatchObject({ code: "provider_refused" });
    stub.on("GET", SELF, notFound());
    await expect(create()).rejects.toMatchObject({ code: "outcome_unknown" });
  });

  it("reports that the request never left this computer", async () => {
    stub.tokenAnswer = () => ({ cut: true });
    await expect(create()).rejects.toMatchObject({ code: "provider_unreachable" });
    expect(inserts()).toEqual([]);
  });
});

const STOCKOUT = {
  code: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
  message: "The zone does not have enough resources available to fulfill the request.",
  errorDetails: [
    { help: { links: [] } },
    { errorInfo: { reason: "resource_availability", metadatas: { zonesAvailable: "us-central1-b,us-central1-f" } } },
  ],
};

describe("an operation that failed", () => {
  const cases: [string, Record<string, unknown>, string, RegExp][] = [
    ["no capacity, and who has some", STOCKOUT, "offer_taken", /EXHAUSTED_WITH_DETAILS: The zone does not have enough.*us-central1-b,us-central1-f have it/],
    ["no capacity in other words", { code: "GPU_STOCKOUT", message: "x" }, "offer_taken", /none left/],
    ["taken back while it was made", { code: "UNSUPPORTED_OPERATION", message: "x" }, "offer_taken", /none left/],
    [
      "quota, by its metric",
      {
        code: "QUOTA_EXCEEDED",
        message: "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
        errorDetails: [{ quotaInfo: { metricName: "compute.googleapis.com/gpus_all_regions", limitName: "GPUS-ALL-REGIONS-per-project", dimensions: { region: "global" }, limit: 0 } }],
      },
      "no_quota",
      /GPUS-ALL-REGIONS-per-project in global, whose limit is 0.*new projects have a quota of 0/,
    ],
    ["an image that is gone", { code: "RESOURCE_NOT_FOUND", message: "The resource 'projects/d/global/images/family/old' was not found" }, "provider_refused", /image family|current family: common-cu129/],
    ["a machine type that the zone lacks", { code: "RESOURCE_NOT_FOUND", message: "The resource 'projects/p/zones/z/machineTypes/g2-standard-8' was not found" }, "offer_taken", /does not have it/],
    ["something nobody has heard of", { code: "NEW_TROUBLE", message: "because." }, "provider_refused", /NEW_TROUBLE: because/],
  ]; // prettier-ignore
  it.each(cases)("%s", async (_, error, code, words) => {
    stub.on("POST", INSERT, operation({ status: "RUNNING" }));
    stub.on("GET", OPERATION, failed(error));
    // The instance is visible for a moment anyway.
    stub.on("GET", SELF, { json: instance({ status: "PROVISIONING" }) }, notFound());
    await expect(create()).rejects.toMatchObject({ code, message: expect.stringMatching(words) as string });
    expect(NOTHING_MADE.has(code as "offer_taken")).toBe(true);
  });

  it("without a reason has failed anyway", async () => {
    stub.on("GET", SELF, notFound());
    for (const change of [
      { error: {} },
      { error: "no" },
      { httpErrorStatusCode: 400, httpErrorMessage: "BAD REQUEST" },
    ]) {
      stub.on("POST", INSERT, operation(change));
      await expect(create()).rejects.toMatchObject({ code: "provider_refused" });
    }
  });

  it("with a leaked machine gives its reason and carries the machine, which is ended and never used", async () => {
    stub.on("POST", INSERT, failed(STOCKOUT));
    for (const answer of [{ json: instance() }, { status: 404, text: "<html>not here</html>" }, { status: 500 }]) {
      stub.on("GET", SELF, answer);
      const refusal = await create().catch((e: unknown) => e);
      expect(refusal).toMatchObject({ code: "offer_taken" });
      const extra = expect.objectContaining({ zone: ZONE, operation: "operation-1" }) as object;
      expect(madeInVain(refusal)).toMatchObject({ id: "4200000000000000001", name: MACHINE, extra });
    }
  });

  it("for an unavailable count on demand says so", async () => {
    stub.on("POST", INSERT, failed(STOCKOUT));
    stub.on("GET", SELF, notFound());
    await expect(create({ gpus: "H100:1" })).rejects.toMatchObject({
      message: expect.stringContaining("set spot in the run, or provisioning to spot") as string,
    });
  });
});

describe("a request that is refused at once", () => {
  const cases: [string, ReturnType<typeof apiError>, string, RegExp][] = [
    ["no permission", apiError(403, "forbidden", "Required 'compute.instances.create' permission for 'projects/lab-1'"), "credential_refused", /compute\.instances\.create/],
    ["the API is off", apiError(403, "accessNotConfigured", "It is disabled. Enable it by visiting https://console.example.com/enable then retry."), "provider_refused", /not switched on.*https:\/\/console\.example\.com\/enable/],
    ["quota", apiError(403, "quotaExceeded", "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1."), "no_quota", /NVIDIA_L4_GPUS/],
    ["no capacity", apiError(503, "ZONE_RESOURCE_POOL_EXHAUSTED", "none"), "offer_taken", /EXHAUSTED/],
    ["an image family that was removed", apiError(404, "notFound", "The resource 'projects/deeplearning-platform-release/global/images/family/x' was not found"), "provider_refused", /Set image to a current family: common-cu129-ubuntu-2204-nvidia-580/],
    ["a machine type that the zone lacks", apiError(400, "invalid", "Invalid value for field 'resource.machineType': Machine type with name 'g2-standard-8' does not exist in zone 'us-central1-a'."), "offer_taken", /does not have it/],
    ["a zone that is closed", apiError(403, "forbidden", "Location us-central1-a is not found or access is unauthorized."), "offer_taken", /not open to this project/],
    ["a policy", apiError(412, "conditionNotMet", "Constraint constraints/compute.vmExternalIpAccess violated"), "provider_refused", /policy of the organisation.*vmExternalIpAccess/],
    ["bad input", apiError(400, "invalid", "Invalid value for field 'resource.x'"), "provider_refused", /resource\.x/],
  ]; // prettier-ignore
  it.each(cases)("%s", async (_, answer, code, words) => {
    stub.on("POST", INSERT, answer);
    await expect(create()).rejects.toMatchObject({ code, message: expect.stringMatching(words) as string });
    expect(inserts()).toHaveLength(1);
  });

  it("names an unknown GPU, and does not try it in the next zone", async () => {
    stub.on("POST", INSERT, notFound(`zones/${ZONE}/acceleratorTypes/nv-next`));
    await expect(create({ gpus: "nv-next" })).rejects.toMatchObject({
      code: "provider_refused",
      message: expect.stringContaining("acceleratorTypes/nv-next") as string,
    });
  });

  it("waits after too many requests, in either dialect, for as long as it says", async () => {
    stub.on(
      "POST",
      INSERT,
      apiError(403, "rateLimitExceeded", "Rate Limit Exceeded"),
      { ...apiError(429, "RESOURCE_EXHAUSTED", "slow down"), headers: { "retry-after": "3" } },
      operation(),
    );
    expect((await create()).name).toBe(MACHINE);
    expect(stub.pauses.slice(0, 2)).toEqual([1_000, 3_000]);
    stub.on("POST", INSERT, apiError(429, "rateLimitExceeded", "Rate Limit Exceeded"));
    await expect(create()).rejects.toMatchObject({ code: "provider_error" });
  });
});
