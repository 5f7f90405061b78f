// How `cloudvm` signs in: the assertion, the token's life, and the message for each wrong key.

import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readKeyFile } from "../../src/providers/cloudvm/auth.ts";
import { TokenSource } from "../../src/providers/cloudvm/tokens.ts";
import { apiError, CloudStub, never, PRIVATE_KEY, PROJECT, spec } from "./cloudvm-stub.ts";

let stub: CloudStub;
beforeEach(async () => {
  stub = await new CloudStub().listen();
});
afterEach(() => stub.close());

const source = (keyFile = stub.keyFile()): TokenSource => new TokenSource(readKeyFile(keyFile), () => stub.nowMs);
const invalidGrant =
  (description: string, headers: Record<string, string> = {}) =>
  () => ({
    status: 400,
    json: { error: "invalid_grant", error_description: description },
    headers,
  });

describe("the exchange", () => {
  it("signs an assertion for the file's own token address, good for an hour", async () => {
    expect(await source().token()).toBe("tok-0");
    const [claims] = stub.assertions;
    expect(claims).toEqual({
      iss: `runs@${PROJECT}.example.com`,
      scope: "https://www.googleapis.com/auth/cloud-platform",
      aud: `${stub.url}/token`,
      iat: Math.floor(stub.nowMs / 1000),
      exp: Math.floor(stub.nowMs / 1000) + 3_600,
    });
  });

  it("keeps the token until five minutes before its end", async () => {
    const tokens = source();
    await tokens.token();
    stub.nowMs += (3_599 - 301) * 1000;
    expect(await tokens.token()).toBe("tok-0");
    stub.nowMs += 2_000;
    expect(await tokens.token()).toBe("tok-1");
    expect(stub.tokensAsked).toBe(2);
  });

  it("does not request a token for every call when tokens live only a minute", async () => {
    stub.tokenAnswer = (nth) => ({ json: { access_token: `tok-${nth}`, expires_in: "60" } });
    const tokens = source();
    await tokens.token();
    stub.nowMs += 29_000;
    expect(await tokens.token()).toBe("tok-0");
    stub.nowMs += 2_000;
    expect(await tokens.token()).toBe("tok-1");
  });

  it("exchanges once for all waiting calls, and an abort of one leaves the others their token", async () => {
    const tokens = source();
    const gaveUp = new AbortController();
    const first = tokens.token(gaveUp.signal);
    const others = [tokens.token(), tokens.token(never)];
    gaveUp.abort();
    await expect(first).rejects.toThrow(/abort/i);
    expect(await Promise.all(others)).toEqual(["tok-0", "tok-0"]);
    expect(stub.tokensAsked).toBe(1);
  });

  it("makes another token once after a 401, and then says that the key is refused", async () => {
    stub.on("GET", "", apiError(401, "authError", "Invalid Credentials"), { json: { name: PROJECT } });
    const provider = stub.provider();
    expect((await provider.account(never)).name).toBe(`${PROJECT} (runs@${PROJECT}.example.com)`);
    expect(stub.tokensAsked).toBe(2);
    stub.on("GET", "", apiError(401, "authError", "Invalid Credentials"));
    await expect(provider.account(never)).rejects.toMatchObject({ code: "credential_refused" });
    expect(stub.tokensAsked).toBe(3);
  });

  it("reads the credential at every call: a changed key counts at once", async () => {
    stub.on("GET", "", { json: {} });
    let email = "a@x.example.com";
    const provider = stub.provider({}, () => stub.keyFile({ client_email: email }));
    expect((await provider.account(never)).name).toContain("a@x");
    email = "b@x.example.com";
    expect((await provider.account(never)).name).toContain("b@x");
    expect(stub.assertions.map((claims) => claims["iss"])).toEqual(["a@x.example.com", "b@x.example.com"]);
  });
});

