// Setting, reading and removing credentials, with doubles of the providers that accept one key each.

import { fork } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createTcp, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { credentialDesk } from "../../src/app/credentials.ts";
import { systemClock } from "../../src/domain/clock.ts";
import { SvcError } from "../../src/errors/index.ts";
import { CredentialService } from "../../src/secrets/credential-service.ts";
import { masked } from "../../src/secrets/masked.ts";

let home = "";
let machines = 0;
let said: string[] = [];
const servers: { close(): unknown }[] = [];
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "svc-desk-"));
  machines = 0;
  said = [];
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
  rmSync(home, { recursive: true, force: true });
});
const desk = (env: NodeJS.ProcessEnv = {}) =>
  credentialDesk({
    home,
    env: { HOME: home, ...env },
    clock: systemClock,
    publicKey: () => Promise.resolve("ssh-ed25519 AAAA"),
    machinesOf: () => machines,
    log: (line) => said.push(line),
  });
const file = () => join(home, "credentials.json");
const stored = (): unknown => JSON.parse(readFileSync(file(), "utf8"));
const put = (name: string, body: Record<string, unknown>, env: NodeJS.ProcessEnv = {}, check = false) =>
  desk(env).save(name, body as never, { check });
const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable("it was accepted"),
    (e: unknown) => e as { code: string; message: string; errors?: { field: string; message: string }[] },
  );
const KEY = JSON.stringify({
  type: "service_account",
  project_id: "proj-1",
  client_email: "trainer@proj-1.example",
  private_key: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" }),
  token_uri: "http://127.0.0.1:1/token",
});

/** A server on this computer that answers with `reply`. */
async function double(
  reply: (request: IncomingMessage, body: string) => [status: number, body: unknown],
): Promise<string> {
  const server: Server = createServer((request, response) => {
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => {
      const [status, said] = reply(request, body);
      response.writeHead(status, { "content-type": "application/json" });
      response.end(typeof said === "string" ? said : JSON.stringify(said));
    });
  });
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("the shown fields", () => {
  it.each([
    ["abcdefghijkl", "…ijkl"],
    ["abcdefghijk", "…"],
    ["", "…"],
    ["0123456789ab\ncd", "…b cd"],
  ])("show the secret %j as %j", (secret, text) => expect(masked(secret)).toBe(text));

  it("say where each field comes from, and never a secret", async () => {
    await put("podhost", { api_key: "  pod-key-of-some-length ", region: "eu-1" });
    await put("hub", { token: "hf_short", cache_dir: "~/models" });
    await put("cloudvm", { service_account_json: KEY, zone: "z-1" });
    const all = desk({ MARKET_API_KEY: "from-the-environment", TRACKER_API_KEY: "k" }).list();
    expect(all.providers.podhost).toEqual({
      api_key: { value: "…ngth", source: "store", read_only: false },
      region: { value: "eu-1", source: "store", read_only: false },
    });
    expect(all.providers.market).toEqual({ api_key: { value: "…ment", source: "env", read_only: true } });
    expect(all.hub).toEqual({
      token: { value: "…", source: "store", read_only: false },
      cache_dir: { value: "~/models", source: "store", read_only: false },
    });
    expect(all.tracker).toEqual({ api_key: { value: "…", source: "env", read_only: true } });
    expect(all.providers.local).toEqual({});
    expect(JSON.stringify(all)).not.toMatch(/pod-key|hf_short|PRIVATE|from-the/);
  });
});

