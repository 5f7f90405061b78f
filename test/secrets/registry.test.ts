import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { credentialDesk } from "../../src/app/credentials.ts";
import { systemClock } from "../../src/domain/clock.ts";
import { RegistryBody } from "../../src/schemas/registry.ts";
import { providerSources, readCredential } from "../../src/secrets/credentials.ts";
import { KnownSecrets } from "../../src/secrets/known.ts";
import { injectedVariables, readHub, readTracker } from "../../src/secrets/services.ts";
import type { z } from "zod";

let home = "";
let machines: Record<string, number> = {};
let said: string[] = [];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "svc-registry-"));
  machines = {};
  said = [];
});
afterEach(() => rmSync(home, { recursive: true, force: true }));
const desk = (env: NodeJS.ProcessEnv = {}) =>
  credentialDesk({
    home,
    env,
    clock: systemClock,
    publicKey: () => Promise.resolve("ssh-ed25519 AAAA"),
    machinesOf: (name) => machines[name] ?? 0,
    log: (line) => said.push(line),
  });
const configure = (body: z.input<typeof RegistryBody>, env: NodeJS.ProcessEnv = {}) =>
  desk(env).configure(RegistryBody.parse(body));
const pod = (secret_ref: string, more: object = {}) => ({
  cred_id: "pod",
  provider: "podhost" as const,
  secret_ref,
  ...more,
});
const only = (secret_ref: string, values: Record<string, string | null> = {}) => ({
  registry: { credentials: [pod(secret_ref)] },
  use: ["pod"],
  values,
});
const text = () => readFileSync(join(home, "registry.json"), "utf8");
const at = (env: NodeJS.ProcessEnv = {}) => ({ home, env });
const code = (code: string) => expect.objectContaining({ code }) as Error;

describe("a reference of the registry", () => {
  it("env:// is the caller's value if the caller has one: kept sealed, over restarts, whatever this environment is", () => {
    configure(only("env://MY_KEY", { "credentials.pod": "callers-secret-key" }), { MY_KEY: "mine" });
    expect(readCredential("podhost", at({ MY_KEY: "mine", PODHOST_API_KEY: "other" }))).toMatchObject({
      credential: { secret: "callers-secret-key" },
      source: "registry",
    });
    for (const name of readdirSync(home)) {
      const bytes = readFileSync(join(home, name));
      expect(bytes.includes("callers-secret-key"), name).toBe(false);
      expect(statSync(join(home, name)).mode & 0o077, name).toBe(0);
    }
    expect(text()).toContain("env://MY_KEY");
  });

  it("env:// is the control plane's variable if the caller has no value", () => {
    configure(only("env://MY_KEY"));
    expect(readCredential("podhost", at({ MY_KEY: "mine" })).credential?.secret).toBe("mine");
    expect(() => readCredential("podhost", at())).toThrowError(code("credential_missing"));
    expect(() => configure(only("env://MY_KEY", { "credentials.pod": null }))).toThrowError(code("secret_not_found"));
  });

  it("file:// is the file's content at the time of use, stripped", () => {
    const file = join(home, "key");
    writeFileSync(file, "\n first \n");
    configure(only(`file://${file}`));
    expect(readCredential("podhost", at()).credential?.secret).toBe("first");
    writeFileSync(file, "second\n");
    expect(readCredential("podhost", at()).credential?.secret).toBe("second");
    rmSync(file);
    expect(() => readCredential("podhost", at())).toThrowError(code("credential_missing"));
    expect(() => configure(only(`file://${file}`))).toThrowError(code("secret_not_found"));
    expect(() => configure(only("file://key"))).toThrow(/whole path/);
    expect(() => configure(only("file:///dev/zero"))).toThrow(/not a plain file/);
  });

  it("store:// reads the store", () => {
    writeFileSync(join(home, "credentials.json"), JSON.stringify({ providers: { podhost: { api_key: "stored" } } }));
    configure(only("store://providers/podhost/api_key"));
    expect(readCredential("podhost", at({ PODHOST_API_KEY: "env" }))).toMatchObject({
      credential: { secret: "stored" },
      source: "registry",
    });
  });

  it("literal:// works, causes a warning, and is not in the registry in clear", () => {
    const { warnings } = configure(only("literal://raw-literal-key"));
    expect(warnings).toEqual(said);
    expect(said).toEqual([expect.stringMatching(/credentials\.pod is a literal:\/\/((?!raw-literal).)*$/)]);
    expect(readCredential("podhost", at()).credential?.secret).toBe("raw-literal-key");
    expect(text()).not.toContain("raw-literal-key");
  });

  it("is reported and not used if it was sealed with another key", () => {
    configure(only("literal://raw-literal-key"));
    rmSync(join(home, "installation.key"));
    expect(() => readCredential("podhost", at({ PODHOST_API_KEY: "env" }))).toThrow(/call configure\(\) again/);
    expect(providerSources(home, {}).podhost).toMatchObject({ connected: false });
  });
});

