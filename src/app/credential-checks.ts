// Checks with the hub, the tracker and the object stores whether a credential works, whose it is and what it allows.
// Providers are checked by their own `account`.

import { createHash, createHmac } from "node:crypto";
import { z } from "zod";
import { SvcError } from "../errors/index.ts";
import { ProviderHttp, type HttpAnswer } from "../providers/http.ts";
import { readKeyFile, USER_AGENT } from "../providers/cloudvm/auth.ts";
import { TokenSource } from "../providers/cloudvm/tokens.ts";
import type { ServiceName } from "../schemas/credential-blocks.ts";
import type { CredentialCheck } from "../schemas/credentials.ts";
import type { Places } from "../secrets/read-credential.ts";
import { readHub, readObjstore, readTracker } from "../secrets/services.ts";

const TIMEOUT_MS = 20_000;
const WORDS_MAX = 200;
const CHAIN =
  "no keys are set: the default credential chain of each machine is used, which svc cannot check from this computer";

const refusedBy = (provider: string, why: string): SvcError => new SvcError("credential_refused", { provider, why });
const missingFor = (provider: string, missing: string): SvcError =>
  new SvcError("credential_missing", { provider, missing });
const oddAnswer = (provider: string, why: string): SvcError => new SvcError("provider_error", { provider, why });

const http = (provider: ServiceName, baseUrl: string): ProviderHttp =>
  new ProviderHttp({ provider, baseUrl, timeoutMs: TIMEOUT_MS, maxBytes: 4 * 1024 * 1024, userAgent: USER_AGENT });

/** A message from another program, on one line. */
const plain = (words: string): string =>
  words
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, WORDS_MAX);

/** @throws `credential_missing`, `credential_refused`, `provider_unreachable`, `provider_error` */
export function askService(name: ServiceName, places: Places): Promise<CredentialCheck> {
  return { hub: askHub, tracker: askTracker, objstore_a: askObjstoreA, objstore_b: askObjstoreB }[name](places);
}

const WhoAmI = z.object({
  name: z.string(),
  auth: z
    .object({ accessToken: z.object({ role: z.string().optional() }).optional() })
    .optional()
    .catch(undefined),
});

async function askHub(places: Places): Promise<CredentialCheck> {
  const { token, url } = readHub(places);
  if (token === null) throw missingFor("hub", "no token is set");
  const headers = { authorization: `Bearer ${token}` };
  const answer = await http("hub", url).call({ method: "GET", path: "/api/whoami-v2", headers });
  if (answer.status === 401 || answer.status === 403)
    throw refusedBy("hub", `it does not know the token (status ${answer.status})`);
  const body = WhoAmI.safeParse(answer.json());
  if (answer.status !== 200 || !body.success) throw oddAnswer("hub", `status ${answer.status} in place of the account`);
  const role = body.data.auth?.accessToken?.role;
  const may: Record<string, string[]> = {
    read: ["read"],
    write: ["read", "write"],
    fineGrained: ["as its fine-grained permissions say"],
  };
  const warnings = role === "fineGrained" ? ["gated models need the right to read gated repositories"] : [];
  return { account: plain(body.data.name), may: may[role ?? ""] ?? [], balance_usd: null, warnings };
}

const Viewer = z.object({
  data: z.object({
    viewer: z.object({ username: z.string().nullish(), entity: z.string().nullish() }).nullable(),
  }),
});

async function askTracker(places: Places): Promise<CredentialCheck> {
  const { apiKey, entity, url } = readTracker(places);
  if (apiKey === null) throw missingFor("tracker", "no api_key is set");
  const headers = { authorization: `Basic ${Buffer.from(`api:${apiKey}`).toString("base64")}` };
  const query = "query Viewer { viewer { id entity username teams { edges { node { name } } } } }";
  const json = { operationName: "Viewer", query, variables: {} };
  const answer = await http("tracker", url).call({ method: "POST", path: "/graphql", headers, json });
  if (answer.status === 401 || answer.status === 403)
    throw refusedBy("tracker", `it does not know the key (status ${answer.status})`);
  const body = Viewer.safeParse(answer.json());
  if (answer.status !== 200 || !body.success)
    throw oddAnswer("tracker", `status ${answer.status} in place of the account`);
  const { viewer } = body.data.data;
  if (viewer === null) throw refusedBy("tracker", "it knows no account for the key");
  const own = viewer.entity ?? viewer.username ?? "";
  const warnings =
    entity !== null && own !== "" && entity !== own
      ? [`runs go to ${entity}, which must be a team of ${plain(own)}`]
      : [];
  return { account: plain(viewer.username ?? own) || null, may: ["write runs"], balance_usd: null, warnings };
}

