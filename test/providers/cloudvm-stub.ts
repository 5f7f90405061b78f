// A scripted API for the tests of `cloudvm`: real HTTP on loopback, a real key, a token address that checks its input.
// It only gives the answers that a test has set; it records any other request in `unexpected`.

import { createPublicKey, generateKeyPairSync, verify, type KeyObject } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CloudvmProvider } from "../../src/providers/cloudvm/provider.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";

export const PROJECT = "lab-1";
export const ZONE = "us-central1-a";
export const MACHINE = "svc-abcd1234-job000000001-n0-1";
export const LOGIN_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample svc";

const pair = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
const publicKey: KeyObject = createPublicKey(pair.publicKey);
export const PRIVATE_KEY = pair.privateKey;

export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Record<string, string | string[] | undefined>;
  body: string;
}
export interface Answer {
  status?: number;
  json?: unknown;
  text?: string;
  headers?: Record<string, string>;
  /** Cuts the connection before any answer. */
  cut?: boolean;
}
type Answers = Answer | ((seen: Seen, nth: number) => Answer);

interface Route {
  method: string;
  path: RegExp;
  answers: Answers[];
  used: number;
}

export class CloudStub {
  readonly seen: Seen[] = [];
  readonly unexpected: string[] = [];
  /** Claims of every assertion that the token address has accepted. */
  readonly assertions: Record<string, unknown>[] = [];
  tokenAnswer: ((nth: number) => Answer) | null = null;
  tokensAsked = 0;
  nowMs = Date.now();
  /** The provider's waits, in milliseconds, in order. */
  readonly pauses: number[] = [];
  url = "";
  readonly #routes: Route[] = [];
  #server: Server | undefined;

  async listen(): Promise<this> {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const url = new URL(request.url ?? "/", this.url);
        const seen: Seen = {
          method: request.method ?? "",
          path: url.pathname,
          query: url.searchParams,
          headers: request.headers,
          body: Buffer.concat(chunks).toString("utf8"),
        };
        this.#answer(seen, response);
      });
    });
    await new Promise<void>((resolve) => this.#server?.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => this.#server?.close(resolve));
  }

  /**
   * Gives the answers in turn, and the last one for ever. A later script for the same requests replaces them. `path` is
   * below the project.
   */
  on(method: string, path: string, ...answers: Answers[]): this {
    const pattern = path
      .split("*")
      .map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"))
      .join("[^/]+");
    this.#routes.unshift({
      method,
      path: new RegExp(`^/compute/v1/projects/${PROJECT}${pattern}$`),
      answers,
      used: 0,
    });
    return this;
  }

  asked(method: string, path: RegExp): Seen[] {
    return this.seen.filter((seen) => seen.method === method && path.test(seen.path));
  }

  keyFile(change: Record<string, unknown> = {}): string {
    return JSON.stringify({
      type: "service_account",
      project_id: PROJECT,
      private_key_id: "k1",
      private_key: PRIVATE_KEY,
      client_email: `runs@${PROJECT}.example.com`,
      token_uri: `${this.url}/token`,
      ...change,
    });
  }

  provider(settings: Record<string, string> = {}, secret: () => string = () => this.keyFile()): CloudvmProvider {
    return new CloudvmProvider({
      credential: () => ({ secret: secret(), settings: { project: PROJECT, zone: ZONE, ...settings } }),
      baseUrl: this.url,
      publicKey: () => Promise.resolve(`${LOGIN_KEY}\n`),
      access: () => {
        throw new TypeError("no machine is reached in these tests");
      },
      now: () => this.nowMs,
      // The stub has its own time: waiting takes none.
      pause: (ms, signal) => {
        signal?.throwIfAborted();
        this.nowMs += ms;
        this.pauses.push(ms);
        return Promise.resolve();
      },
    });
  }

  #answer(seen: Seen, response: ServerResponse): void {
    if (seen.path === "/token") return send(response, this.#token(seen));
    this.seen.push(seen);
    if (!/^Bearer tok-\d+$/.test(String(seen.headers["authorization"])))
      return send(response, apiError(401, "authError", "Invalid Credentials"));
    const route = this.#routes.find((r) => r.method === seen.method && r.path.test(seen.path));
    if (!route) {
      this.unexpected.push(`${seen.method} ${seen.path}`);
      return send(response, { status: 501, text: "not scripted" });
    }
    const nth = route.used++;
    const answer = route.answers[Math.min(nth, route.answers.length - 1)] ?? {};
    send(response, typeof answer === "function" ? answer(seen, nth) : answer);
  }

  #token(seen: Seen): Answer {
    const nth = this.tokensAsked++;
    const form = new URLSearchParams(seen.body);
    const [head = "", claims = "", signature = ""] = (form.get("assertion") ?? "").split(".");
    const read = (part: string): Record<string, unknown> =>
      JSON.parse(Buffer.from(part, "base64url").toString("utf8")) as Record<string, unknown>;
    const wrong =
      form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:jwt-bearer" ||
      seen.headers["content-type"] !== "application/x-www-form-urlencoded" ||
      !verify("RSA-SHA256", Buffer.from(`${head}.${claims}`), publicKey, Buffer.from(signature, "base64url")) ||
      read(claims)["aud"] !== `${this.url}/token` ||
      read(head)["alg"] !== "RS256";
    if (wrong) return { status: 400, json: { error: "invalid_grant", error_description: "Invalid JWT Signature." } };
    this.assertions.push({ ...read(claims), kid: read(head)["kid"] });
    return this.tokenAnswer?.(nth) ?? { json: { access_token: `tok-${nth}`, expires_in: 3_599, token_type: "Bearer" } };
  }
}

