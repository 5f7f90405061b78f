// A machine of `cloudvm` from its first poll to the proof that it is gone; listings; the account.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { MachineStatus } from "../../src/providers/provider.ts";
import {
  apiError,
  CloudStub,
  failed,
  handle,
  instance,
  MACHINE,
  never,
  notFound,
  operation,
  PROJECT,
  ZONE,
  type Answer,
} from "./cloudvm-stub.ts";

const SELF = `/zones/${ZONE}/instances/${MACHINE}`;
const OPERATIONS = `/zones/${ZONE}/operations`;
const LISTING = "/aggregated/instances";
/** The handle of a machine right after it was made. */
const fresh = (change: Record<string, string> = {}) =>
  handle({ operation: "operation-1", made_at_ms: String(stub.nowMs), ...change });

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
  stub.on("GET", OPERATIONS, { json: { kind: "compute#operationList" } });
});
afterEach(async () => {
  await stub.close();
  expect(stub.unexpected).toEqual([]);
});

const listed = (...operations: Answer[]): Answer => ({ json: { items: operations.map(({ json }) => json) } });
const matching = (words: RegExp): string => expect.stringMatching(words) as string;

describe("one poll of a machine", () => {
  const look = (json: Record<string, unknown>, settings: Record<string, string> = {}): Promise<MachineStatus> => {
    stub.on("GET", SELF, { json });
    return stub.provider(settings).inspect(handle(), never);
  };

  it.each(["PROVISIONING", "STAGING", "PENDING", "REPAIRING", "SOMETHING_NEW"])("%s is starting", async (status) => {
    expect(await look(instance({ status, networkInterfaces: undefined }))).toMatchObject({ phase: "starting" });
  });

  it("a missing state does not mean an end", async () => {
    expect(await look({ name: MACHINE })).toMatchObject({ phase: "starting" });
  });

  it("RUNNING is ready with an external address, and starting until then", async () => {
    expect(await look(instance())).toEqual({
      phase: "ready",
      address: "203.0.113.9",
      ssh: [{ host: "203.0.113.9", port: 22, user: "svc" }],
      privateAddress: "10.128.0.7",
      priceMicro: null,
    });
    for (const networkInterfaces of [
      undefined,
      [],
      [{}],
      [{ networkIP: "10.0.0.1" }],
      [{ accessConfigs: [] }],
      [{ accessConfigs: [{ type: "ONE_TO_ONE_NAT" }] }],
    ])
      expect(await look(instance({ networkInterfaces }))).toMatchObject({
        phase: "starting",
        why: matching(/external address/),
      });
  });

  it("user and port are the owner's settings; the machine keeps its original user", async () => {
    expect(await look(instance(), { ssh_user: "ubuntu", ssh_port: "2222" })).toMatchObject({
      ssh: [{ host: "203.0.113.9", port: 2222, user: "ubuntu" }],
    });
    const kept = await stub.provider({ ssh_user: "ubuntu" }).inspect(handle({ ssh_user: "svc" }), never);
    expect(kept).toMatchObject({ ssh: [{ user: "svc" }] });
  });

  it.each(["-oProxyCommand=touch /tmp/x", "203.0.113.9 -v", "a/b", "$(id)", "x\ny", "@h", "%h"])(
    "an address like %j is never handed on",
    async (natIP) => {
      const status = await look(instance({ networkInterfaces: [{ networkIP: natIP, accessConfigs: [{ natIP }] }] }));
      expect(status).toMatchObject({ phase: "broken", why: matching(/address cannot be one/) });
      expect(JSON.stringify(status)).not.toContain(natIP);
    },
  );

  it("an impossible inner address is ignored", async () => {
    const networkInterfaces = [{ networkIP: "-x", accessConfigs: [{ natIP: "203.0.113.9" }] }];
    expect(await look(instance({ networkInterfaces }))).toMatchObject({ phase: "ready", privateAddress: null });
  });

  it("calls a stopped machine broken: it exists, and its disk costs money", async () => {
    for (const status of ["TERMINATED", "STOPPED", "SUSPENDED", "STOPPING"])
      // The run's record keeps it after the machine is gone, too.
      expect(await look(instance({ status }))).toMatchObject({
        phase: "broken",
        why: matching(/^it is (being )?(stopped|suspended)(?!.* still )/),
      });
    stub.on(
      "GET",
      OPERATIONS,
      listed(operation({ operationType: "compute.instances.guestTerminate", user: "system" })),
    );
    expect(await look(instance({ status: "TERMINATED" }))).toMatchObject({
      phase: "broken",
      why: matching(/powered off from inside.*computing is billed no more/),
    });
  });

  it("another machine's answer, a page or a truncated body is an error and does not mean an end", async () => {
    await expect(look(instance({ name: "other" }))).rejects.toMatchObject({ code: "provider_error" });
    for (const answer of [
      { status: 404, text: "<html>not found</html>" },
      { status: 404, text: "" },
      { status: 404, json: { error: "Not Found" } },
      { text: "<html>welcome</html>" },
      { text: '{"name": "svc-' },
      apiError(500, "backendError", "oops"),
      notFound(`zones/${ZONE}`),
      { status: 404, json: { error: { code: 404, message: `The resource 'projects/${PROJECT}' was not found` } } },
    ]) {
      stub.on("GET", SELF, answer);
      await expect(stub.provider().inspect(handle(), never)).rejects.toMatchObject({ code: "provider_error" });
    }
    stub.on("GET", SELF, apiError(403, "forbidden", "Required 'compute.instances.get' permission"));
    await expect(stub.provider().inspect(handle(), never)).rejects.toMatchObject({ code: "credential_refused" });
    stub.on("GET", SELF, { cut: true });
    await expect(stub.provider().inspect(handle(), never)).rejects.toMatchObject({ code: "provider_unreachable" });
  });

  it("a short outage is waited out", async () => {
    stub.on("GET", SELF, { status: 503 }, { cut: true }, { json: instance() });
    expect(await stub.provider().inspect(handle(), never)).toMatchObject({ phase: "ready" });
  });

  it("keeps to the project and zone of the machine, whatever the settings are now", async () => {
    stub.on("GET", SELF, { json: instance() });
    const moved = stub.provider({ project: "another-1", zone: "europe-west4-a" });
    expect(await moved.inspect(handle(), never)).toMatchObject({ phase: "ready" });
    await expect(moved.inspect(handle({ zone: "../../x" }), never)).rejects.toMatchObject({ code: "provider_error" });
  });
});