describe("saving", () => {
  it("sets the given fields, keeps the rest, unknown fields included, and leaves the file private to its owner", async () => {
    writeFileSync(
      file(),
      JSON.stringify({ mine: 1, providers: { podhost: { api_key: "old", note: "n", extra: { region: "r" } } } }),
    );
    chmodSync(file(), 0o644);
    await put("podhost", { api_key: "new-key", network: 2222 });
    await put("tracker", { api_key: "k", project: "p" });
    expect(stored()).toEqual({
      mine: 1,
      providers: { podhost: { note: "n", extra: { region: "r" }, api_key: "new-key", network: "2222" } },
      tracker: { api_key: "k", project: "p" },
    });
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    await put("podhost", { region: null, network: null });
    await put("tracker", { api_key: null, project: null });
    expect(stored()).toEqual({ mine: 1, providers: { podhost: { note: "n", extra: {}, api_key: "new-key" } } });
  });

  it.each<[string, Record<string, unknown>, string, RegExp]>([
    ["podhost", { api_kye: "x" }, "api_kye", /not a known field/],
    ["podhost", { __proto__x: "x" }, "__proto__x", /not a known field/],
    ["podhost", { constructor: "x" }, "constructor", /not a known field/],
    ["podhost", { api_key: "two words" }, "api_key", /copy it again/],
    ["podhost", { api_key: "zero\u200bwidth" }, "api_key", /copy it again/],
    ["podhost", { region: "a\u0007b" }, "region", /control characters/],
    ["podhost", { api_key: " " }, "api_key", /must not be empty/],
    ["podhost", { api_key: { a: 1 } }, "api_key", /must be text/],
    ["podhost", { api_key: "x".repeat(5_000) }, "api_key", /at most 4096/],
    ["podhost", {}, "body", /names no field/],
    ["podhost", { url: "http://elsewhere.example" }, "url", /https/],
    ["podhost", { ssh_key_path: "~/nothing" }, "ssh_key_path", /nothing/],
    ["hub", { cache_dir: "models" }, "cache_dir", /whole path/],
    ["objstore_a", { access_key_id: "id" }, "secret_access_key", /without secret_access_key/],
    ["objstore_b", { service_account_json: "{" }, "service_account_json", /not valid JSON/],
    ["objstore_b", { service_account_json: "~/nothing.json" }, "service_account_json", /does not exist/],
    ["cloudvm", { service_account_json: "{}" }, "service_account_json", /no client_email/],
    ["cloudvm", { service_account_json: { type: "authorized_user" } }, "service_account_json", /authorized_user/],
    ["notebook", { endpoint: "paste went wrong" }, "endpoint", /not such as/],
    ["notebook", { host: "-oProxyCommand=x", port: 22 }, "host", /not such as/],
    ["notebook", { host: "h.example", port: 99_999 }, "host", /not such as/],
    ["local", { api_key: "x" }, "name", /local needs no credential/],
    ["elsewhere", { api_key: "x" }, "name", /must be one of/],
    ["__proto__", { api_key: "x" }, "name", /must be one of/],
  ])("to %s of %j is refused at %s, and nothing is written", async (name, body, field, words) => {
    const error = await refusal(put(name, body));
    expect(error).toMatchObject({ code: "invalid_request" });
    expect(error.errors).toEqual([{ field, message: expect.stringMatching(words) as string }]);
    expect(() => statSync(file())).toThrow(/ENOENT/);
  });

  it("accepts a port that was written as a number by hand", async () => {
    writeFileSync(file(), JSON.stringify({ providers: { notebook: { host: "h.example", port: 2222 } } }));
    await put("notebook", { ssh_user: "me" });
    expect(stored()).toEqual({ providers: { notebook: { host: "h.example", port: 2222, ssh_user: "me" } } });
  });

  it("accepts a key file as text, as an object, or as a path", async () => {
    writeFileSync(join(home, "key.json"), KEY);
    for (const given of [KEY, JSON.parse(KEY) as object, "~/key.json"]) {
      const { credential } = await put("cloudvm", { service_account_json: given, zone: "z" });
      expect(credential["service_account_json"]).toMatchObject({ source: "store" });
    }
    expect(stored()).toMatchObject({ providers: { cloudvm: { service_account_json: "~/key.json" } } });
  });

  it("does not touch values from the environment", async () => {
    const env = { HUB_ACCESS_TOKEN: "given" };
    expect(await refusal(put("hub", { token: "mine" }, env))).toMatchObject({
      code: "credential_read_only",
      message: expect.stringContaining("HUB_ACCESS_TOKEN") as string,
    });
    expect(() => desk(env).remove("hub")).toThrowError(
      expect.objectContaining({ code: "credential_read_only" }) as Error,
    );
    expect((await put("hub", { cache_dir: "/m" }, env)).credential).toMatchObject({
      token: { source: "env", read_only: true },
      cache_dir: { source: "store" },
    });
  });

  it("does not overwrite an unreadable store", async () => {
    writeFileSync(file(), '{"hub": {"token": "half-wri');
    expect(await refusal(put("hub", { token: "mine" }))).toMatchObject({ code: "credentials_unusable" });
    expect(readFileSync(file(), "utf8")).toBe('{"hub": {"token": "half-wri');
    expect(() => desk().list()).toThrow(/is not valid JSON/);
  });

  it("from several processes at once loses nothing, and no reader ever gets half a file", async () => {
    const writers = Array.from({ length: 3 }, (_, i) =>
      fork(new URL("./writer.child.ts", import.meta.url), [home, String(i), "20"], {
        stdio: ["ignore", "ignore", "inherit", "ipc"],
      }),
    );
    const ends = Promise.all(writers.map((writer) => once(writer, "exit")));
    while (writers.some((writer) => writer.exitCode === null && writer.signalCode === null)) {
      try {
        stored();
      } catch (e) {
        expect((e as NodeJS.ErrnoException).code, String(e)).toBe("ENOENT");
      }
      await new Promise((r) => setImmediate(r));
    }
    expect((await ends).map(([code]) => code as number)).toEqual([0, 0, 0]);
    const { marks } = stored() as { marks: Record<string, number> };
    expect(Object.keys(marks)).toHaveLength(60);
  });
});

