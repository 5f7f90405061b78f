import { onTightened } from "../../src/domain/tightened.ts";
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { baseUrlOf, providerSources, readCredential } from "../../src/secrets/credentials.ts";
import { SvcError } from "../../src/errors/index.ts";
import type { ProviderName } from "../../src/schemas/spec.ts";

let home = "";
beforeEach(() => (home = mkdtempSync(join(tmpdir(), "svc-credentials-"))));
afterEach(() => rmSync(home, { recursive: true, force: true }));
const file = (): string => join(home, "credentials.json");
const store = (content: unknown): void =>
  writeFileSync(file(), typeof content === "string" ? content : JSON.stringify(content), { mode: 0o600 });
const read = (provider: ProviderName, env: NodeJS.ProcessEnv = {}) => readCredential(provider, { home, env });
const refusal = (provider: ProviderName, env: NodeJS.ProcessEnv = {}): string => {
  try {
    read(provider, env);
  } catch (e) {
    expect(e).toBeInstanceOf(SvcError);
    expect((e as SvcError).code).toBe("credential_missing");
    return (e as SvcError).message;
  }
  throw new Error("it was accepted");
};
const KEY = JSON.stringify({ type: "service_account", project_id: "proj-1", private_key: "-----BEGIN\nSECRET\n" });

describe("an API key", () => {
  it("is missing if it is not set, and the message says what to set", () => {
    expect(read("podhost")).toMatchObject({
      credential: null,
      source: null,
      missing: ["PODHOST_API_KEY in the environment, or providers.podhost.api_key in credentials.json"],
      sshKeyPath: null,
    });
  });

  it("comes from the environment before the store, trimmed", () => {
    store({ providers: { market: { api_key: "stored" } } });
    expect(read("market")).toMatchObject({ credential: { secret: "stored" }, source: "store", missing: [] });
    expect(read("market", { MARKET_API_KEY: " given\n" })).toMatchObject({
      credential: { secret: "given" },
      source: "env",
    });
    expect(read("market", { MARKET_API_KEY: "  " })).toMatchObject({ source: "store" });
  });

  it("belongs to one provider only", () => {
    expect(read("market", { PODHOST_API_KEY: "x" }).credential).toBeNull();
    store({ providers: { podhost: { api_key: "x" } } });
    expect(read("market").credential).toBeNull();
  });

  it.each(["sEcret\nkey", "sEcret\u0007", "sEcret\u2028key"])("is refused, unquoted, if it is %j", (key) => {
    const words = refusal("podhost", { PODHOST_API_KEY: key });
    expect(words).toContain("PODHOST_API_KEY must be one line of text");
    expect(words).not.toContain(key.slice(0, 6));
  });

  it("is refused by its field if it is not text", () => {
    store({ providers: { podhost: { api_key: ["topsecret"] } } });
    expect(refusal("podhost")).toMatch(/providers\.podhost\.api_key in .*credentials\.json must be text/);
    expect(refusal("podhost")).not.toContain("topsecret");
  });
});

describe("settings", () => {
  it("are merged field by field: the environment comes before the block and its extra", () => {
    store({
      providers: {
        cloudvm: {
          service_account_json: KEY,
          project: "p-store",
          zone: "z-store",
          extra: { machine_type: "m-1", ssh_port: 2222, zone: "never" },
        },
      },
    });
    expect(read("cloudvm", { CLOUDVM_ZONE: "z-env", CLOUDVM_SSH_USER: "me" }).credential?.settings).toEqual({
      project: "p-store",
      zone: "z-env",
      machine_type: "m-1",
      ssh_port: "2222",
      ssh_user: "me",
    });
  });

  it("never hold a secret, and skip values that are not plain", () => {
    store({ providers: { podhost: { api_key: "k", ssh_key_path: "~/k", flag: true, nested: {}, api: "rest" } } });
    expect(read("podhost").credential).toEqual({ secret: "k", settings: { api: "rest" } });
  });

  it("name the SSH key: ~ is the user's home, other paths count from where they were written", () => {
    const path = (value: string, env: NodeJS.ProcessEnv = {}) => {
      store({ providers: { podhost: { api_key: "k", ssh_key_path: value } } });
      return read("podhost", { HOME: "/home/me", ...env }).sshKeyPath;
    };
    expect(path("~/.ssh/id")).toBe("/home/me/.ssh/id");
    expect(path("/keys/id")).toBe("/keys/id");
    expect(path("id")).toBe(join(home, "id"));
    expect(path("id", { PODHOST_SSH_KEY_PATH: "/other" })).toBe("/other");
  });
});