describe("a machine that is not found", () => {
  beforeEach(() => stub.on("GET", SELF, notFound()));
  const seenBefore = async () => {
    const provider = stub.provider();
    stub.on("GET", SELF, { json: instance() }, notFound());
    await provider.inspect(fresh(), never);
    return provider.inspect(fresh(), never);
  };

  it.each([
    ["compute.instances.preempted", "system", /preempted/],
    ["compute.instances.deferredDelete", "system", /time limit/],
    ["delete", "anna@example.com", /deleted by anna@example\.com/],
    ["delete", `runs@${PROJECT}.example.com`, /deleted by this account's key/],
  ])("is gone, and %s of %s gives the reason", async (operationType, user, words) => {
    stub.on("GET", OPERATIONS, listed(operation({ operationType, user }), operation({ operationType: "insert" })));
    expect(await stub.provider().inspect(fresh(), never)).toEqual({
      phase: "gone",
      why: matching(words),
      ...(operationType.endsWith("preempted") ? { preempted: true } : {}),
    });
    const [asked] = stub.asked("GET", /operations$/);
    expect(asked?.query.get("filter")).toBe("targetId=4200000000000000001");
  });

  it.each([
    ["stop", /stopped by/],
    ["compute.instances.deferredStop", /time limit/],
    ["compute.instances.guestTerminate", /powered off from inside/],
    ["compute.instances.hostError", /hardware failed/],
  ])("is not gone because of %s: that leaves its disk, and one answer may omit it", async (operationType, words) => {
    stub.on("GET", OPERATIONS, listed(operation({ operationType })));
    stub.on("GET", `${OPERATIONS}/operation-1`, operation());
    expect(await stub.provider().inspect(fresh(), never)).toMatchObject({ phase: "starting" });
    // Older than any answer's lag.
    expect(await stub.provider().inspect(handle(), never)).toEqual({ phase: "gone", why: matching(words) });
  });

  it("the first cause counts, not the cleanup, and only its own operations", async () => {
    const at = (second: number, change: Record<string, unknown>) =>
      operation({ insertTime: `2026-10-01T10:00:0${second}.000-07:00`, ...change });
    stub.on(
      "GET",
      OPERATIONS,
      listed(
        at(5, { operationType: "delete", user: "runs" }),
        at(3, { operationType: "compute.instances.preempted" }),
        at(1, { operationType: "compute.instances.hostError", targetId: "77", targetLink: "x/instances/other" }),
        { json: { broken: true } },
      ),
    );
    expect(await stub.provider().inspect(fresh(), never)).toMatchObject({ phase: "gone", why: matching(/preempted/) });
  });

  it("is looked up without the filter if that is not understood", async () => {
    stub.on(
      "GET",
      OPERATIONS,
      apiError(400, "invalid", "Invalid value for field 'filter'"),
      listed(operation({ operationType: "compute.instances.preempted" })),
    );
    expect(await stub.provider().inspect(fresh(), never)).toMatchObject({ phase: "gone", why: matching(/preempted/) });
  });

  it("is gone during its deletion once a second poll and a listing of its zone agree", async () => {
    stub.on("GET", OPERATIONS, listed(operation({ operationType: "delete", status: "RUNNING" })));
    const items = { [`zones/${ZONE}`]: { instances: [instance()] } };
    const goingOn = { phase: "broken", why: matching(/deletion has not finished yet/) };
    stub.on("GET", LISTING, { json: { items } });
    expect(await seenBefore()).toMatchObject(goingOn);
    stub.on("GET", LISTING, { json: { items: {}, unreachables: [`projects/${PROJECT}/zones/us-central1-b`] } });
    stub.on("GET", SELF, notFound(), { json: instance() });
    expect(await stub.provider().inspect(fresh(), never)).toMatchObject(goingOn);
    stub.on("GET", SELF, notFound());
    const begun = stub.nowMs;
    expect(await stub.provider().inspect(fresh(), never)).toMatchObject({ phase: "gone", why: matching(/deleted/) });
    expect(stub.nowMs - begun).toBeGreaterThanOrEqual(3_000);
    for (const place of [`projects/${PROJECT}/zones/${ZONE}`, "regions/us-central1", "us-central1-b"]) {
      stub.on("GET", LISTING, { json: { items: {}, unreachables: [place] } });
      await expect(stub.provider().inspect(fresh(), never)).rejects.toMatchObject({ code: "provider_error" });
    }
  });

  it("is not gone while it is being created, nor right after", async () => {
    const provider = stub.provider();
    const made = fresh();
    stub.on("GET", `${OPERATIONS}/operation-1`, operation({ status: "RUNNING" }));
    stub.nowMs += 3_600_000;
    expect(await provider.inspect(made, never)).toMatchObject({ phase: "starting", why: matching(/still making/) });
    stub.on("GET", `${OPERATIONS}/operation-1`, operation());
    stub.nowMs -= 3_600_000 - 119_000;
    expect(await provider.inspect(made, never)).toMatchObject({ phase: "starting", why: matching(/not show it yet/) });
    stub.nowMs += 2_000;
    expect(await provider.inspect(made, never)).toEqual({ phase: "gone" });
  });

  it("is gone, with the reason, if its creation failed in the end", async () => {
    stub.on("GET", `${OPERATIONS}/operation-1`, failed({ code: "ZONE_RESOURCE_POOL_EXHAUSTED", message: "No room." }));
    expect(await stub.provider().inspect(fresh(), never)).toEqual({
      phase: "gone",
      why: "it could not be made: ZONE_RESOURCE_POOL_EXHAUSTED No room",
    });
  });

  it("needs the listing of machines to agree if the list of operations fails", async () => {
    const old = handle({ made_at_ms: "0" });
    stub.on("GET", OPERATIONS, { status: 404, json: { error: { code: 404, message: "Not Found" } } });
    stub.on("GET", LISTING, { json: { items: {} } });
    expect(await stub.provider().inspect(old, never)).toEqual({ phase: "gone" });
    stub.on("GET", LISTING, { json: { items: { [`zones/${ZONE}`]: { instances: [instance()] } } } });
    expect(await stub.provider().inspect(old, never)).toMatchObject({ phase: "starting" });
    stub.on("GET", LISTING, { status: 404, json: { error: { code: 404, message: "Not Found" } } });
    for (const json of [{ error: { code: 404, message: "Not Found" } }, {}, { items: "none" }, { status: "ok" }]) {
      stub.on("GET", OPERATIONS, { status: "error" in json ? 404 : 200, json });
      await expect(stub.provider().inspect(old, never)).rejects.toMatchObject({ code: "provider_error" });
    }
    stub.on("GET", OPERATIONS, apiError(403, "forbidden", "no"));
    await expect(stub.provider().inspect(old, never)).rejects.toMatchObject({ code: "credential_refused" });
  });
});

describe("ending a machine", () => {
  const deletion = (change: Record<string, unknown> = {}) =>
    operation({ name: "operation-2", operationType: "delete", ...change });
  const deletions = () => stub.asked("DELETE", /instances/);

  it("requests it once while the operation runs, and then proves it", async () => {
    const provider = stub.provider();
    stub.on("DELETE", SELF, deletion({ status: "PENDING" }));
    stub.on("GET", `${OPERATIONS}/operation-2`, deletion({ status: "RUNNING" }));
    await provider.terminate(handle(), never);
    await provider.terminate(handle(), never);
    expect(deletions()).toHaveLength(1);
    expect(deletions()[0]?.query.get("requestId")).toMatch(/^[0-9a-f-]{36}$/);
    stub.on("GET", `${OPERATIONS}/operation-2`, deletion());
    await provider.terminate(handle(), never);
    stub.on("GET", SELF, notFound());
    expect(await provider.inspect(fresh(), never)).toEqual({ phase: "gone" });
  });

  it("requests it again when it was done and the machine stayed, or when it takes for ever", async () => {
    const provider = stub.provider();
    stub.on("DELETE", SELF, deletion());
    await provider.terminate(handle(), never);
    await provider.terminate(handle(), never);
    expect(deletions()).toHaveLength(2);
    stub.on("DELETE", SELF, deletion({ status: "PENDING" }));
    stub.on("GET", `${OPERATIONS}/operation-2`, deletion({ status: "RUNNING" }));
    await provider.terminate(handle(), never);
    stub.nowMs += 6 * 60_000;
    await provider.terminate(handle(), never);
    expect(deletions()).toHaveLength(4);
  });

  it("accepts a machine that is gone or being deleted", async () => {
    for (const answer of [notFound(), apiError(400, "resourceNotReady", "The resource is not ready")]) {
      stub.on("DELETE", SELF, answer);
      await stub.provider().terminate(handle(), never);
    }
  });

  it("waits out an outage, with the same request", async () => {
    stub.on("DELETE", SELF, { status: 502, text: "<html>" }, { cut: true }, deletion());
    await stub.provider().terminate(handle(), never);
    expect(new Set(deletions().map((seen) => seen.query.get("requestId"))).size).toBe(1);
  });

  it("throws an error that a retry may fix", async () => {
    for (const [answer, code] of [
      [apiError(500, "backendError", "x"), "provider_error"],
      [{ status: 404, text: "<html>" }, "provider_error"],
      [notFound(`zones/${ZONE}`), "provider_error"],
      [apiError(400, "invalid", "deletion protection"), "provider_error"],
      [apiError(403, "accessNotConfigured", "off"), "provider_error"],
      [{ cut: true }, "provider_unreachable"],
      [apiError(403, "forbidden", "Required 'compute.instances.delete'"), "credential_refused"],
    ] as [Answer, string][]) {
      stub.on("DELETE", SELF, answer);
      await expect(stub.provider().terminate(handle(), never)).rejects.toMatchObject({ code });
    }
  });

  it("ends nothing after an abort", async () => {
    const gone = AbortSignal.abort(new DOMException("enough", "AbortError"));
    await expect(stub.provider().terminate(handle(), gone)).rejects.toThrow("enough");
    expect(stub.seen).toEqual([]);
  });
});

describe("listing", () => {
  const OURS = "svc-abcd1234-";
  const empty = { warning: { code: "NO_RESULTS_ON_PAGE", message: "There are no results for scope." } };
  const page = (items: unknown, change: Record<string, unknown> = {}): Answer => ({
    json: { kind: "compute#instanceAggregatedList", items, ...change },
  });
  const stranger = instance({ id: "55", name: "database", labels: { app: "db" } });
  const otherHome = instance({ id: "56", name: "svc-zzzz9999-job-n0-1", labels: { "svc-owner": "zzzz9999" } });
  const lookalike = instance({ id: "57", name: "svc-abcd1234-x-n0-1", labels: {} });

  it("returns every machine of ours, of all zones and pages, stopped ones too", async () => {
    const second = instance({
      id: 43,
      name: "svc-abcd1234-job000000002-n0-1",
      status: "TERMINATED",
      networkInterfaces: undefined,
    });
    const pages = [
      page(
        { "zones/asia-east1-a": empty, [`zones/${ZONE}`]: { instances: [instance(), stranger] } },
        { nextPageToken: "p2" },
      ),
      page({ "zones/us-east1-b": { instances: [second, otherHome, lookalike] }, "zones/us-east1-c": empty }),
    ];
    // svc reads a list of several pages until two readings are equal.
    stub.on("GET", LISTING, ...pages, ...pages);
    expect(await stub.provider().listOwned(OURS, never)).toEqual([
      {
        v: 1,
        provider: "cloudvm",
        id: "4200000000000000001",
        name: MACHINE,
        address: "203.0.113.9",
        priceMicro: null,
        ssh: [{ host: "203.0.113.9", port: 22, user: "svc" }],
        extra: { project: PROJECT, zone: ZONE, made_at_ms: String(stub.nowMs) },
      },
      {
        v: 1,
        provider: "cloudvm",
        id: "43",
        name: "svc-abcd1234-job000000002-n0-1",
        address: null,
        priceMicro: null,
        extra: { project: PROJECT, zone: "us-east1-b", made_at_ms: String(stub.nowMs) },
      },
    ]);
    const [first, next] = stub.asked("GET", /aggregated/);
    expect(Object.fromEntries(first?.query ?? [])).toEqual({
      filter: "labels.svc-owner=abcd1234",
      returnPartialSuccess: "true",
      maxResults: "500",
    });
    expect(next?.query.get("pageToken")).toBe("p2");
  });

  it("returns only the machines of one node, and an empty list if there are none", async () => {
    const tenth = instance({ id: "44", name: "svc-abcd1234-job000000001-n01-1" });
    stub.on("GET", LISTING, page({ [`zones/${ZONE}`]: { instances: [instance(), tenth] } }));
    const owned = await stub.provider().listOwned("svc-abcd1234-job000000001-n0-", never);
    expect(owned.map(({ name }) => name)).toEqual([MACHINE]);
    stub.on("GET", LISTING, page(undefined), page({ "zones/a": empty }), page({ "zones/a": {} }));
    for (let i = 0; i < 3; i++) expect(await stub.provider().listOwned(OURS, never)).toEqual([]);
  });

  it("is an error, not a shorter list, when any part of it is missing", async () => {
    for (const answer of [
      page({}, { unreachables: ["zones/us-east1-b"] }),
      page({}, { warning: { code: "UNREACHABLE", message: "some zones" } }),
      page({ "zones/us-east1-b": { warning: { code: "UNREACHABLE", message: "did not answer" } } }),
      page({ [`zones/${ZONE}`]: { instances: [{ id: "1" }] } }),
      page({ [`zones/${ZONE}`]: { instances: "none" } }),
      page({ [`zones/${ZONE}`]: { instances: [instance({ labels: "none" })] } }),
      page({ [`zones/${ZONE}`]: { instances: [instance({ labels: { "svc-owner": "abcd1234", "svc-job": 7 } })] } }),
      page([instance()]),
      page({ "zones/../x;y": { instances: [instance()] } }),
      page({}, { nextPageToken: "round" }),
      { json: {} },
      { json: { status: "ok" } },
      { json: { items: null } },
      { text: "<html>all good</html>" },
      { text: '{"items": {"zones/us-cent' },
      apiError(500, "backendError", "x"),
      { status: 404, json: { error: { code: 404, message: "Not Found" } } },
    ]) {
      stub.on("GET", LISTING, answer);
      await expect(stub.provider().listOwned(OURS, never)).rejects.toMatchObject({ code: "provider_error" });
    }
    stub.on("GET", LISTING, apiError(403, "forbidden", "Required 'compute.instances.list' permission"));
    await expect(stub.provider().listOwned(OURS, never)).rejects.toMatchObject({ code: "credential_refused" });
    stub.on("GET", LISTING, { cut: true });
    await expect(stub.provider().listOwned(OURS, never)).rejects.toMatchObject({ code: "provider_unreachable" });
  });

  it("recognises foreign machines, also one that only looks like ours", async () => {
    stub.on("GET", LISTING, page({ [`zones/${ZONE}`]: { instances: [instance(), stranger, otherHome, lookalike] } }));
    expect(await stub.provider().listForeign(OURS, never)).toEqual([
      { id: "55", name: "database" },
      { id: "56", name: "svc-zzzz9999-job-n0-1" },
      { id: "57", name: "svc-abcd1234-x-n0-1" },
    ]);
    expect(stub.asked("GET", /aggregated/)[0]?.query.has("filter")).toBe(false);
  });
});

describe("the account", () => {
  it("names its owner, and obstacles to renting", async () => {
    stub.on(
      "GET",
      "",
      { json: { name: PROJECT, quotas: [{ metric: "GPUS_ALL_REGIONS", limit: 4, usage: 0 }] } },
      {
        json: {
          name: PROJECT,
          commonInstanceMetadata: { items: [{ key: "enable-oslogin", value: "TRUE" }] },
          quotas: [{ metric: "GPUS_ALL_REGIONS", limit: 0 }],
        },
      },
    );
    const name = `${PROJECT} (runs@${PROJECT}.example.com)`;
    expect(await stub.provider().account(never)).toEqual({ name, balanceUsd: null, warnings: [] });
    expect((await stub.provider().account(never)).warnings).toEqual([
      matching(/OS Login is on/),
      matching(/GPUS_ALL_REGIONS is 0/),
    ]);
  });

  it("distinguishes a wrong project, a missing permission and a disabled API", async () => {
    stub.on("GET", "", {
      status: 404,
      json: { error: { code: 404, message: "The resource 'projects/lab-1' was not found" } },
    });
    await expect(stub.provider().account(never)).rejects.toMatchObject({
      code: "credential_refused",
      message: matching(/opens no project lab-1/),
    });
    stub.on("GET", "", apiError(403, "forbidden", "Required 'compute.projects.get' permission for 'projects/lab-1'"));
    await expect(stub.provider().account(never)).rejects.toMatchObject({
      code: "credential_refused",
      message: matching(/compute\.projects\.get/),
    });
    stub.on("GET", "", apiError(403, "accessNotConfigured", "Enable it by visiting https://console.example.com/x"));
    expect((await stub.provider().account(never)).warnings).toEqual([matching(/https:\/\/console\.example\.com\/x/)]);
  });
});
