import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { checked } from "../../src/api/field-errors.ts";
import type { SvcError } from "../../src/errors/index.ts";
import { RunSpec } from "../../src/schemas/spec.ts";
import { Sink } from "../../src/schemas/sink.ts";
import { fingerprintOf } from "../../src/sinks/fingerprint.ts";
import { openGcs } from "../../src/sinks/gcs-store.ts";
import type { ObjectStore } from "../../src/sinks/object-store.ts";
import { openS3 } from "../../src/sinks/s3-store.ts";
import { accessOf, type SinkAccess } from "../../src/sinks/sink-access.ts";
import { GcsDouble } from "./gcs-double.ts";
import { KEY_ID, S3Double, SECRET } from "./s3-double.ts";

const root = mkdtempSync(join(tmpdir(), "svc-sink-access-"));
let n = 0;
let home = "";
beforeEach(() => {
  home = join(root, `home${n++}`);
  mkdirSync(home);
});
afterEach(() => vi.unstubAllEnvs());
afterAll(() => rmSync(root, { recursive: true, force: true }));

const store = (content: object): void =>
  writeFileSync(join(home, "credentials.json"), JSON.stringify(content), { mode: 0o600 });
const access = (sink: object, env: NodeJS.ProcessEnv = {}): SinkAccess =>
  accessOf(Sink.parse({ what: ["logs"], ...sink }), { home, env: { HOME: home, ...env }, sealed: [] });
const A = { kind: "objstore_a", url: "s3://bucket/x" };
const B = { kind: "objstore_b", url: "gs://bucket/x" };

describe("the fields of a sink", () => {
  it.each<[string, object, string, RegExp]>([
    ["the other protocol's address", { ...A, url: "gs://bucket" }, "spec.sinks[0].url", /must be s3:\/\/bucket/],
    ["an address without a bucket", { ...B, url: "gs:///prefix" }, "spec.sinks[0].url", /has no bucket/],
    ["a bucket that cannot be", { ...A, url: "s3://Bucket_!" }, "spec.sinks[0].url", /invalid bucket name/],
    ["a prefix that climbs", { ...A, url: "s3://bucket/a/../b" }, "spec.sinks[0].url", /prefix with an empty part/],
    ["a query", { ...A, url: "s3://bucket/a?b" }, "spec.sinks[0].url", /characters other than/],
    ["an unknown kind", { ...A, kind: "disk" }, "spec.sinks[0].kind", /one of objstore_a/],
    ["nothing to copy", { ...A, what: [] }, "spec.sinks[0].what", /at least 1/],
    ["a field that nobody knows", { ...A, acl: "public" }, "spec.sinks[0].acl", /not a known field/],
    ["a secret itself", { ...A, secret_access_key: SECRET }, "spec.sinks[0].secret_access_key", /must be a reference/],
    [
      "a key file itself",
      { ...B, credentials: { service_account_json: "{}" } },
      "spec.sinks[0].credentials.service_account_json",
      /must be a reference/,
    ],
    [
      "the other protocol's key",
      { ...B, access_key_id: "AK" },
      "spec.sinks[0].access_key_id",
      /not a field of objstore_b/,
    ],
    [
      "a record's mask",
      { ...A, access_key_id: "***", secret_access_key: "env://S" },
      "spec.sinks[0].access_key_id",
      /enter it again/,
    ],
    ["half a key", { ...A, access_key_id: "AK" }, "spec.sinks[0].secret_access_key", /required with access_key_id/],
    [
      "http to elsewhere",
      { ...A, endpoint: "http://store.example" },
      "spec.sinks[0].endpoint",
      /must begin with https/,
    ],
    ["a field twice", { ...A, region: "a", credentials: { region: "b" } }, "spec.sinks[0].region", /is set twice/],
  ])("%s is refused by name", (_, sink, field, message) => {
    const spec = { entrypoint: "train.py", sinks: [{ what: ["logs"], ...sink }] };
    let errors: SvcError["errors"];
    try {
      checked(RunSpec, spec, "spec");
    } catch (e) {
      errors = (e as SvcError).errors;
    }
    expect(errors?.map((e) => ({ ...e, field: `spec.${e.field}` }))).toContainEqual({
      field,
      message: expect.stringMatching(message) as string,
    });
  });

  it("two sinks at one place are refused: their lists would collide", () => {
    const sinks = [
      { ...A, what: ["logs"] },
      { ...A, url: "s3://bucket/x/", what: ["checkpoints"] },
    ];
    expect(() => RunSpec.parse({ entrypoint: "train.py", sinks })).toThrow(/the same place as sinks\[0\]/);
  });
});

