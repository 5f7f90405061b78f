import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { maskedJson, maskedValue } from "../../src/domain/masked-json.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { KnownSecrets } from "../../src/secrets/known.ts";
import { resolveSecret } from "../../src/secrets/resolve.ts";

const homes: string[] = [];
afterEach(() => {
  for (const home of homes.splice(0)) rmSync(home, { recursive: true });
});

function newHome(store: unknown): string {
  const home = mkdtempSync(join(tmpdir(), "svc-known-"));
  homes.push(home);
  writeFileSync(join(home, "credentials.json"), JSON.stringify(store), { mode: 0o600 });
  return home;
}

it("Credentials of the environment and of the store are known, with the passwords and members in them", () => {
  const home = newHome({
    providers: {
      podhost: { api_key: "pod-key-1234" },
      cloudvm: { service_account_json: { private_key: "PRIVATE-1234" } },
    },
    hub: { token: "hub-token-1234" },
    own: { deep: { my_password: "deep-1234" }, plain: "no secret at all" },
  });
  const env = { MARKET_API_KEY: "market-1234", HTTPS_PROXY: "http://me:proxy-pw-1234@proxy.example:3128" };
  const known = new KnownSecrets({ home, env }).redactor();
  for (const secret of ["pod-key-1234", "PRIVATE-1234", "hub-token-1234", "deep-1234", "market-1234", "proxy-pw-1234"])
    expect(known.redactText(`a ${secret} b`)).toBe("a ***redacted*** b");
  expect(known.redactText("no secret at all, proxy.example:3128")).toBe("no secret at all, proxy.example:3128");
});

it("A secret that another source overrules is known, and so are the token and the key of the installation", () => {
  const home = newHome({ hub: { token: "in-the-store-1" }, providers: { market: { api_key: "in-the-store-2" } } });
  writeFileSync(join(home, "token"), "token-of-the-api\n", { mode: 0o600 });
  writeFileSync(join(home, "installation.key"), "0a".repeat(32), { mode: 0o600 });
  const env = { HUB_TOKEN: "in-the-environment-1", MARKET_API_KEY: "in-the-environment-2" };
  const known = new KnownSecrets({ home, env }).redactor();
  const secrets = ["in-the-store-1", "in-the-store-2", ...Object.values(env), "token-of-the-api", "0a".repeat(32)];
  expect(known.redactText(secrets.join(" "))).toBe(secrets.map(() => "***redacted***").join(" "));
});

it("A changed credential is known from then on, and a run's secrets stay known", () => {
  const home = newHome({ hub: { token: "first-token-1" } });
  const known = new KnownSecrets({ home, env: {} });
  known.remember(["of-a-run-1234", "short"]);
  expect(known.redactor().redactText("first-token-1 of-a-run-1234 short")).toBe("***redacted*** ***redacted*** short");
  // Without a change nothing is read or built again: every record that is shown asks for it.
  expect(known.redactor()).toBe(known.redactor());
  writeFileSync(join(home, "credentials.json"), JSON.stringify({ hub: { token: "the-second-token-2" } }));
  expect(known.redactor().redactText("the-second-token-2")).toBe("***redacted***");
});

it("A key file anywhere that changes, or appears later, is known from then on, and what it held before stays known", () => {
  const away = newHome({});
  const file = (name: string): string => join(away, name);
  const put = (name: string, key: string): void => {
    const text = name === "hub" ? `${key}\n` : JSON.stringify({ type: "service_account", private_key: key });
    writeFileSync(file(name), text);
  };
  put("hub", "first-of-hub-1");
  put("cloud.json", "first-of-cloud-1");
  const home = newHome({ providers: { cloudvm: { service_account_json: file("cloud.json") } } });
  const registry = {
    credentials: [{ cred_id: "a", provider: "market", secret_ref: `file://${file("hub")}` }],
    integrations: { hub: { token_ref: `file://${file("later")}` } },
  };
  writeFileSync(join(home, "registry.json"), JSON.stringify({ registry }), { mode: 0o600 });
  const known = new KnownSecrets({ home, env: {} });
  const unknown = (words: string[]): string[] => words.filter((word) => known.redactor().redactText(word) === word);
  const first = ["first-of-hub-1", "first-of-cloud-1"];
  expect(unknown([...first, "second-of-hub-2"])).toEqual(["second-of-hub-2"]);
  put("hub", "second-of-hub-2");
  expect(unknown([...first, "second-of-hub-2"])).toEqual([]);
  put("cloud.json", "second-of-cloud-2");
  expect(unknown(["second-of-cloud-2"])).toEqual([]);
  put("hub", "thirds-of-hub-3");
  writeFileSync(file("later"), "it-appears-later");
  expect(unknown([...first, "thirds-of-hub-3", "second-of-cloud-2", "it-appears-later"])).toEqual([]);
  let looks = 0;
  known.learnFrom(() => void looks++);
  expect(known.redactor()).toBe(known.redactor());
  expect(looks, "files that have not changed are not read again").toBe(1);
});

it("Another source is asked again when a file that it read has changed, and may use the redactor meanwhile", () => {
  const home = newHome({ notify: { hook: "no-secret-by-name" } });
  const known = new KnownSecrets({ home, env: {} });
  known.learnFrom(() => {
    known.redactor();
    known.remember([resolveSecret("store://notify/hook", home, {})]);
  });
  expect(known.redactor().redactText("no-secret-by-name")).toBe("***redacted***");
  writeFileSync(join(home, "credentials.json"), JSON.stringify({ notify: { hook: "another-address" } }));
  expect(known.redactor().redactText("no-secret-by-name another-address")).toBe("***redacted*** ***redacted***");
});