function send(response: ServerResponse, answer: Answer): void {
  if (answer.cut) return void response.destroy();
  const html = answer.text?.startsWith("<") ?? false;
  const type = answer.text === undefined ? "application/json" : html ? "text/html" : "text/plain";
  response.writeHead(answer.status ?? 200, { "content-type": type, ...answer.headers });
  response.end(answer.text ?? JSON.stringify(answer.json ?? {}));
}

export const apiError = (status: number, reason: string, message: string): Answer => ({
  status,
  json: { error: { code: status, message, errors: [{ message, domain: "global", reason }] } },
});

export const notFound = (what = `zones/${ZONE}/instances/${MACHINE}`): Answer =>
  apiError(404, "notFound", `The resource 'projects/${PROJECT}/${what}' was not found`);

export const operation = (change: Record<string, unknown> = {}): Answer => ({
  json: {
    kind: "compute#operation",
    id: "9001",
    name: "operation-1",
    operationType: "insert",
    status: "DONE",
    targetId: "4200000000000000001",
    targetLink: `https://www.googleapis.com/compute/v1/projects/${PROJECT}/zones/${ZONE}/instances/${MACHINE}`,
    zone: ZONE,
    insertTime: "2026-10-01T10:00:00.000-07:00",
    ...change,
  },
});

export const failed = (...errors: Record<string, unknown>[]): Answer =>
  operation({ error: { errors }, httpErrorStatusCode: 503, httpErrorMessage: "SERVICE UNAVAILABLE" });

export const instance = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
  kind: "compute#instance",
  id: "4200000000000000001",
  name: MACHINE,
  status: "RUNNING",
  zone: `https://www.googleapis.com/compute/v1/projects/${PROJECT}/zones/${ZONE}`,
  labels: { "svc-owner": "abcd1234", "svc-job": "job000000001", "svc-node": "0" },
  networkInterfaces: [
    { name: "nic0", networkIP: "10.128.0.7", accessConfigs: [{ type: "ONE_TO_ONE_NAT", natIP: "203.0.113.9" }] },
  ],
  ...change,
});

export const handle = (extra: Record<string, string> = {}): MachineHandle => ({
  v: 1,
  provider: "cloudvm",
  id: "4200000000000000001",
  name: MACHINE,
  address: null,
  priceMicro: null,
  extra: { project: PROJECT, zone: ZONE, ...extra },
});

export const spec = (change: Partial<RunSpecInput> = {}): RunSpec =>
  RunSpec.parse({ entrypoint: "train.py", provider: "cloudvm", gpus: "L4:1", ...change });

export const never: AbortSignal = new AbortController().signal;
