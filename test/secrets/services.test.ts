import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { injectedVariables, readHub, readObjstore, readTracker } from "../../src/secrets/services.ts";

const home = mkdtempSync(join(tmpdir(), "svc-services-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
const store = (content: unknown): void =>
  writeFileSync(join(home, "credentials.json"), typeof content === "string" ? content : JSON.stringify(content));
beforeEach(() => store({}));
const at = (env: NodeJS.ProcessEnv = {}) => ({ home, env: { HOME: "/home/me", ...env } });
const refused = (words: RegExp) =>
  expect.objectContaining({ code: "credential_missing", message: expect.stringMatching(words) as string }) as Error;

describe("the tracker", () => {
  it("is absent if nothing is set", () => {
    expect(readTracker(at())).toEqual({
      apiKey: null,
      project: null,
      entity: null,
      url: "https://api.wandb.ai",
      source: null,
    });
  });

  it("is read field by field, the environment first", () => {
    store({ tracker: { api_key: "stored", project: "p", entity: "e" } });
    expect(readTracker(at())).toMatchObject({ apiKey: "stored", project: "p", entity: "e", source: "store" });
    expect(readTracker(at({ TRACKER_API_KEY: " k\n", TRACKER_PROJECT: "q" }))).toMatchObject({
      apiKey: "k",
      project: "q",
      entity: "e",
      source: "env",
    });
    expect(readTracker(at({ SVC_TRACKER_URL: "http://127.0.0.1:9/x/" })).url).toBe("http://127.0.0.1:9/x");
    expect(() => readTracker(at({ SVC_TRACKER_URL: "http://elsewhere.example" }))).toThrow(/must begin with https/);
  });
});

describe("the hub", () => {
  it("falls back to a second variable if the first one is empty", () => {
    expect(readHub(at({ HUB_TOKEN: " ", HUB_ACCESS_TOKEN: "two" })).token).toBe("two");
    expect(readHub(at({ HUB_TOKEN: "one", HUB_ACCESS_TOKEN: "two" })).token).toBe("one");
  });

  it("resolves a cache directory relative to where it was written", () => {
    store({ hub: { token: "t", cache_dir: "~/models" } });
    expect(readHub(at()).cacheDir).toBe("/home/me/models");
    expect(readHub(at({ HUB_HOME: "/data/hub" })).cacheDir).toBe("/data/hub");
  });

  it("with an unreadable store is refused by the file's name, unless the environment has the token", () => {
    store('{"hub": "sEcret');
    expect(() => readHub(at())).toThrowError(refused(/credentials\.json is not valid JSON/));
    expect(readHub(at({ HUB_TOKEN: "t" }))).toMatchObject({ token: "t", source: "env" });
    store({ hub: "sEcret" });
    expect(() => readHub(at())).toThrowError(refused(/hub in .*credentials\.json must be an object/));
  });

  it("refuses a token of two lines, unquoted", () => {
    store({ hub: { token: "sEcret\nsEcond" } });
    expect(() => readHub(at())).toThrowError(refused(/^((?!sEc).)*hub\.token.*one line((?!sEc).)*$/));
  });
});

describe("an object store", () => {
  it("without keys leaves everything to the default chain", () => {
    expect(readObjstore("objstore_a", at())).toEqual({
      accessKeyId: null,
      secretAccessKey: null,
      sessionToken: null,
      region: null,
      url: null,
      source: null,
    });
    expect(readObjstore("objstore_b", at())).toMatchObject({
      serviceAccountJson: null,
      url: "https://storage.googleapis.com",
    });
  });

  it("has both keys from one source", () => {
    store({ objstore_a: { access_key_id: "id", secret_access_key: "sk", region: "r", session_token: "st" } });
    expect(readObjstore("objstore_a", at())).toMatchObject({
      accessKeyId: "id",
      secretAccessKey: "sk",
      sessionToken: "st",
      region: "r",
      source: "store",
    });
    const both = { OBJSTORE_A_ACCESS_KEY_ID: "ei", OBJSTORE_A_SECRET_ACCESS_KEY: "es" };
    expect(readObjstore("objstore_a", at(both))).toMatchObject({
      accessKeyId: "ei",
      secretAccessKey: "es",
      sessionToken: null,
    });
    expect(() => readObjstore("objstore_a", at({ OBJSTORE_A_ACCESS_KEY_ID: "ei" }))).toThrowError(
      refused(/two different places/),
    );
    store({ objstore_a: { access_key_id: "id" } });
    expect(() => readObjstore("objstore_a", at())).toThrowError(refused(/without secret_access_key/));
  });

  it("accepts a key file as its text or its path", () => {
    const key = JSON.stringify({ type: "service_account", client_email: "a@b" });
    writeFileSync(join(home, "key.json"), key);
    store({ objstore_b: { service_account_json: "key.json" } });
    expect(readObjstore("objstore_b", at()).serviceAccountJson).toBe(key);
    expect(readObjstore("objstore_b", at({ OBJSTORE_B_SERVICE_ACCOUNT_JSON: key })).source).toBe("env");
    store({ objstore_b: { service_account_json: "missing.json" } });
    expect(() => readObjstore("objstore_b", at())).toThrowError(refused(/the file .*missing\.json.* does not exist/));
  });
});

describe("the variables of every run", () => {
  it("are absent if nothing is configured", () => {
    expect(injectedVariables(at({ HUB_TOKEN: "", HUB_ACCESS_TOKEN: "  ", TRACKER_API_KEY: "" }))).toEqual({
      secrets: {},
      plain: {},
    });
    store({ hub: { cache_dir: "/x" }, tracker: { project: "p" } });
    expect(injectedVariables(at())).toEqual({ secrets: {}, plain: {} });
  });

  it("contain the hub's token and the tracker's key under every name that is read, from the environment or the store", () => {
    store({ hub: { token: "hub", cache_dir: "/data/hub" }, tracker: { project: "p", entity: "e" } });
    expect(injectedVariables(at({ TRACKER_API_KEY: "track" }))).toEqual({
      secrets: {
        HUB_TOKEN: "hub",
        HUB_ACCESS_TOKEN: "hub",
        HF_TOKEN: "hub",
        HUGGING_FACE_HUB_TOKEN: "hub",
        TRACKER_API_KEY: "track",
        WANDB_API_KEY: "track",
      },
      plain: { HUB_HOME: "/data/hub", HF_HOME: "/data/hub", WANDB_PROJECT: "p", WANDB_ENTITY: "e" },
    });
  });

  it("do not include a folder of this computer's user on another machine", () => {
    store({ hub: { token: "hub", cache_dir: "~/models" } });
    expect(injectedVariables(at(), { inPlace: true }).plain["HUB_HOME"]).toBe("/home/me/models");
    expect(injectedVariables(at(), { inPlace: false }).plain).toEqual({});
  });
});
