// podhost: its offers, the content of a create call, and the meaning of each answer.

import { execFile, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { guardDir, guardScript } from "../../src/providers/guard.ts";
import { mayHaveBeenSent } from "../../src/providers/http.ts";
import { selfEndScript } from "../../src/providers/podhost/start-command.ts";
import { PodhostProvider } from "../../src/providers/podhost/provider.ts";
import { NOTHING_MADE } from "../../src/providers/provider.ts";
import { DEADLINE_MS } from "../deadline.ts";
import {
  data,
  errors,
  KEY,
  never,
  orderOf,
  pod,
  podhostStub,
  PUBLIC_KEY,
  restPod,
  specOf,
  thrownBy,
  type Answer,
  type Asked,
} from "./podhost-stub.ts";
import { graceIn } from "./guard-text.ts";

const run = promisify(execFile);
const SXM = "NVIDIA H100 80GB HBM3";
const OFFER = { id: "offer", priceMicro: 5_980_000, extra: { gpuTypeId: SXM, gpuCount: "2", cloud: "SECURE" } };

const gpu = (id: string, change: Record<string, unknown> = {}) => ({
  id,
  memoryInGb: 80,
  secureCloud: true,
  communityCloud: true,
  securePrice: 2.99,
  communityPrice: 1.99,
  maxGpuCount: 8,
  lowestPrice: { uninterruptablePrice: 2.99, stockStatus: "High", availableGpuCounts: [1, 2, 4, 8] },
  ...change,
});
/** The catalogue, filtered by the request. */
const catalogue =
  (...types: Record<string, unknown>[]) =>
  ({ body }: Asked): Answer =>
    data({ gpuTypes: types.filter(({ id }) => id === (body.variables.filter?.id ?? id)) });

describe("offers", () => {
  test("are all identifiers of the model, cheapest first, priced for all its GPUs", async () => {
    const stub = await podhostStub(
      catalogue(
        gpu(SXM),
        gpu("NVIDIA H100 PCIe", { securePrice: 2.39, lowestPrice: { uninterruptablePrice: 2.39, stockStatus: "Low" } }),
      ),
    );
    const offers = await stub.provider.listOffers(specOf(), never);
    expect(offers.map(({ priceMicro, extra }) => [priceMicro, extra?.["gpuTypeId"], extra?.["cloud"]])).toEqual([
      [4_780_000, "NVIDIA H100 PCIe", "SECURE"],
      [5_980_000, SXM, "SECURE"],
    ]);
    // The names come from the catalogue, which lacks one of our table's names.
    expect(stub.asked.slice(1).map(({ body }) => body.variables)).toEqual(
      [SXM, "NVIDIA H100 PCIe"].map((id) => ({
        filter: { id },
        price: { gpuCount: 2, secureCloud: true },
      })),
    );
  });

  test.each<[string, Record<string, unknown>]>([
    ["a price in a text", { securePrice: "2.99" }],
    ["no price at all", { securePrice: null, lowestPrice: { uninterruptablePrice: null, stockStatus: "High" } }],
    ["a price below zero", { securePrice: -1 }],
    ["one good price and one that is none", { lowestPrice: { uninterruptablePrice: "NaN", stockStatus: "High" } }],
    ["no stock", { lowestPrice: { uninterruptablePrice: 2.99, stockStatus: "None" } }],
    ["unknown stock", { lowestPrice: { uninterruptablePrice: 2.99, stockStatus: null } }],
    ["no lowest price", { lowestPrice: null }],
    ["not in this cloud", { secureCloud: false }],
    [
      "not that many free",
      { lowestPrice: { uninterruptablePrice: 2.99, stockStatus: "High", availableGpuCounts: [1] } },
    ],
    ["memory unknown", { memoryInGb: null }],
    ["no id", { id: "unknown" }],
  ])("%s: none", async (_, change) => {
    const { provider } = await podhostStub(catalogue(gpu(SXM, change)));
    expect(await provider.listOffers(specOf({ min_vram_gb: 80 }), never)).toEqual([]);
  });

  test("a GPU with less memory than min_vram_gb is refused, and the refusal names the field", async () => {
    const { provider } = await podhostStub(catalogue(gpu(SXM, { memoryInGb: 40 })));
    await expect(provider.listOffers(specOf({ min_vram_gb: 80 }), never)).rejects.toMatchObject({
      code: "gpus_unsupported",
      errors: [{ field: "spec.min_vram_gb", message: "they have at most 40 GB" }],
    });
  });

  test("a price of bare NaN gives no offer, even with another reported price; a machine that was made at NaN is held", async () => {
    const bare = (json: unknown): Answer => ({ raw: JSON.stringify(json).replaceAll('"nan"', "NaN") });
    const stub = await podhostStub((asked) =>
      asked.root === "gpuTypes"
        ? bare({ data: { gpuTypes: [gpu(SXM, { securePrice: "nan" })] } })
        : bare({ data: { podFindAndDeployOnDemand: pod({ costPerHr: "nan" }), pod: pod({ costPerHr: "nan" }) } }),
    );
    expect(await stub.provider.listOffers(specOf(), never)).toEqual([]);
    const handle = await stub.provider.create(OFFER, orderOf());
    expect([handle.id, handle.priceMicro]).toEqual([pod().id, null]);
  });

  test("the higher of two prices counts; a free one is a price", async () => {
    const dear = await podhostStub(
      catalogue(gpu(SXM, { lowestPrice: { uninterruptablePrice: 3.5, stockStatus: "High" } })),
    );
    expect((await dear.provider.listOffers(specOf(), never))[0]?.priceMicro).toBe(7_000_000);
    const free = await podhostStub(catalogue(gpu(SXM, { securePrice: 0, lowestPrice: { stockStatus: "High" } })));
    expect((await free.provider.listOffers(specOf(), never))[0]?.priceMicro).toBe(0);
  });

  test("region: a data centre is in the secure cloud, a country in the other; the owner may open both", async () => {
    const stub = await podhostStub(catalogue(gpu(SXM)));
    const [centre] = await stub.provider.listOffers(specOf({ region: "us-tx-3" }), never);
    expect(centre?.extra).toMatchObject({ cloud: "SECURE", dataCenterId: "US-TX-3" });
    expect(stub.asked[1]?.body.variables.price).toMatchObject({ secureCloud: true, dataCenterId: "US-TX-3" });
    const [country] = await stub.provider.listOffers(specOf({ region: "se" }), never);
    expect(country).toMatchObject({ priceMicro: 5_980_000, extra: { cloud: "COMMUNITY", countryCode: "SE" } });
    stub.settings["cloud"] = "any";
    const clouds = (await stub.provider.listOffers(specOf(), never)).map(({ extra }) => extra?.["cloud"]);
    expect(new Set(clouds)).toEqual(new Set(["COMMUNITY", "SECURE"]));
  });

  test("an unknown model passes through unchanged", async () => {
    const stub = await podhostStub(catalogue(gpu("NVIDIA B300 SXM6 AC")));
    expect(await stub.provider.listOffers(specOf({ gpus: "NVIDIA B300 SXM6 AC" }), never)).toHaveLength(1);
  });

  test("REST: price, stock and count of the right cloud and data centre", async () => {
    const type = (change: Record<string, unknown> = {}) => ({
      id: SXM,
      memory: 80,
      secure: true,
      community: true,
      price: { secure: 2.99, community: 1.99 },
      maxCount: { secure: 8, community: 1 },
      availability: "LOW",
      dataCenters: [
        { id: "US-KS-2", availability: "HIGH" },
        { id: "EU-RO-1", availability: "NONE" },
      ],
      ...change,
    });
    let gpus: unknown = { gpus: [type()] };
    const stub = await podhostStub(() => ({ json: gpus }), { api: "rest" });
    const prices = async (change: Record<string, unknown> = {}) =>
      (await stub.provider.listOffers(specOf(change), never)).map(({ priceMicro }) => priceMicro);
    expect(await prices()).toEqual([5_980_000]);
    expect(Object.fromEntries(stub.asked[1]?.query ?? [])).toEqual({
      include: "AVAILABILITY",
      product: "POD",
      count: "2",
      cloud: "SECURE",
    });
    expect(await prices({ region: "US-KS-2" })).toEqual([5_980_000]);
    expect(await prices({ region: "EU-RO-1" })).toEqual([]);
    expect(await prices({ region: "US-GA-1" })).toEqual([]);
    await expect(prices({ region: "SE" })).rejects.toMatchObject({ code: "gpus_unsupported" });
    expect(await prices({ region: "SE", gpus: "H100" })).toEqual([1_990_000]);
    for (const change of [
      { availability: "NONE" },
      { availability: null },
      { price: null },
      { price: { secure: "2" } },
      { secure: false },
    ]) {
      gpus = [type(change)];
      expect(await prices()).toEqual([]);
    }
  });
});

describe("a spec that no pod can ever match", () => {
  test.each<[Record<string, unknown>, string, string]>([
    [{ gpus: "cpu" }, "gpus_unsupported", "spec.gpus"],
    [{ gpus: "H100:9" }, "gpus_unsupported", "spec.gpus"],
    [{ gpus: "A10" }, "gpus_unsupported", "spec.gpus"],
    [{ region: "somewhere nice" }, "invalid_request", "spec.region"],
    [{ region: "US-TX-3; rm" }, "invalid_request", "spec.region"],
    [{ image: "-v /:/host" }, "invalid_request", "spec.image"],
    [{ image: "a image" }, "invalid_request", "spec.image"],
  ])("%j names the field", async (change, code, field) => {
    const { provider } = await podhostStub(() => ({}));
    const error = await thrownBy(Promise.resolve().then(() => provider.check(specOf(change))));
    expect(error.code).toBe(code);
    expect(error.errors?.[0]?.field).toBe(field);
  });

  test("images and regions in usual spellings pass", async () => {
    const { provider, asked } = await podhostStub(() => ({}));
    for (const image of ["pytorch/pytorch", "ghcr.io/a/b:1.0-x", "localhost:5000/a@sha256:abc", undefined])
      for (const region of ["EUR-IS-1", "AP-JP-1", "se", undefined]) provider.check(specOf({ image, region }));
    expect(asked).toEqual([]);
  });
});

const scriptIn = (args: string): string =>
  Buffer.from(
    /^sh -c 'echo ([A-Za-z0-9+/=]+) \| base64 -d >\/tmp\/svc-start\.sh; exec sh \/tmp\/svc-start\.sh'$/.exec(
      args,
    )?.[1] ?? "",
    "base64",
  ).toString();

describe("a create call", () => {
  test("contains every requested value, and no secret", async () => {
    const stub = await podhostStub(() =>
      data({ podFindAndDeployOnDemand: pod({ runtime: null, createdAt: "2020-01-01T00:00:00Z" }) }),
    );
    const offer = { ...OFFER, extra: { ...OFFER.extra, dataCenterId: "US-TX-3" } };
    const handle = await stub.provider.create(offer, orderOf({ disk_gb: 70, orphan_grace_minutes: 5 }));
    expect(handle).toEqual({
      v: 1,
      provider: "podhost",
      id: "q7r2vd0kx1",
      name: "svc-abc-job1-n0-1",
      address: null,
      priceMicro: 2_990_000,
      extra: { machineId: "m4k2", createdAt: "2026-06-01T12:00:00.000Z" },
    });
    expect(stub.names()).toEqual(["podFindAndDeployOnDemand"]);
    const { dockerArgs, env, ...input } = stub.asked[0]!.body.variables.input;
    expect(input).toEqual({
      name: "svc-abc-job1-n0-1",
      cloudType: "SECURE",
      gpuTypeId: SXM,
      gpuCount: 2,
      imageName: "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404",
      minCudaVersion: "12.8",
      ports: "22/tcp",
      containerDiskInGb: 70,
      volumeInGb: 0,
      supportPublicIp: true,
      startSsh: true,
      dataCenterId: "US-TX-3",
    });
    expect(env).toEqual([
      { key: "PUBLIC_KEY", value: PUBLIC_KEY },
      { key: "SSH_PUBLIC_KEY", value: PUBLIC_KEY },
      { key: "SVC_MACHINE", value: "svc-abc-job1-n0-1" },
      { key: "RUNPOD_POD_USER", value: "0" },
    ]);
    const script = scriptIn(dockerArgs);
    await stub.provider.create(offer, orderOf({ gpus: "H100:1" }));
    const single = scriptIn(stub.asked.at(-1)!.body.variables.input.dockerArgs);
    expect([graceIn(single), graceIn(script)], "ranks have as long as torchrun waits for them").toEqual([10, 40]);
    expect(script).toContain(
      guardScript({ name: handle.name, graceSeconds: 300, stopSeconds: 40, selfEnd: selfEndScript(stub.url, false) }),
    );
    expect(script).toContain("exec /start.sh");
    expect(JSON.stringify(stub.asked[0]?.body) + script).not.toContain(KEY);
    await run("sh", ["-n", "-c", script]);
  });

  test("REST sends the same in its own form", async () => {
    const stub = await podhostStub(() => ({ status: 201, json: restPod({ status: "PROVISIONING", ssh: null }) }), {
      api: "rest",
    });
    const offer = { ...OFFER, extra: { ...OFFER.extra, dataCenterId: "US-TX-3" } };
    expect(await stub.provider.create(offer, orderOf({ image: "a/b:1" }))).toMatchObject({
      id: "q7r2vd0kx1",
      priceMicro: 2_990_000,
    });
    const { args, env, ...body } = stub.asked[0]!.body;
    expect([stub.asked[0]?.method, stub.asked[0]?.path]).toEqual(["POST", "/v2/pods"]);
    expect(body).toEqual({
      name: "svc-abc-job1-n0-1",
      image: "a/b:1",
      disk: 40,
      ports: ["22/tcp"],
      startSsh: true,
      cloud: "SECURE",
      dataCenterIds: ["US-TX-3"],
      gpu: { id: SXM, count: 2 },
    });
    expect(env).toMatchObject({ PUBLIC_KEY, SVC_MACHINE: "svc-abc-job1-n0-1" });
    expect(scriptIn(args)).toContain("svc_call DELETE");
  });

  const generic = "Something went wrong. Please try again later or contact support.";
  const none =
    "There are no longer any instances available with the requested specifications. Please refresh and try again.";
  const poor = "Your account balance is too low to rent a pod. Please add funds to your account.";
  const problem = (status: number, detail: string): Answer => ({
    status,
    headers: { "content-type": "application/problem+json" },
    json: { title: "x", status, detail },
  });

  test.each<[string, Answer, string]>([
    ["capacity", errors(none), "offer_taken"],
    ["capacity, status 400", { status: 400, json: { errors: [{ message: none }] } }, "offer_taken"],
    ["no instances", errors("There are no instances currently available"), "offer_taken"],
    ["cuda", errors("No compatible CUDA host is currently available."), "offer_taken"],
    [
      "host full",
      errors("This machine does not have the resources to deploy your pod. Please try a different machine"),
      "offer_taken",
    ],
    ["disk", errors("There are no longer any instances available with enough disk space."), "offer_taken"],
    ["credit", errors(poor), "no_funds"],
    ["limit", errors("You have exceeded your spend limit."), "no_quota"],
    ["unauthorized", errors("Unauthorized"), "credential_refused"],
    ["status 401", { status: 401, raw: "" }, "credential_refused"],
    [
      "status 403 of the API itself",
      { status: 403, json: { errors: [{ message: "key is read-only" }] } },
      "credential_refused",
    ],
    [
      "status 400 with a reason",
      { status: 400, json: { errors: [{ message: 'Field "x" is not defined' }] } },
      "provider_refused",
    ],
    ["a generic error", errors(generic), "outcome_unknown"],
    ["a generic error, status 400", { status: 400, json: { errors: [{ message: generic }] } }, "outcome_unknown"],
    ["a generic error beside a clear one", errors(none, generic), "outcome_unknown"],
    ["an error nobody knows", errors("the moon is full"), "outcome_unknown"],
    ["status 400 without a reason", { status: 400, raw: "<html>" }, "outcome_unknown"],
    ["status 403 of somebody in between", { status: 403, raw: "<html>" }, "outcome_unknown"],
    ["status 408", { status: 408, raw: "" }, "outcome_unknown"],
    ["status 409", { status: 409, json: {} }, "outcome_unknown"],
    ["status 429", { status: 429, raw: "" }, "outcome_unknown"],
    ["status 500", { status: 500, json: { errors: [{ message: poor }] } }, "outcome_unknown"],
    ["status 502", { status: 502, raw: "<html>" }, "outcome_unknown"],
    ["status 302", { status: 302, headers: { location: "/x" } }, "outcome_unknown"],
    ["a page with 200", { raw: "<html>" }, "outcome_unknown"],
    ["cut JSON", { raw: '{"data":{"podFind' }, "outcome_unknown"],
    ["nothing", { raw: "" }, "outcome_unknown"],
    ["no pod and no error", data({ podFindAndDeployOnDemand: null }), "outcome_unknown"],
    ["a pod without an id", data({ podFindAndDeployOnDemand: pod({ id: null }) }), "outcome_unknown"],
    [
      "a pod without an id, beside a clear refusal",
      { json: { errors: [{ message: none }], data: { podFindAndDeployOnDemand: { name: "x" } } } },
      "outcome_unknown",
    ],
    ["an id that is not even text", data({ podFindAndDeployOnDemand: pod({ id: {} }) }), "outcome_unknown"],
    ["a cut connection", { cut: true }, "outcome_unknown"],
  ])("the code of an answer to a create call says whether something was made: %s", async (_, answer, code) => {
    const stub = await podhostStub(() => answer);
    const error = await thrownBy(stub.provider.create(OFFER, orderOf()));
    expect(error.code).toBe(code);
    expect(NOTHING_MADE.has(error.code)).toBe(code !== "outcome_unknown");
    expect(`${error.message} ${String(error.cause)}`).not.toContain(KEY);
    expect(stub.asked).toHaveLength(1);
  });

  test.each<[string, Answer, string]>([
    ["capacity", problem(400, "no instances available in US-TX-3"), "offer_taken"],
    ["capacity, other words", problem(400, "insufficient capacity"), "offer_taken"],
    ["a rule", problem(400, "mounts.persistent is invalid"), "provider_refused"],
    ["the body", problem(422, "Request validation failed."), "provider_refused"],
    ["a generic error", problem(400, generic), "outcome_unknown"],
    ["credit", problem(402, "Payment required"), "no_funds"],
    ["the key", problem(401, "missing bearer token"), "credential_refused"],
    ["its rights", problem(403, "access denied"), "credential_refused"],
    ["conflict", problem(409, "conflict"), "outcome_unknown"],
    ["server", problem(500, "balance is too low"), "outcome_unknown"],
    ["not there", problem(404, "not found"), "outcome_unknown"],
    ["no id", { status: 201, json: { name: "x" } }, "outcome_unknown"],
    ["empty", { status: 201, raw: "" }, "outcome_unknown"],
    ["page", { status: 400, raw: "<html>" }, "outcome_unknown"],
  ])("REST: %s", async (_, answer, code) => {
    const stub = await podhostStub(() => answer, { api: "rest" });
    expect((await thrownBy(stub.provider.create(OFFER, orderOf()))).code).toBe(code);
    expect(stub.asked).toHaveLength(1);
  });

  test("a named pod was made, whatever errors the answer also contains", async () => {
    const stub = await podhostStub(() => ({
      json: { errors: [{ message: none }], data: { podFindAndDeployOnDemand: pod() } },
    }));
    expect(await stub.provider.create(OFFER, orderOf())).toMatchObject({ id: "q7r2vd0kx1" });
  });

  test.each([[null], ["2,99"], ["NaN"], [0], [-1]])(
    "a price of %j is unknown: another poll may report it",
    async (costPerHr) => {
      const stub = await podhostStub(({ root }) =>
        root === "pod" ? data({ pod: pod() }) : data({ podFindAndDeployOnDemand: pod({ costPerHr }) }),
      );
      expect((await stub.provider.create(OFFER, orderOf())).priceMicro).toBe(2_990_000);
      stub.script = ({ root }) =>
        root === "pod" ? { status: 500 } : data({ podFindAndDeployOnDemand: pod({ costPerHr }) });
      expect((await stub.provider.create(OFFER, orderOf())).priceMicro).toBe(null);
    },
  );

  test("a pod that was offered for nothing may cost nothing", async () => {
    const answer = pod({ costPerHr: 0, adjustedCostPerHr: 0 });
    const stub = await podhostStub(({ root }) => data(root === "pod" ? { pod: answer } : { [root]: answer }));
    expect((await stub.provider.create({ ...OFFER, priceMicro: 0 }, orderOf())).priceMicro).toBe(0);
    expect((await stub.provider.create(OFFER, orderOf())).priceMicro).toBe(null);
  });

  test("a failure before anything is sent says so", async () => {
    const refused = new PodhostProvider({
      credential: () => ({ secret: KEY, settings: {} }),
      baseUrl: "https://no-such-name.invalid",
      publicKey: async () => PUBLIC_KEY,
      access: () => expect.fail("nothing is reached here"),
      now: () => 0,
      pause: async () => undefined,
    });
    const error = await thrownBy(refused.create(OFFER, orderOf()));
    expect(error.code).toBe("provider_unreachable");
    expect(mayHaveBeenSent(error)).toBe(false);
  });
});

/** The pid of this machine's guard; 0 until it has reported one. */
const guardOf = (name: string): number =>
  existsSync(join(guardDir(name), "pid")) ? Number(readFileSync(join(guardDir(name), "pid"), "utf8")) : 0;

// The guard's folder needs root; an image with its own start command takes another way.
test("the start command runs the guard, then sshd with the key, and stays", { tags: "needs/root" }, async (ctx) => {
  if (existsSync("/start.sh")) ctx.skip("this computer has a /start.sh of its own");
  const name = `svc-test-${process.pid}`;
  const dir = mkdtempSync(join(tmpdir(), "svc-podhost-"));
  const stub = await podhostStub(() => data({ podFindAndDeployOnDemand: pod() }));
  await stub.provider.create(OFFER, { ...orderOf(), name });
  const args: string = stub.asked[0]?.body.variables.input.dockerArgs;
  // A script replaces sshd and reports its arguments; the real sshd would need port 22 of this computer.
  for (const program of ["sshd", "ssh-keygen"]) {
    const said =
      program === "sshd"
        ? `echo "$@" >'${dir}/said.new' && mv '${dir}/said.new' '${dir}/said'; exec sleep 600`
        : "exit 0";
    writeFileSync(join(dir, program), `#!/bin/sh\n${said}\n`);
    chmodSync(join(dir, program), 0o755);
  }
  const began = new Promise<void>((resolve) => {
    const watcher = watch(dir, (_, file) => file === "said" && (watcher.close(), resolve()));
  });
  const child = spawn("sh", ["-c", args], {
    detached: true,
    stdio: "ignore",
    env: { PATH: `${dir}:${process.env["PATH"]}`, PUBLIC_KEY },
  });
  onTestFinished(async () => {
    // The guard gets a session of its own while it starts: killed with the group before that, it would never report.
    await vi.waitFor(() => expect(guardOf(name)).toBeGreaterThan(1), { timeout: DEADLINE_MS });
    process.kill(-child.pid!, "SIGKILL");
    process.kill(guardOf(name), "SIGKILL");
    rmSync(guardDir(name), { recursive: true, force: true });
    rmSync(dir, { recursive: true, force: true });
  });
  await began;
  expect(readFileSync(join(dir, "said"), "utf8")).toContain(
    `AuthorizedKeysFile=${guardDir(name)}/authorized_keys .ssh/authorized_keys`,
  );
  expect(readFileSync(join(guardDir(name), "authorized_keys"), "utf8")).toBe(`${PUBLIC_KEY}\n`);
  expect(Number(readFileSync(join(guardDir(name), "keep"), "utf8"))).toBeGreaterThan(0);
  expect(child.exitCode).toBe(null);
});
