// A strict double of Google Cloud Storage's JSON API, with the token address of its service account.

import { createHash, createVerify, generateKeyPairSync, randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { StoreDouble, type Held, type Request } from "./store-faults.ts";

const GRAIN = 256 * 1024;
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";

interface Session {
  key: string;
  facts: { md5Hash?: string; metadata?: Record<string, string>; contentType?: string };
  size: number;
  pieces: Buffer[];
}

const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });

export class GcsDouble extends StoreDouble {
  readonly sessions = new Map<string, Session>();
  readonly bucket: string;
  readonly tokens = new Set<string>();

  constructor(bucket = "bucket") {
    super();
    this.bucket = bucket;
  }

  /** The key file of an account with write access. */
  get keyFile(): string {
    return JSON.stringify({
      type: "service_account",
      project_id: "project",
      private_key_id: "1",
      client_email: "svc@project.iam.gserviceaccount.com",
      private_key: keys.privateKey.export({ type: "pkcs8", format: "pem" }),
      token_uri: `${this.url}/token`,
    });
  }

  protected nameOf(request: IncomingMessage, url: URL): { what: string; key: string } {
    const { pathname, searchParams: query } = url;
    if (pathname === "/token") return { what: "token", key: "" };
    const session = this.sessions.get(query.get("upload_id") ?? "");
    if (query.has("upload_id")) {
      const asks = /\*\/\d+$/.test(String(request.headers["content-range"]));
      const what = request.method === "DELETE" ? "cancel" : asks ? "status" : "piece";
      return { what, key: session?.key ?? "" };
    }
    if (pathname.startsWith("/upload/"))
      return { what: query.get("uploadType") === "resumable" ? "begin" : "insert", key: query.get("name") ?? "" };
    const key = decodeURIComponent(/\/o\/(.+)$/.exec(pathname)?.[1] ?? "");
    return { what: query.get("alt") === "media" ? "download" : "get", key };
  }