describe("a credential in the registry", () => {
  it("is used as a whole; environment and store serve only names outside of it", () => {
    writeFileSync(
      join(home, "credentials.json"),
      JSON.stringify({ providers: { podhost: { region: "eu" }, market: { api_key: "m" } } }),
    );
    configure({
      registry: {
        credentials: [pod("literal://key", { ssh_key_ref: "/keys/id", extra: { api: "rest", ssh_port: 2222 } })],
      },
      use: ["pod"],
    });
    expect(readCredential("podhost", at({ PODHOST_NETWORK: "global" }))).toMatchObject({
      credential: { secret: "key", settings: { api: "rest", ssh_port: "2222" } },
      sshKeyPath: "/keys/id",
    });
    expect(readCredential("podhost", at()).credential?.settings).not.toHaveProperty("region");
    expect(readCredential("market", at())).toMatchObject({ credential: { secret: "m" }, source: "store" });
    expect(providerSources(home, {})).toMatchObject({
      podhost: { connected: true, source: "registry" },
      market: { connected: true, source: "store" },
    });
    expect(desk().list().providers.podhost).toMatchObject({
      api_key: { value: "…", source: "registry", read_only: true },
    });
  });

  it("is one credential per provider, chosen by use", () => {
    const two = { credentials: [pod("literal://one"), { ...pod("literal://two"), cred_id: "other" }] };
    configure({ registry: two, use: ["other"] });
    expect(readCredential("podhost", at()).credential?.secret).toBe("two");
    expect(() => configure({ registry: two, use: ["pod", "other"] })).toThrow(
      /use\[1\] is a second credential of podhost/,
    );
    expect(() => configure({ registry: two, use: ["third"] })).toThrow(/use\[0\] is not a cred_id/);
    expect(() => configure({ registry: { credentials: [pod("literal://a"), pod("literal://b")] } })).toThrow(
      /is listed twice/,
    );
    expect(readCredential("podhost", at()).credential?.secret).toBe("two");
  });

  it("includes the extra fields of cloudvm and notebook", () => {
    configure({
      registry: {
        credentials: [
          { cred_id: "vm", provider: "cloudvm", secret_ref: 'literal://{"project_id":"p"}', extra: { zone: "z" } },
          { cred_id: "nb", provider: "notebook", extra: { host: "h.example", port: 17_042, ssh_user: "me" } },
        ],
      },
      use: ["vm", "nb"],
    });
    expect(readCredential("cloudvm", at({ CLOUDVM_ZONE: "other" })).credential?.settings).toEqual({
      zone: "z",
      project: "p",
    });
    expect(readCredential("notebook", at())).toMatchObject({
      credential: { settings: { host: "h.example", port: "17042", ssh_user: "me" } },
      source: "registry",
    });
  });

  it("reaches runs for hub and tracker, is switched off by enabled, and is absent if the caller has none", () => {
    const tracking = { tracker: { secret_ref: "env://K", project: "p" } };
    const hub = { token_ref: "env://T", cache_dir: "/models" };
    const values = { "tracking.tracker": "track", "integrations.hub": "token" };
    configure({ registry: { tracking, integrations: { hub } }, values });
    expect(readTracker(at({ TRACKER_API_KEY: "env" }))).toMatchObject({
      apiKey: "track",
      project: "p",
      source: "registry",
    });
    expect(injectedVariables(at()).secrets).toMatchObject({ HUB_TOKEN: "token", TRACKER_API_KEY: "track" });
    expect(readHub(at())).toMatchObject({ token: "token", cacheDir: "/models", source: "registry" });
    configure({ registry: { integrations: { hub: { ...hub, enabled: false } } }, values });
    expect(readHub(at({ HUB_TOKEN: "env" })).token).toBeNull();
    configure({ registry: { integrations: { hub } }, values: { "integrations.hub": null } });
    expect(injectedVariables(at({ HUB_TOKEN: "env" })).secrets).toEqual({});
    configure({ registry: {} });
    expect(readHub(at({ HUB_TOKEN: "env" })).token).toBe("env");
  });
});

