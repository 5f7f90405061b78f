// Every kind of Google credential except a service account's key, against a server that plays its token addresses.

import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readKeyFile } from "../../src/providers/cloudvm/auth.ts";
import { TokenSource } from "../../src/providers/cloudvm/tokens.ts";
import { readCredential } from "../../src/secrets/credentials.ts";

interface Asked {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

let server: Server;
let url: string;
let home: string;
const asked: Asked[] = [];
let answers: Record<string, { status?: number; json: unknown }>;
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "svc-google-"));
  asked.length = 0;
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const path = request.url ?? "/";
      asked.push({ path, headers: request.headers, body: Buffer.concat(chunks).toString("utf8") });
      const { status = 200, json } = answers[path] ?? { status: 404, json: { error: "not_found" } };
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(json));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  answers = {
    "/token": { json: { access_token: "user-token", expires_in: 3_599 } },
    "/sts": { json: { access_token: "federated", expires_in: 3_599, token_type: "Bearer" } },
    [impersonated]: {
      json: { accessToken: "acting-token", expireTime: new Date(Date.now() + 3_600_000).toISOString() },
    },
  };
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(home, { recursive: true, force: true });
});

const EMAIL = "runs@proj.iam.gserviceaccount.com";
const impersonated = `/v1/projects/-/serviceAccounts/${EMAIL}:generateAccessToken`;
const login = (more: Record<string, unknown> = {}) => ({
  type: "authorized_user",
  client_id: "id",
  client_secret: "client-secret",
  refresh_token: "refresh-token",
  token_uri: `${url}/token`,
  quota_project_id: "proj-1",
  ...more,
});
const identity = (more: Record<string, unknown> = {}) => {
  const file = join(home, "subject");
  writeFileSync(file, "subject-token");
  return {
    type: "external_account",
    audience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/ci",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: `${url}/sts`,
    credential_source: { file },
    ...more,
  };
};
const acting = (source: Record<string, unknown>) => ({
  type: "impersonated_service_account",
  service_account_impersonation_url: url + impersonated,
  source_credentials: source,
});
const tokenOf = (file: Record<string, unknown>): Promise<string> =>
  new TokenSource(readKeyFile(JSON.stringify(file)), Date.now).token();

describe("A token", () => {
  it("comes, for a user's login, from its refresh token", async () => {
    expect(await tokenOf(login())).toBe("user-token");
    const form = new URLSearchParams(asked[0]?.body);
    expect(Object.fromEntries(form)).toMatchObject({ grant_type: "refresh_token", refresh_token: "refresh-token" });
    expect(asked[0]?.headers["user-agent"]).toBe("svc");
  });

  it("is requested, for an impersonated account, with the token of its source", async () => {
    expect(await tokenOf(acting(login()))).toBe("acting-token");
    expect(asked.map(({ path }) => path)).toEqual(["/token", impersonated]);
    expect(asked[1]?.headers.authorization).toBe("Bearer user-token");
    expect(JSON.parse(asked[1]?.body ?? "")).toMatchObject({
      scope: ["https://www.googleapis.com/auth/cloud-platform"],
    });
  });

  it("is exchanged, for a workload identity, for the subject's, by way of the account that it acts as", async () => {
    expect(await tokenOf(identity())).toBe("federated");
    expect(new URLSearchParams(asked[0]?.body).get("subject_token")).toBe("subject-token");
    asked.length = 0;
    expect(await tokenOf(identity({ service_account_impersonation_url: url + impersonated }))).toBe("acting-token");
    expect(asked.map(({ path }) => path)).toEqual(["/sts", impersonated]);
  });

  it("is requested once, and again only when it is refused", async () => {
    const source = new TokenSource(readKeyFile(JSON.stringify(login())), Date.now);
    await Promise.all([source.token(), source.token()]);
    await source.token();
    expect(asked.length).toBe(1);
    source.refused("user-token");
    await source.token();
    expect(asked.length).toBe(2);
  });

  it("is not requested again automatically after a refusal, whose reason is reported", async () => {
    answers["/token"] = { status: 400, json: { error: "invalid_grant", error_description: "Token has been revoked." } };
    await expect(tokenOf(login())).rejects.toMatchObject({
      code: "credential_refused",
      message: expect.stringMatching(/Token has been revoked.*gcloud auth application-default login/) as string,
    });
    expect(asked.length).toBe(1);
    answers["/token"] = { json: { access_token: "user-token", expires_in: 3_599 } };
    answers[impersonated] = { status: 403, json: { error: { code: 403, message: "Permission denied on actAs." } } };
    await expect(tokenOf(acting(login()))).rejects.toMatchObject({
      code: "credential_refused",
      message: expect.stringContaining(`${EMAIL}: Permission denied on actAs.`) as string,
    });
    answers["/sts"] = { status: 503, json: { error: "busy" } };
    await expect(tokenOf(identity())).rejects.toMatchObject({ code: "provider_error" });
  });

  it("is not requested over an unencrypted connection", () => {
    const cases = [
      login({ token_uri: "http://tokens.example/token" }),
      identity({ token_url: "http://sts.example/" }),
      identity({ credential_source: { url: "http://subjects.example/" } }),
      acting(login({ token_uri: "http://tokens.example/token" })),
    ];
    for (const file of cases)
      expect(() => readKeyFile(JSON.stringify(file))).toThrow(
        expect.objectContaining({
          code: "credential_refused",
          message: expect.stringMatching(/must begin with https/) as string,
        }),
      );
    // Within a machine of a cloud its address is plain http by nature.
    readKeyFile(JSON.stringify(identity({ credential_source: { url: "http://169.254.169.254/token" } })));
  });

  it("needs a complete credential", () => {
    expect(() => readKeyFile(JSON.stringify(login({ refresh_token: "" })))).toThrow(/has no refresh_token/);
    expect(() =>
      readKeyFile(JSON.stringify({ ...acting(login()), service_account_impersonation_url: `${url}/x` })),
    ).toThrow(/names no account/);
  });
});

describe("adc in place of a key file", () => {
  const read = (env: NodeJS.ProcessEnv = {}) =>
    readCredential("cloudvm", {
      home,
      env: { HOME: home, CLOUDVM_SERVICE_ACCOUNT_JSON: "adc", CLOUDVM_ZONE: "z", ...env },
    });

  it("is the file that a variable names, else the login of gcloud, else this machine's account", () => {
    expect(read({ CLOUDVM_PROJECT: "proj-2" }).credential?.secret).toBe('{"type":"compute_metadata"}');
    mkdirSync(join(home, ".config", "gcloud"), { recursive: true });
    writeFileSync(join(home, ".config", "gcloud", "application_default_credentials.json"), JSON.stringify(login()));
    const { credential } = read();
    expect(JSON.parse(credential?.secret ?? "")).toMatchObject({ type: "authorized_user" });
    expect(credential?.settings["project"]).toBe("proj-1");
    const named = join(home, "named.json");
    writeFileSync(named, JSON.stringify(identity()));
    expect(read({ GOOGLE_APPLICATION_CREDENTIALS: named, CLOUDVM_PROJECT: "p" }).credential?.secret).toContain(
      "external_account",
    );
    expect(() => read({ GOOGLE_APPLICATION_CREDENTIALS: join(home, "none") })).toThrow(
      /none, which GOOGLE_APPLICATION/,
    );
  });

  it("without a project says that one is missing", () => {
    expect(read().missing).toEqual([expect.stringContaining("CLOUDVM_PROJECT")]);
  });
});