describe("removing", () => {
  it("removes the block, and succeeds without one", async () => {
    await put("podhost", { api_key: "key" });
    await put("hub", { token: "token" });
    expect(desk().remove("podhost")).toEqual({ name: "podhost", credential: {}, check: null });
    expect(stored()).toEqual({ providers: {}, hub: { token: "token" } });
    expect(desk().remove("market").credential).toEqual({});
  });

  it("waits for machines that could not be ended without it", async () => {
    await put("podhost", { api_key: "key" });
    machines = 2;
    expect(() => desk().remove("podhost")).toThrowError(
      expect.objectContaining({
        code: "credential_in_use",
        message: expect.stringContaining("2 machines") as string,
      }) as Error,
    );
    expect(stored()).toEqual({ providers: { podhost: { api_key: "key" } } });
  });

  it("waits for them even if only one field is removed that their release needs", async () => {
    await put("podhost", { api_key: "key", region: "r" });
    await put("cloudvm", { service_account_json: KEY, zone: "z" });
    machines = 1;
    for (const [name, body] of Object.entries({ podhost: { api_key: null }, cloudvm: { zone: null } }))
      expect(await refusal(put(name, body))).toMatchObject({ code: "credential_in_use" });
    await put("podhost", { api_key: "another", region: null });
    expect(stored()).toMatchObject({ providers: { podhost: { api_key: "another" }, cloudvm: { zone: "z" } } });
    machines = 0;
    await put("podhost", { api_key: null });
    expect(stored()).toMatchObject({ providers: { cloudvm: { zone: "z" } } });
  });
});