describe("credentials", () => {
  it("are the sink's own before the stored ones; a secret alone uses the stored key id", () => {
    store({ objstore_a: { access_key_id: "STORED", secret_access_key: "stored-secret", region: "eu-west-1" } });
    expect(access(A)).toMatchObject({
      keys: { accessKeyId: "STORED", secretAccessKey: "stored-secret" },
      region: "eu-west-1",
    });
    expect(access({ ...A, secret_access_key: "store://objstore_a/secret_access_key" })).toMatchObject({
      keys: { accessKeyId: "STORED", secretAccessKey: "stored-secret" },
    });
    const own = { access_key_id: "OWN", secret_access_key: "env://MINE", region: "us-east-2" };
    expect(access({ ...A, credentials: own }, { MINE: "own-secret" })).toMatchObject({
      keys: { accessKeyId: "OWN", secretAccessKey: "own-secret" },
      region: "us-east-2",
      secrets: ["own-secret"],
    });
    expect(access({ ...A, profile: "work" })).toMatchObject({ keys: null, profile: "work" });
  });

  it("for objstore_b do not appear in any message: the secret parts of its key file", () => {
    const user = { type: "authorized_user", client_id: "id", client_secret: "c-secret", refresh_token: "r-token" };
    const service = { type: "service_account", client_email: "a@b", private_key: "-----BEGIN\nabcdef\n" };
    const own = { ...B, service_account_json: "env://MINE" };
    expect(access(own, { MINE: JSON.stringify(service) }).secrets).toEqual([service.private_key]);
    const login = join(home, "login.json");
    writeFileSync(login, JSON.stringify(user));
    expect(access(B, { GOOGLE_APPLICATION_CREDENTIALS: login }).secrets).toEqual(["c-secret", "r-token"]);
  });

  it("are named if they are missing", () => {
    expect(() => access({ ...A, access_key_id: "A", secret_access_key: "env://NOT_SET" })).toThrow(/NOT_SET/);
    expect(() => access(B)).toThrow(/gcloud auth application-default login/);
    expect(() => access(B, { GOOGLE_APPLICATION_CREDENTIALS: "/nowhere/key.json" })).toThrow(/\/nowhere\/key\.json/);
    expect(() => access(A, { AWS_ENDPOINT_URL: "http://store.example" })).toThrow(/must begin with https/);
  });

  const write = async (objects: ObjectStore): Promise<void> => {
    const bytes = Buffer.from("content");
    const file = {
      key: "x/a",
      size: bytes.length,
      ...fingerprintOf(bytes),
      contentType: "text/plain",
      partBytes: 1_000,
    };
    await objects.upload(
      { ...file, read: () => Promise.resolve(bytes) },
      {
        signal: new AbortController().signal,
        resume: null,
        remember: () => Promise.resolve(),
        sent: () => {},
        lend: (_, fn) => fn(),
      },
    );
    objects.close();
  };

  it("for objstore_a are read from a profile of the shared files, and from the environment, if nothing else is set", async () => {
    const double = await new S3Double().listen();
    const config = join(home, "aws-config");
    writeFileSync(config, "[profile work]\nregion = eu-central-1\n");
    const shared = join(home, "aws-credentials");
    writeFileSync(shared, `[work]\naws_access_key_id = ${KEY_ID}\naws_secret_access_key = ${SECRET}\n`);
    vi.stubEnv("AWS_CONFIG_FILE", config);
    vi.stubEnv("AWS_SHARED_CREDENTIALS_FILE", shared);
    vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
    const env = { SVC_OBJSTORE_A_URL: double.url };
    await write(await openS3(access({ ...A, profile: "work" }, env)));
    expect(double.text("x/a")).toBe("content");

    await expect(openS3(access(A, env)).then(write)).rejects.toMatchObject({ code: "sink_credentials" });
    vi.stubEnv("AWS_ACCESS_KEY_ID", KEY_ID);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", SECRET);
    await write(await openS3(access(A, env)));
    expect(double.count("PutObject")).toBe(2);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "another-one");
    const wrong = openS3(access(A, env)).then(write);
    await expect(wrong).rejects.toMatchObject({
      code: "sink_refused",
      message: expect.stringContaining("secret access key") as string,
    });
    await double.close();
  });

  it("for objstore_b are read from the file that a variable names, and from the user's own login", async () => {
    const double = await new GcsDouble().listen();
    const key = join(home, "key.json");
    writeFileSync(key, double.keyFile);
    const env = { SVC_OBJSTORE_B_URL: double.url };
    await write(openGcs(access(B, { ...env, GOOGLE_APPLICATION_CREDENTIALS: key }), Date.now));
    expect(double.text("x/a")).toBe("content");

    const folder = join(home, ".config", "gcloud");
    mkdirSync(folder, { recursive: true });
    const login = { type: "authorized_user", client_id: "id", client_secret: "s", token_uri: `${double.url}/token` };
    const file = join(folder, "application_default_credentials.json");
    writeFileSync(file, JSON.stringify({ ...login, refresh_token: "good" }));
    await write(openGcs(access(B, env), Date.now));
    expect(double.count("insert")).toBe(2);
    writeFileSync(file, JSON.stringify({ ...login, refresh_token: "revoked" }));
    await expect(write(openGcs(access(B, env), Date.now))).rejects.toMatchObject({
      code: "sink_refused",
      message: expect.stringContaining("application-default login") as string,
    });
    await double.close();
  });
});