describe("cloudvm", () => {
  const env = (json: string, more: NodeJS.ProcessEnv = {}) => ({
    CLOUDVM_SERVICE_ACCOUNT_JSON: json,
    CLOUDVM_ZONE: "z-1",
    ...more,
  });

  it("accepts the key as text, as a path, and in the store as an object", () => {
    const path = join(home, "key.json");
    writeFileSync(path, `${KEY}\n`);
    expect(read("cloudvm", env(KEY)).credential?.secret).toBe(KEY);
    expect(read("cloudvm", env(path)).credential?.secret).toBe(KEY);
    expect(read("cloudvm", env("~/key.json", { HOME: home })).credential?.secret).toBe(KEY);
    store({ providers: { cloudvm: { service_account_json: JSON.parse(KEY) as object, zone: "z" } } });
    expect(read("cloudvm")).toMatchObject({ credential: { secret: KEY }, source: "store", missing: [] });
  });

  it("takes the project from the key file unless one is set", () => {
    expect(read("cloudvm", env(KEY)).credential?.settings["project"]).toBe("proj-1");
    expect(read("cloudvm", env(KEY, { CLOUDVM_PROJECT: "other" })).credential?.settings["project"]).toBe("other");
    expect(read("cloudvm", env("{}")).missing).toEqual([expect.stringContaining("CLOUDVM_PROJECT")]);
  });

  it("reports everything that is missing at once, without a project, which the key file names", () => {
    expect(read("cloudvm").missing.map((m) => m.split(" ")[0])).toEqual([
      "CLOUDVM_SERVICE_ACCOUNT_JSON",
      "CLOUDVM_ZONE",
    ]);
  });

  it.each([
    [
      "that is not there",
      "missing.json",
      /the file .*missing\.json, which CLOUDVM_SERVICE_ACCOUNT_JSON names, does not exist/,
    ],
    ["that is a folder", "folder", /is not a plain file/],
    ["that is a pipe", "pipe", /is not a plain file/],
    ["that is no JSON", "text", /text, which .* names, is not valid JSON/],
    ["that is a list", "list", /holds no JSON object/],
    ["of an OAuth client", "client", /client, which .* names, is of the type oauth_client: it must be the key file of/],
    ["that is too large", "large", /larger than 64 KiB/],
  ])("refuses a key file %s, without hanging and without quoting it", (_, name, words) => {
    mkdirSync(join(home, "folder"));
    execFileSync("mkfifo", [join(home, "pipe")]);
    writeFileSync(join(home, "text"), "-----BEGIN topsecret");
    writeFileSync(join(home, "list"), '["topsecret"]');
    writeFileSync(join(home, "client"), '{"type":"oauth_client","client_secret":"topsecret"}');
    writeFileSync(join(home, "large"), JSON.stringify({ a: "x".repeat(64 * 1024) }));
    const said = refusal("cloudvm", env(join(home, name)));
    expect(said).toMatch(words);
    expect(said).not.toContain("topsecret");
  });

  it("refuses pasted JSON that was truncated, without quoting it", () => {
    const said = refusal("cloudvm", env(KEY.slice(0, -1)));
    expect(said).toContain("CLOUDVM_SERVICE_ACCOUNT_JSON is not valid JSON");
    expect(said).not.toContain("BEGIN");
  });
});

describe("notebook", () => {
  it("requires the line that the cell prints, or host and port", () => {
    expect(read("notebook").missing).toEqual([expect.stringMatching(/^NOTEBOOK_ENDPOINT .*prints its value/)]);
    expect(read("notebook", { NOTEBOOK_HOST: "h.example" }).missing).toEqual([
      expect.stringMatching(/^NOTEBOOK_PORT /),
    ]);
    store({ providers: { notebook: { host: "h.example", port: 17042, ssh_user: "root" } } });
    expect(read("notebook")).toMatchObject({
      credential: { secret: "", settings: { host: "h.example", port: "17042", ssh_user: "root" } },
      source: "store",
      missing: [],
    });
  });

  it.each([
    { NOTEBOOK_HOST: "tcp://h.example:17042" },
    { NOTEBOOK_ENDPOINT: 'SVC-ENDPOINT {"host":"h","port":1}' },
    { NOTEBOOK_PROXY_COMMAND: "/usr/bin/way-in --stdio" },
  ])("takes %j alone", (env) => {
    expect(read("notebook", env)).toMatchObject({ source: "env", missing: [] });
  });
});