describe("asking the other side", () => {
  it("saves a working credential and names its owner; a refused one is not saved", async () => {
    const market = await double((r) =>
      r.headers.authorization === "Bearer good-key-1234"
        ? [200, { id: 7, email: "me@example.org", credit: 12.5 }]
        : [401, { success: false, error: "auth_error", msg: "Invalid user key" }],
    );
    const env = { SVC_MARKET_URL: market };
    expect(await refusal(put("market", { api_key: "bad-key-1234" }, env, true))).toMatchObject({
      code: "credential_refused",
    });
    expect(() => stored()).toThrow(/ENOENT/);
    expect(await put("market", { api_key: "good-key-1234" }, env, true)).toMatchObject({
      credential: { api_key: { value: "…1234" } },
      check: { account: "me@example.org", balance_usd: 12.5 },
    });
    expect(await desk(env).check("market")).toMatchObject({ account: "me@example.org" });
    expect(await refusal(desk(env).check("podhost"))).toMatchObject({
      code: "credential_missing",
      hint: expect.stringContaining("`svc credentials set podhost`") as string,
    });
  });

  it("asks the hub for the token's owner and permissions", async () => {
    const url = await double((r) =>
      r.headers.authorization === "Bearer hf_good"
        ? [200, { name: "me", type: "user", auth: { accessToken: { role: "read" } } }]
        : [401, { error: "Invalid credentials" }],
    );
    expect((await put("hub", { token: "hf_good", url }, {}, true)).check).toEqual({
      account: "me",
      may: ["read"],
      balance_usd: null,
      warnings: [],
    });
    expect(await refusal(put("hub", { token: "hf_bad" }, {}, true))).toMatchObject({ code: "credential_refused" });
    expect(stored()).toMatchObject({ hub: { token: "hf_good" } });
  });

  it("never passes on a secret that the provider repeats, in an answer or an error", async () => {
    const token = "hf_this-is-the-token-itself";
    const url = await double((r) => {
      const said = r.headers.authorization ?? "";
      return r.url === "/api/whoami-v2" ? [200, { name: said, auth: { accessToken: { role: said } } }] : [400, {}];
    });
    const saved = await put("hub", { token, url }, {}, true);
    expect(saved.check?.account).toBe("Bearer ***redacted***");
    const market = await double((r) => [400, { success: false, msg: `no such key: ${r.headers.authorization}` }]);
    const error = await refusal(put("market", { api_key: token, url: market }, {}, true));
    expect(JSON.stringify(saved) + JSON.stringify(error) + error.message).not.toContain("the-token");
  });

  it("passes on no key, even if a check repeats one in its answer or its error", async () => {
    const token = "hf_this-is-the-token-itself";
    const answers = [
      () => Promise.resolve({ account: `owner of ${token}`, may: [], balance_usd: null, warnings: [token] }),
      () => Promise.reject(new SvcError("credential_refused", { provider: "hub", why: `it does not know ${token}` })),
    ];
    for (const ask of answers) {
      const service = new CredentialService({
        home,
        env: { HOME: home },
        exclusively: (_file, work) => work(),
        machinesOf: () => 0,
        warn: () => undefined,
        judge: () => Promise.resolve(),
        ask,
      });
      const said = await service.save("hub", { token }, { check: true }).catch((e: unknown) => e as SvcError);
      const data = said instanceof SvcError ? said.message + JSON.stringify(said.data) : JSON.stringify(said);
      expect(data).toContain("***redacted***");
      expect(data).not.toContain("the-token");
    }
  });

  it("does not mask a short word of its own sentence because it was set as the key, but any longer key", async () => {
    const answers = ["nothing", "127.0.0.1"].map(async (key) =>
      refusal(put("market", { api_key: key, url: "http://127.0.0.1:1" }, {}, true)),
    );
    const [word, longer] = await Promise.all(answers);
    expect(word?.message).toContain("nothing listens");
    expect(longer?.message).toContain("***redacted***");
  });

  it("does not follow a redirect with a key", async () => {
    const elsewhere: IncomingMessage[] = [];
    const other = await double((r) => (elsewhere.push(r), [200, { name: "me" }]));
    const server = createServer((_, response) => response.writeHead(302, { location: `${other}/api/whoami-v2` }).end());
    servers.push(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await refusal(put("hub", { token: "hf_token_0123", url }, {}, true))).toMatchObject({
      code: "provider_error",
    });
    expect(elsewhere).toEqual([]);
    expect(() => stored()).toThrow(/ENOENT/);
  });

  it("asks the tracker, which reports no viewer for a bad key", async () => {
    const good = `Basic ${Buffer.from("api:good").toString("base64")}`;
    const url = await double((r, body) => [
      200,
      {
        data: {
          viewer:
            r.url === "/graphql" && r.headers.authorization === good && body.includes("viewer")
              ? { username: "me", entity: "me" }
              : null,
        },
      },
    ]);
    expect((await put("tracker", { api_key: "good", entity: "team", url }, {}, true)).check).toMatchObject({
      account: "me",
      warnings: [expect.stringContaining("team")],
    });
    expect(await refusal(put("tracker", { api_key: "bad" }, {}, true))).toMatchObject({ code: "credential_refused" });
  });

  it("asks an object store with a signature, and distinguishes a wrong key from a restricted one", async () => {
    let answer = "<ListAllMyBucketsResult/>";
    const seen: IncomingMessage[] = [];
    const url = await double((r) => (seen.push(r), [answer.startsWith("<List") ? 200 : 403, answer]));
    const keys = { access_key_id: "AKID", secret_access_key: "sk-secret", region: "eu-1", url };
    expect((await put("objstore_a", keys, {}, true)).check).toMatchObject({ may: ["list buckets"] });
    expect(seen[0]?.headers.authorization).toMatch(
      /^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-1\/s3\/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=[0-9a-f]{64}$/,
    );
    answer = "<Error><Code>AccessDenied</Code></Error>";
    expect((await put("objstore_a", keys, {}, true)).check?.warnings).toHaveLength(1);
    answer = "<Error><Code>SignatureDoesNotMatch</Code></Error>";
    expect(await refusal(put("objstore_a", keys, {}, true))).toMatchObject({ code: "credential_refused" });
  });

  it("asks a service account's token address before a store with its other protocol", async () => {
    const url = await double((r) =>
      r.url === "/token"
        ? [200, { access_token: "t", expires_in: 3600 }]
        : r.headers.authorization === "Bearer t"
          ? [200, { items: [] }]
          : [401, {}],
    );
    const key = JSON.stringify({ ...(JSON.parse(KEY) as object), token_uri: `${url}/token` });
    expect((await put("objstore_b", { service_account_json: key, url }, {}, true)).check).toMatchObject({
      account: "trainer@proj-1.example",
      may: ["list buckets"],
    });
  });

  it("waits for the greeting of a notebook's SSH server", async () => {
    const greet = (text: string) => {
      const server = createTcp((socket) => socket.on("error", () => undefined).end(text));
      servers.push(server);
      return once(server.listen(0, "127.0.0.1"), "listening").then(() => (server.address() as AddressInfo).port);
    };
    const [sshd, web] = await Promise.all([
      greet("SSH-2.0-OpenSSH_9.9\r\n"),
      greet("HTTP/1.1 400 Bad Request\r\n\r\n"),
    ]);
    expect((await put("notebook", { host: "127.0.0.1", port: sshd }, {}, true)).check).toMatchObject({
      account: `root@127.0.0.1:${sshd}`,
    });
    expect(await refusal(put("notebook", { host: "127.0.0.1", port: web }, {}, true))).toMatchObject({
      code: "provider_unreachable",
    });
    expect(stored()).toMatchObject({ providers: { notebook: { port: String(sshd) } } });
  });
});