describe("an unusable key file", () => {
  const cases: [string, string | (() => string), string, RegExp][] = [
    ["nothing", " ", "credential_missing", /is not set/],
    ["text that is not JSON", "-----BEGIN PRIVATE KEY-----", "credential_missing", /is not JSON.*make one/],
    ["JSON of another kind", "[1]", "credential_missing", /not the key file/],
    [
      "a person's own login",
      () => stub.keyFile({ type: "authorized_user" }),
      "credential_missing",
      /of type authorized_user and has no client_id/,
    ],
    [
      "one without an address",
      () => stub.keyFile({ client_email: undefined }),
      "credential_missing",
      /no client_email/,
    ],
    ["one without a key", () => stub.keyFile({ private_key: "" }), "credential_missing", /no private_key/],
    [
      "one whose key was cut",
      () => stub.keyFile({ private_key: PRIVATE_KEY.slice(0, 300) }),
      "credential_missing",
      /cannot be read/,
    ],
    [
      "one whose key is of another kind",
      () => {
        const other = generateKeyPairSync("ed25519", {
          privateKeyEncoding: { type: "pkcs8", format: "pem" },
          publicKeyEncoding: { type: "spki", format: "pem" },
        });
        return stub.keyFile({ private_key: other.privateKey });
      },
      "credential_missing",
      /not an RSA key/,
    ],
    [
      "a token address in the open",
      () => stub.keyFile({ token_uri: "http://tokens.example.com/token" }),
      "credential_refused",
      /must begin with https/,
    ],
    ["a token address that is none", () => stub.keyFile({ token_uri: "tokens" }), "credential_refused", /is not a URL/],
  ];
  it.each(cases)("refuses %s before any request", (_, file, code, words) => {
    const read = (): unknown => readKeyFile(typeof file === "string" ? file : file());
    expect(read).toThrow(expect.objectContaining({ code, message: expect.stringMatching(words) as string }));
    expect(stub.tokensAsked).toBe(0);
  });

  it("never shows the key", () => {
    for (const file of [PRIVATE_KEY, stub.keyFile({ private_key: PRIVATE_KEY.slice(0, 300) })])
      try {
        readKeyFile(file);
        expect.unreachable();
      } catch (e) {
        expect(String(e)).not.toContain(PRIVATE_KEY.slice(40, 80));
      }
  });

  it("accepts line ends that were escaped twice, and a byte order mark", async () => {
    expect(await source(`\uFEFF${stub.keyFile({ private_key: PRIVATE_KEY.replaceAll("\n", "\\n") })}`).token()).toBe(
      "tok-0",
    );
  });
});

describe("a refused exchange", () => {
  it("names a key that does not belong to the account", async () => {
    const other = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
      publicKeyEncoding: { type: "spki", format: "pem" },
    });
    await expect(source(stub.keyFile({ private_key: other.privateKey })).token()).rejects.toMatchObject({
      code: "credential_refused",
      message: expect.stringMatching(/revoked or is not the one of runs@.*make a new key/) as string,
    });
  });

  it("names an account that is gone", async () => {
    stub.tokenAnswer = invalidGrant("Invalid grant: account not found");
    await expect(source().token()).rejects.toMatchObject({
      code: "credential_refused",
      message: expect.stringContaining("does not exist any more") as string,
    });
  });

  it("names the clock when it is the cause, and uses the provider's time if it reports it", async () => {
    const words = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.";
    stub.tokenAnswer = invalidGrant(words, { date: new Date(stub.nowMs).toUTCString() });
    await expect(source().token()).rejects.toMatchObject({
      code: "credential_refused",
      message: expect.stringContaining("clock of this computer is wrong") as string,
    });
    const real = stub.nowMs;
    stub.nowMs -= 3_600_000;
    stub.tokenAnswer = (nth) =>
      Math.abs(Number(stub.assertions.at(-1)?.["iat"]) - real / 1000) > 300
        ? invalidGrant(words, { date: new Date(real).toUTCString() })()
        : { json: { access_token: `tok-${nth}`, expires_in: 3_599 } };
    expect(await source().token()).toMatch(/^tok-/);
  });

  it("is retried unless it refuses the key", async () => {
    for (const answer of [
      { status: 503, text: "<html>down</html>" },
      { status: 429, json: { error: "rate" } },
      { status: 403, json: { error: { message: "Quota exceeded.", errors: [{ reason: "rateLimitExceeded" }] } } },
      { status: 403, json: { error: { message: "Slow down.", status: "RESOURCE_EXHAUSTED" } } },
      { status: 400, json: { error: "rate_limit_exceeded", error_description: "Rate Limit Exceeded" } },
      { status: 408, json: { error: "timeout" } },
      { status: 200, text: "<html>log in</html>" },
      { status: 200, json: { access_token: "two words" } },
    ]) {
      stub.tokenAnswer = () => answer;
      await expect(source().token()).rejects.toMatchObject({ code: "provider_error" });
    }
    stub.tokenAnswer = () => ({ cut: true });
    await expect(source().token()).rejects.toMatchObject({ code: "provider_unreachable" });
  });

  it("is reported before anything is ordered with the key", async () => {
    stub.tokenAnswer = invalidGrant("Invalid JWT Signature.");
    const offers = stub.provider().listOffers(spec(), never);
    await expect(offers).rejects.toMatchObject({ code: "credential_refused" });
  });
});