describe("the store", () => {
  const good = { providers: { podhost: { api_key: "k" } } };

  it("is made private to its owner before it is used", () => {
    store(good);
    chmodSync(file(), 0o644);
    expect(read("podhost").credential?.secret).toBe("k");
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  it("is reported once if others could read it, with its mode and what to do", () => {
    const said: string[] = [];
    onTightened((words) => said.push(words));
    store(good);
    for (let i = 0; i < 2; i++) {
      chmodSync(file(), 0o640);
      read("podhost");
    }
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(
      `${file()} could be read by other users of this computer (mode 640). Its mode is 600 now.`,
    );
    expect(said[0]).not.toContain("topsecret");
  });

  it("keeps a stricter mode", () => {
    store(good);
    chmodSync(file(), 0o400);
    read("podhost");
    expect(statSync(file()).mode & 0o777).toBe(0o400);
  });

  it.each([
    ["not JSON", '{"providers": {"podhost": {"api_key": "topsecret" ', /credentials\.json is not valid JSON/],
    ["a list", '["topsecret"]', /holds no JSON object/],
    ["too large", JSON.stringify({ a: "x".repeat(1024 * 1024) }), /larger than 1024 KiB/],
    ["of a wrong block", '{"providers": {"podhost": "topsecret"}}', /providers\.podhost in .* must be an object/],
  ])("is named, and not quoted, if it is %s", (_, content, words) => {
    store(content);
    const said = refusal("podhost");
    expect(said).toMatch(words);
    expect(said).toContain(file());
    expect(said).not.toContain("topsecret");
  });

  it.each(["", "\n", "\uFEFF{}"])("counts as empty if it holds %j", (content) => {
    store(content);
    expect(read("podhost").missing).toHaveLength(1);
  });

  it("is not read through a symlink: the symlink's target keeps its mode", () => {
    const target = join(home, "elsewhere.json");
    writeFileSync(target, JSON.stringify(good), { mode: 0o644 });
    symlinkSync(target, file());
    expect(refusal("podhost")).toContain("is a link");
    expect(statSync(target).mode & 0o777).toBe(0o644);
  });

  it("is refused without waiting for a writer if it is a pipe", () => {
    execFileSync("mkfifo", [file()]);
    expect(refusal("podhost")).toContain("not a plain file");
  });

  it("is refused if another user owns it", { tags: "needs/root" }, () => {
    store(good);
    chownSync(file(), 12_345, 12_345);
    expect(refusal("podhost")).toContain("belongs to another user");
  });

  it("may be unreadable if the environment has every value", () => {
    store("{");
    expect(read("podhost", { PODHOST_API_KEY: "k" })).toMatchObject({ credential: { secret: "k" }, source: "env" });
    expect(refusal("podhost")).toContain("not valid JSON");
  });

  it("does not read inherited members of objects", () => {
    store('{"providers": {"__proto__": {"api_key": "x"}}}');
    expect(read("podhost").credential).toBeNull();
  });
});

describe("the providers' table", () => {
  it("names sources and gaps, and never throws", () => {
    store({ providers: { market: { api_key: "k" } } });
    expect(providerSources(home, { PODHOST_API_KEY: "p" })).toMatchObject({
      local: { connected: true, source: "none_needed", missing: [] },
      podhost: { connected: true, source: "env", missing: [] },
      market: { connected: true, source: "store", missing: [] },
      cloudvm: { connected: false, source: null },
      notebook: { connected: false, source: null },
    });
    store("{");
    expect(providerSources(home, {}).market).toEqual({
      connected: false,
      source: null,
      missing: [`${file()} is not valid JSON`],
    });
  });
});

describe("a base address", () => {
  const base = (env: NodeJS.ProcessEnv, url?: string) =>
    baseUrlOf("podhost", env, url === undefined ? null : { settings: { url } }, "https://vendor.example/graphql");

  it("is the environment's, else the setting's, else the vendor's", () => {
    expect(base({})).toBe("https://vendor.example/graphql");
    expect(base({}, "https://mirror.example/")).toBe("https://mirror.example");
    expect(base({ SVC_PODHOST_URL: "http://127.0.0.1:81/x//" }, "https://mirror.example")).toBe(
      "http://127.0.0.1:81/x",
    );
    expect(base({ SVC_PODHOST_URL: "http://[::1]:81" })).toBe("http://[::1]:81");
    expect(base({ SVC_PODHOST_URL: "http://localhost:81" })).toBe("http://localhost:81");
  });

  it.each([
    "http://vendor.example",
    "http://127.0.0.1.evil.example",
    "http://169.254.169.254/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "https://user:pw@vendor.example",
    "https://vendor.example/?a=b",
    "https://vendor.example/#x",
    "vendor.example",
  ])("%s is refused by the name of its setting", (url) => {
    expect(() => base({ SVC_PODHOST_URL: url })).toThrowError(
      expect.objectContaining({
        code: "provider_unavailable",
        message: expect.stringContaining("SVC_PODHOST_URL") as string,
      }) as Error,
    );
    expect(() => base({}, url)).toThrowError(/the setting url of podhost/);
  });
});

describe("an address of a notebook in the environment", () => {
  it("is not combined with the store's settings for another one", () => {
    store({
      providers: { notebook: { host: "old", port: 1, host_key: "old key", endpoint: "old:1", ssh_user: "me" } },
    });
    expect(read("notebook", { NOTEBOOK_ENDPOINT: "new:2" }).credential?.settings).toEqual({
      endpoint: "new:2",
      ssh_user: "me",
    });
    expect(read("notebook", { NOTEBOOK_HOST: "new", NOTEBOOK_PORT: "2" }).credential?.settings).toEqual({
      host: "new",
      port: "2",
      ssh_user: "me",
    });
    expect(read("notebook", { NOTEBOOK_PORT: "2" }).credential?.settings).toMatchObject({ host: "old", port: "2" });
  });
});