it("A file that is written again with the same secrets makes no new redactor", () => {
  const home = newHome({ hub: { token: "hf_the-same-token-1" } });
  const known = new KnownSecrets({ home, env: {} });
  const before = known.redactor();
  writeFileSync(join(home, "credentials.json"), JSON.stringify({ hub: { token: "hf_the-same-token-1" } }));
  expect(known.redactor()).toBe(before);
  expect([known.remember(["another-secret-1"]), known.remember(["another-secret-1"])]).toEqual([true, false]);
});

it("Of more secrets than are kept, the newest are known", () => {
  const known = new KnownSecrets({ home: newHome({}), env: {} });
  known.remember(Array.from({ length: 2_010 }, (_, i) => `of-a-run-${i}-`));
  expect(known.redactor().redactText("of-a-run-0- of-a-run-2009-")).toBe("of-a-run-0- ***redacted***");
});

it("Words of the API are not masked in it, even if a user chose one as a password", () => {
  const known = new KnownSecrets({ home: newHome({ own: { password: "succeeded" } }), env: {} });
  expect(maskedJson({ status: "succeeded" }, known.redactor())).toBe('{"status":"succeeded"}');
});

it("A store that cannot be read gives no secrets and no error", () => {
  const home = newHome({});
  writeFileSync(join(home, "credentials.json"), "{");
  expect(new KnownSecrets({ home, env: {} }).redactor().empty).toBe(true);
});

it("JSON is masked also where the secret is escaped in it, and stays unchanged without a secret", () => {
  const secrets = new Redactor(['se"cret\\1234']);
  const value = { a: 'x se"cret\\1234 y', b: [1, 2, "z"], k: null };
  expect(JSON.parse(maskedJson(value, secrets))).toEqual({ ...value, a: "x ***redacted*** y" });
  expect(maskedValue(value, secrets)).toEqual({ ...value, a: "x ***redacted*** y" });
  expect(maskedJson({ a: ["b"] }, secrets)).toBe('{"a":["b"]}');
  const clean = { a: ["b"], c: undefined };
  expect(maskedValue(clean, secrets)).toBe(clean);
});

it("Covering a secret keeps the length and every other byte", () => {
  const secrets = new Redactor(["secret-1234"]);
  const bytes = Buffer.from("é secret-1234 and c2VjcmV0LTEyMzQ= end");
  const covered = secrets.cover(bytes);
  expect(covered).toHaveLength(bytes.length);
  expect(covered.toString()).toMatch(/^é \*{11} and \*{14}Q= end$/);
  expect(secrets.cover(Buffer.from("nothing here")).toString()).toBe("nothing here");
});

it("What a local run inherits is known where its name says that it is a secret, and no ordinary word is", () => {
  const folder = join(newHome({}), "Folder-aB1cD2eF3gH4");
  mkdirSync(folder);
  const env = {
    OPENAI_API_KEY: "sk-proj-of-the-caller-1",
    AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
    AWS_SESSION_TOKEN: "/IQoJb3JpZ2luX2VjEJr//////////wEaCXVz",
    WANDBTOKEN: "0123456789abcdef",
    DB_PASSWORD: "correct horse battery",
    DATABASE_URL: "postgres://svc:supersecret@db/x",
    AZURE_STORAGE_CONNECTION_STRING: "AccountName=me;AccountKey=c2VjcmV0LTEyMw==;EndpointSuffix=x",
    SLACK_WEBHOOK_URL: "https://hooks.slack.com/services/T0000/B0000/abcdefgh",
    SAS_URL: "https://me.blob.core.windows.net/c?sv=2022&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D&se=2030",
    MAPS: "AIzaSyA0123456789abcdefghijklmnopqrs_-",
    TEST_DATABASE_URL: "postgres://postgres:postgres@localhost/x",
    SSH_AUTH_SOCK: "/run/user/1000/agent-1",
    PWD: "/home/me/Project-aB1cD2eF3gH4",
    OLDPWD: "/home/me/Project-aB1cD2eF3gH5",
    DATA_KEY: folder,
    KEYBOARD: "qwerty-105-keys",
    GOOGLE_TOKEN_FILE: "my-files/token-1.json",
    AUTH_URL: "https://login.example/oauth-2",
    API_KEY: "none1",
    AUTH_TYPE: "kerberos-5",
    AWS_CREDENTIAL_EXPIRATION: "2026-11-27T10:00:00Z",
    MASTER_KEY: "production",
    PAD_TOKEN: "<|endoftext-1|>",
    CLOUD_ZONE: "asia-northeast1-a",
    OPTUNA_CONNECTION_STRING: "sqlite:///runs/optuna.db",
    WEBHOOK_URL: "http://localhost:8080",
  };
  const known = new KnownSecrets({ home: newHome({}), env }).redactor();
  const shown = Object.entries(env).filter(([, value]) => known.redactText(value) === value);
  expect(shown.map(([name]) => name)).toEqual(Object.keys(env).slice(10));
  for (const part of ["supersecret", "c2VjcmV0LTEyMw==", "c2VjcmV0LXNpZ25hdHVyZQ="])
    expect(known.redactText(part)).toBe("***redacted***");
  expect(known.redactText(env.SAS_URL)).toBe(env.SAS_URL.replace(/sig=[^&]*/, "sig=***redacted***"));
});