describe("while machines may cost money", () => {
  it("their credential is kept when the registry no longer names it, and is removed when they have ended", () => {
    configure(only("literal://the-key"));
    machines = { podhost: 1 };
    expect(configure({ registry: {} })).toMatchObject({ use: [], kept: ["pod"] });
    expect(readCredential("podhost", at()).credential?.secret).toBe("the-key");
    expect(configure({ registry: {} }).kept).toEqual(["pod"]);
    machines = {};
    expect(configure({ registry: {} }).kept).toEqual([]);
    expect(readCredential("podhost", at()).credential).toBeNull();
  });

  it("it is not changed, from any source, and the registry stays unchanged", () => {
    machines = { podhost: 2 };
    const env = { PODHOST_API_KEY: "of-the-machines" };
    expect(() => configure(only("literal://another"), env)).toThrowError(code("credential_in_use"));
    expect(readCredential("podhost", at(env))).toMatchObject({ source: "env" });
    expect(configure(only("env://PODHOST_API_KEY"), env)).toMatchObject({ use: ["pod"] });
    const before = text();
    expect(() => configure(only("literal://another"), env)).toThrowError(code("credential_in_use"));
    expect(text()).toBe(before);
  });
});

describe("what the registry leads to is masked", () => {
  const masked = (line: string, env: NodeJS.ProcessEnv = {}) => new KnownSecrets(at(env)).redactor().redactText(line);

  it("sealed values, files, entries of the store, and the environment that the registry overrules", () => {
    const file = join(home, "key.txt");
    writeFileSync(file, "key-from-a-file\n");
    writeFileSync(join(home, "credentials.json"), JSON.stringify({ mine: { entry: "entry-of-the-store" } }), {
      mode: 0o600,
    });
    configure({
      registry: {
        credentials: [pod(`file://${file}`)],
        tracking: { tracker: { secret_ref: "env://TRACKER" } },
        integrations: { hub: { token_ref: "store://mine/entry" } },
      },
      use: ["pod"],
      values: { "tracking.tracker": "value-of-the-caller" },
    });
    for (const secret of ["key-from-a-file", "entry-of-the-store", "value-of-the-caller", "overruled-key"])
      expect(masked(`a ${secret} b`, { PODHOST_API_KEY: "overruled-key" })).toBe("a ***redacted*** b");
  });

  it("the text of the key file that a credential names, and its members", () => {
    const file = join(home, "account.json");
    writeFileSync(file, JSON.stringify({ type: "service_account", private_key: "PRIVATE-KEY-1234" }));
    const account = { cred_id: "gcp", provider: "cloudvm" as const, secret_ref: "env://ACCOUNT" };
    configure({ registry: { credentials: [account] }, use: ["gcp"], values: { "credentials.gcp": file } });
    expect(masked("a PRIVATE-KEY-1234 b")).toBe("a ***redacted*** b");
  });

  it("a file that its schema refuses is still masked as far as it can be read", () => {
    configure(only("env://POD", { "credentials.pod": "value-of-the-caller" }));
    const stored = JSON.parse(text()) as { registry: object };
    writeFileSync(
      join(home, "registry.json"),
      JSON.stringify({ ...stored, registry: { ...stored.registry, later: [{ secret_ref: "env://LATER" }, 7] } }),
    );
    expect(() => readCredential("podhost", at())).toThrow(code("credential_missing"));
    expect(masked("value-of-the-caller, later-secret", { LATER: "later-secret" })).toBe(
      "***redacted***, ***redacted***",
    );
  });
});