async function askObjstoreA(places: Places): Promise<CredentialCheck> {
  const given = readObjstore("objstore_a", places);
  const { accessKeyId, secretAccessKey } = given;
  if (accessKeyId === null || secretAccessKey === null)
    return { account: null, may: [], balance_usd: null, warnings: [CHAIN] };
  const region = given.region ?? "us-east-1";
  const base = given.url ?? `https://s3.${region}.amazonaws.com`;
  const client = http("objstore_a", base);
  const path = "/";
  const keys = { accessKeyId, secretAccessKey, sessionToken: given.sessionToken };
  const signedPath = `${client.base.pathname.replace(/\/+$/, "")}${path}`;
  const headers = signedHeaders({ host: client.base.host, path: signedPath, region, keys, at: new Date() });
  const answer = await client.call({ method: "GET", path, headers });
  const code = /<Code>([A-Za-z]{1,60})<\/Code>/.exec(answer.text)?.[1] ?? null;
  const account = `access key ${accessKeyId}`;
  if (answer.status === 200 && /<ListAllMyBucketsResult/.test(answer.text))
    return { account, may: ["list buckets"], balance_usd: null, warnings: [] };
  if (code === "AccessDenied")
    return {
      account,
      may: [],
      balance_usd: null,
      warnings: ["it may not list buckets; whether it may write to one shows when it does"],
    };
  if (code !== null && KEY_FAULTS.has(code)) throw refusedBy("objstore_a", `${code} (status ${answer.status})`);
  throw oddAnswer(
    "objstore_a",
    `status ${answer.status}${code === null ? "" : ` ${code}`} in place of its list of buckets`,
  );
}

const KEY_FAULTS = new Set([
  "InvalidAccessKeyId",
  "SignatureDoesNotMatch",
  "ExpiredToken",
  "InvalidToken",
  "TokenRefreshRequired",
]);

/** Version 4 signature of a request without a body. */
function signedHeaders(o: {
  host: string;
  path: string;
  region: string;
  keys: { accessKeyId: string; secretAccessKey: string; sessionToken: string | null };
  at: Date;
}): Record<string, string> {
  const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
  const mac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();
  const stamp = o.at.toISOString().replace(/[-:]|\.\d{3}/g, "");
  const day = stamp.slice(0, 8);
  const headers: Record<string, string> = {
    host: o.host,
    "x-amz-content-sha256": sha(""),
    "x-amz-date": stamp,
    ...(o.keys.sessionToken === null ? {} : { "x-amz-security-token": o.keys.sessionToken }),
  };
  const names = Object.keys(headers).toSorted();
  const signed = names.join(";");
  const canonical = ["GET", o.path, "", ...names.map((n) => `${n}:${headers[n]}`), "", signed, sha("")].join("\n");
  const scope = `${day}/${o.region}/s3/aws4_request`;
  const key = [day, o.region, "s3", "aws4_request"].reduce<string | Buffer>(mac, `AWS4${o.keys.secretAccessKey}`);
  const signature = mac(key, ["AWS4-HMAC-SHA256", stamp, scope, sha(canonical)].join("\n")).toString("hex");
  const authorization = `AWS4-HMAC-SHA256 Credential=${o.keys.accessKeyId}/${scope}, SignedHeaders=${signed}, Signature=${signature}`;
  return { ...headers, authorization };
}

async function askObjstoreB(places: Places): Promise<CredentialCheck> {
  const { serviceAccountJson, project, url } = readObjstore("objstore_b", places);
  if (serviceAccountJson === null) return { account: null, may: [], balance_usd: null, warnings: [CHAIN] };
  const account = readKeyFile(serviceAccountJson);
  const token = await new TokenSource(account, Date.now).token();
  const of = project ?? account.project;
  const known = { account: account.email, balance_usd: null };
  if (of === null) return { ...known, may: [], warnings: ["no project is set, so svc did not list its buckets"] };
  const headers = { authorization: `Bearer ${token}` };
  const answer: HttpAnswer = await http("objstore_b", url).call({
    method: "GET",
    path: "/storage/v1/b",
    query: { project: of, maxResults: 1 },
    headers,
  });
  if (answer.status === 200) return { ...known, may: ["list buckets"], warnings: [] };
  if (answer.status === 401)
    throw refusedBy("objstore_b", "it does not accept the token of the service account (status 401)");
  if (answer.status === 403)
    return {
      ...known,
      may: [],
      warnings: [`it may not list the buckets of ${of}; whether it may write to one shows when it does`],
    };
  throw oddAnswer("objstore_b", `status ${answer.status} in place of its list of buckets`);
}