  protected refuse(response: ServerResponse, status: number, code: string, message: string): void {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: { code: status, message, errors: [{ reason: code, message }] } }));
  }

  protected answer(asked: Request): void {
    const { request, response, url, what } = asked;
    if (what === "token") return this.#token(asked);
    if (url.searchParams.has("upload_id")) return this.#inSession(asked);
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
    if (!this.tokens.has(token)) return this.refuse(response, 401, "authError", "Invalid Credentials");
    if (!new RegExp(`/b/${this.bucket}/o`).test(url.pathname))
      return this.refuse(response, 404, "notFound", "The specified bucket does not exist.");
    if (what === "insert") return this.#insert(asked);
    if (what === "begin") return this.#begin(asked);
    const held = this.objects.get(asked.key);
    if (!held) return this.refuse(response, 404, "notFound", `No such object: ${asked.key}`);
    if (what === "get") return send(response, 200, factsOf(asked.key, held));
    response.writeHead(200, { "content-type": held.contentType });
    response.end(held.bytes);
  }

  #token({ response, body }: Request): void {
    const form = new URLSearchParams(body.toString("utf8"));
    if (form.get("grant_type") === "refresh_token") {
      if (form.get("refresh_token") !== "good") return send(response, 400, { error: "invalid_grant" });
      return this.#grant(response);
    }
    const assertion = form.get("assertion") ?? "";
    const [header = "", claims = "", signature = ""] = assertion.split(".");
    const told = JSON.parse(Buffer.from(claims, "base64url").toString() || "{}") as { aud?: string; scope?: string };
    const good = createVerify("RSA-SHA256")
      .update(`${header}.${claims}`)
      .verify(keys.publicKey, Buffer.from(signature, "base64url"));
    if (!good || told.aud !== `${this.url}/token` || told.scope !== SCOPE)
      return send(response, 400, { error: "invalid_grant", error_description: "Invalid JWT Signature." });
    this.#grant(response);
  }

  #grant(response: ServerResponse): void {
    const access_token = `ya29.${randomUUID()}`;
    this.tokens.add(access_token);
    send(response, 200, { access_token, expires_in: 3_600, token_type: "Bearer" });
  }

  #insert({ request, response, key, body, fault }: Request): void {
    const boundary = /boundary=(\S+)/.exec(request.headers["content-type"] ?? "")?.[1] ?? "";
    const text = body.toString("latin1");
    const [, first = "", second = ""] = text.split(`--${boundary}`);
    const facts = JSON.parse(first.slice(first.indexOf("\r\n\r\n") + 4)) as Session["facts"];
    const content = Buffer.from(second.slice(second.indexOf("\r\n\r\n") + 4, -2), "latin1");
    this.#keep(response, key, content, facts, fault?.do);
  }

  #begin({ request, response, key, body }: Request): void {
    const id = randomUUID();
    const facts = JSON.parse(body.toString("utf8")) as Session["facts"];
    const size = Number(request.headers["x-upload-content-length"]);
    this.sessions.set(id, { key, facts, size, pieces: [] });
    response.writeHead(200, { location: `${this.url}/upload/storage/v1/b/${this.bucket}/o?upload_id=${id}` });
    response.end();
  }

  #inSession({ request, response, url, what, body, fault }: Request): void {
    const id = url.searchParams.get("upload_id") ?? "";
    const session = this.sessions.get(id);
    if (!session) return this.refuse(response, 404, "notFound", "There is no such session");
    if (request.headers.authorization) return this.refuse(response, 400, "invalid", "a session needs no token");
    if (what === "cancel") {
      this.sessions.delete(id);
      response.writeHead(499);
      return void response.end();
    }
    const had = session.pieces.reduce((sum, piece) => sum + piece.length, 0);
    const kept = this.objects.get(session.key);
    if (kept && session.pieces.length > 0 && had === session.size)
      return send(response, 200, factsOf(session.key, kept));
    if (what === "piece") {
      const [, from, to, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(String(request.headers["content-range"])) ?? [];
      const whole = Number(to) + 1 === session.size;
      if (Number(from) !== had || Number(total) !== session.size || Number(to) - Number(from) + 1 !== body.length)
        return this.refuse(response, 400, "invalid", `${had} bytes are here`);
      if (!whole && body.length % GRAIN !== 0)
        return this.refuse(response, 400, "invalid", "not a multiple of 256 KiB");
      session.pieces.push(body);
      if (whole) return this.#keep(response, session.key, Buffer.concat(session.pieces), session.facts, fault?.do);
    }
    const has = session.pieces.reduce((sum, piece) => sum + piece.length, 0);
    response.writeHead(308, has > 0 ? { range: `bytes=0-${has - 1}` } : {});
    response.end();
  }

  #keep(response: ServerResponse, key: string, content: Buffer, facts: Session["facts"], fault?: string): void {
    const bytes = fault === "spoil" ? Buffer.concat([content.subarray(1), Buffer.from("!")]) : content;
    const md5Hash = createHash("md5").update(bytes).digest("base64");
    if (facts.md5Hash !== undefined && facts.md5Hash !== md5Hash && fault === undefined)
      return this.refuse(response, 400, "invalid", `Provided MD5 hash "${facts.md5Hash}" doesn't match "${md5Hash}"`);
    const held = { bytes, metadata: facts.metadata ?? {}, contentType: facts.contentType ?? "" };
    this.objects.set(key, held);
    const told = factsOf(key, held);
    send(response, 200, fault === "wrong etag" ? { ...told, md5Hash: "AAAAAAAAAAAAAAAAAAAAAA==" } : told);
  }
}

const factsOf = (name: string, { bytes, metadata, contentType }: Held) => ({
  kind: "storage#object",
  name,
  contentType,
  metadata,
  size: String(bytes.length),
  md5Hash: createHash("md5").update(bytes).digest("base64"),
});

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json; charset=UTF-8" });
  response.end(JSON.stringify(body));
}
