// A hub on this computer, as strict as the real one: one port for the hub, another for the hosts that hold large files.
// It imports nothing of the product.
//
// D1. The second port refuses a request with a token, as signed addresses do, and records it.
// D2. Lists are paged, two entries a page, and the next page's address is absolute.
// D3. A missing and a hidden model get the same answer: 401 without a valid token.
// D4. A gated model shows its list and its README, and refuses every other file.
// D5. An address for a large file is signed for that file, and expires on request.

import { createHash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";

export interface Content {
  size: number;
  /** Name of the content, if it is kept outside of git. */
  sha256: string;
  oid: string;
  slice(from: number, to: number): Buffer;
}

const sha = (kind: "sha1" | "sha256", ...parts: (string | Buffer)[]): string => {
  const hash = createHash(kind);
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
};

export function content(of: string | Buffer): Content {
  const bytes = Buffer.from(of);
  return {
    size: bytes.length,
    sha256: sha("sha256", bytes),
    oid: sha("sha1", `blob ${bytes.length}\0`, bytes),
    slice: (from, to) => bytes.subarray(from, to),
  };
}

/** Content of any size that is never held in memory: one mebibyte again and again, each with its number in front. */
export function largeContent(size: number): Content {
  const block = randomBytes(1024 * 1024);
  const number = Buffer.alloc(4);
  const slice = (from: number, to: number): Buffer => {
    const end = Math.min(to, size);
    const out = Buffer.allocUnsafe(Math.max(0, end - from));
    for (let at = from; at < end;) {
      const begin = at % block.length;
      const length = Math.min(block.length - begin, end - at);
      block.copy(out, at - from, begin, begin + length);
      number.writeUInt32LE(Math.floor(at / block.length));
      if (begin < number.length) number.copy(out, at - from, begin, Math.min(number.length, begin + length));
      at += length;
    }
    return out;
  };
  const hash = createHash("sha256");
  for (let at = 0; at < size; at += block.length) hash.update(slice(at, at + block.length));
  const sha256 = hash.digest("hex");
  return { size, sha256, oid: sha("sha1", "pointer", sha256), slice };
}

export interface Repo {
  /** Branch or tag to commit. */
  refs: Map<string, string>;
  commits: Map<string, Map<string, { content: Content; lfs: boolean }>>;
  private: boolean;
  gated: boolean;
  /** Tokens of accounts that may see the model, or have access to its files. */
  admitted: Set<string>;
  /** The new name, if the model was renamed. */
  renamedTo: string | null;
}

export interface Asked {
  host: "hub" | "cdn";
  method: string;
  path: string;
  range: string | null;
  token: string | null;
}

/** Faults; each number counts down. */
export interface Faults {
  /** Bodies of large files end after so many bytes, without an error. */
  cutAfter: number[];
  /** One byte of a large file is changed. */
  wrong: number;
  /** Large files stall after their first part, or after `stallAt` bytes. */
  stall: number;
  stallAt: number;
  /** The server ignores the requested range, and sends the whole file. */
  ignoreRange: boolean;
  /** Answers 429, with the seconds to wait. */
  limit: { times: number; seconds: number };
  /** Signed addresses have expired before they are used. */
  expired: number;
  /** Answers 503 to every request. */
  down: number;
  /** Redirects every request to this address. */
  redirectTo: string | null;
}

const TOKENS = { alice: "hf_alice0000000000000000000000000000", bob: "hf_bob000000000000000000000000000000" };
const PART = 256 * 1024;

export class HubDouble {
  static readonly tokens = TOKENS;
  readonly repos = new Map<string, Repo>();
  readonly asked: Asked[] = [];
  readonly faults: Faults = {
    cutAfter: [],
    wrong: 0,
    stall: 0,
    stallAt: 0,
    ignoreRange: false,
    limit: { times: 0, seconds: 0 },
    expired: 0,
    down: 0,
    redirectTo: null,
  };
  /** Requests for files wait for this promise. */
  hold: Promise<void> | null = null;
  /** Becomes `hold` when a body is cut: a client that requests the rest waits. */
  holdOnceCut: Promise<void> | null = null;
  pageEntries = 2;
  xet = true;
  readonly #hub: Server;
  readonly #cdn: Server;
  readonly #signatures = new Map<string, Content>();
  #url = "";
  #cdnUrl = "";

  constructor() {
    this.#hub = createServer((request, response) => void this.#answer("hub", request, response));
    this.#cdn = createServer((request, response) => void this.#answer("cdn", request, response));
  }

  async listen(): Promise<this> {
    for (const server of [this.#hub, this.#cdn])
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    this.#url = `http://127.0.0.1:${(this.#hub.address() as AddressInfo).port}`;
    this.#cdnUrl = `http://127.0.0.1:${(this.#cdn.address() as AddressInfo).port}`;
    return this;
  }
  get url(): string {
    return this.#url;
  }
  async close(): Promise<void> {
    for (const server of [this.#hub, this.#cdn]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  repo(id: string): Repo {
    let repo = this.repos.get(id);
    if (!repo)
      this.repos.set(
        id,
        (repo = {
          refs: new Map(),
          commits: new Map(),
          private: false,
          gated: false,
          admitted: new Set(),
          renamedTo: null,
        }),
      );
    return repo;
  }

  /** Makes a commit of these files; large ones (by name) are kept outside of git. Resolves with its sha. */
  commit(id: string, files: Record<string, string | Buffer | Content>, branch = "main"): string {
    const entries = Object.entries(files).map(([path, of]) => {
      const made = typeof of === "string" || Buffer.isBuffer(of) ? content(of) : of;
      return [path, { content: made, lfs: /\.(safetensors|bin|gguf)$/.test(path) }] as const;
    });
    const commit = sha("sha1", JSON.stringify(entries.map(([path, { content: c }]) => [path, c.sha256])), branch);
    const repo = this.repo(id);
    repo.commits.set(commit, new Map(entries));
    repo.refs.set(branch, commit);
    return commit;
  }

  filesAsked(host?: "hub" | "cdn"): Asked[] {
    return this.asked.filter(
      ({ path, method, host: at }) =>
        method === "GET" && (host === undefined || host === at) && (at === "cdn" || path.includes("/resolve/")),
    );
  }

  async #answer(host: "hub" | "cdn", request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.#url);
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? null;
    const range = request.headers.range ?? null;
    const method = request.method ?? "";
    this.asked.push({ host, method, path: request.url ?? "", range, token });
    request.resume();
    try {
      if (method !== "GET" && method !== "HEAD") return refuse(response, 404, null, "Not found");
      if (this.hold && (host === "cdn" || url.pathname.includes("/resolve/"))) await this.hold;
      if (this.faults.down > 0 && this.faults.down--) return refuse(response, 503, null, "Service unavailable");
      if (host === "cdn") return await this.#large(url, token, request, response);
      if (this.faults.limit.times > 0) {
        this.faults.limit.times--;
        response.setHeader("ratelimit", `"api";r=0;t=${this.faults.limit.seconds}`);
        response.setHeader("ratelimit-policy", `"fixed window";"api";q=500;w=300`);
        return refuse(response, 429, null, "Too Many Requests");
      }
      if (token !== null && !Object.values(TOKENS).includes(token))
        return refuse(response, 401, null, "Invalid credentials in Authorization header");
      await this.#hubs(url, token, request, response);
    } catch {
      response.destroy();
    }
  }

  async #hubs(url: URL, token: string | null, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const api = /^\/api\/models\/([^/]+(?:\/[^/]+)?)\/(revision|tree)\/([^/]+)$/.exec(url.pathname);
    const file = /^\/([^/]+(?:\/[^/]+)?)\/resolve\/([^/]+)\/(.+)$/.exec(url.pathname);
    const id = decodeURIComponent(api?.[1] ?? file?.[1] ?? "");
    const repo = this.repos.get(id);
    if (repo?.renamedTo) {
      response.writeHead(307, { location: `${url.pathname.replace(`/${id}/`, `/${repo.renamedTo}/`)}${url.search}` });
      return void response.end();
    }
    if (!repo || (repo.private && !(token !== null && repo.admitted.has(token))))
      return token === null
        ? refuse(response, 401, "RepoNotFound", "Repository not found")
        : refuse(response, 404, "RepoNotFound", "Repository not found");
    const revision = decodeURIComponent(api?.[3] ?? file?.[2] ?? "");
    const commit = repo.refs.get(revision) ?? (repo.commits.has(revision) ? revision : undefined);
    const files = commit === undefined ? undefined : repo.commits.get(commit);
    if (commit === undefined || files === undefined)
      return refuse(response, 404, "RevisionNotFound", `Invalid rev id: ${revision}`);
    if (api?.[2] === "revision")
      return sendJson(response, {
        ...this.#info(id, repo, commit),
        siblings: [...files.keys()].map((rfilename) => ({ rfilename })),
      });
    if (api) return this.#tree(url, files, response);
    await this.#file({ id, repo, commit, files, path: decodeURIComponent(file?.[3] ?? "") }, token, request, response);
  }

  #info(id: string, repo: Repo, commit: string) {
    return {
      _id: "1",
      id,
      modelId: id,
      sha: commit,
      private: repo.private,
      gated: repo.gated ? "manual" : false,
      disabled: false,
      lastModified: "2026-01-02T03:04:05.000Z",
      tags: [],
      downloads: 0,
    };
  }

  #tree(url: URL, files: Repo["commits"] extends Map<string, infer F> ? F : never, response: ServerResponse): void {
    const folders = new Set(
      [...files.keys()].flatMap((path) => (path.includes("/") ? [path.slice(0, path.lastIndexOf("/"))] : [])),
    );
    const entries = [
      ...[...folders].map((path) => ({ type: "directory", oid: "0".repeat(40), size: 0, path })),
      ...[...files].map(([path, { content: c, lfs }]) => ({
        type: "file",
        oid: c.oid,
        size: c.size,
        path,
        ...(lfs
          ? {
              lfs: { oid: c.sha256, size: c.size, pointerSize: 134 },
              ...(this.xet ? { xetHash: sha("sha256", "xet", c.sha256) } : {}),
            }
          : {}),
      })),
    ];
    const from = Number(url.searchParams.get("cursor") ?? 0);
    const page = entries.slice(from, from + this.pageEntries);
    if (from + this.pageEntries < entries.length) {
      const next = new URL(url);
      next.searchParams.set("cursor", String(from + this.pageEntries));
      response.setHeader("link", `<${next.href}>; rel="next"`);
    }
    sendJson(response, page);
  }

  async #file(
    at: {
      id: string;
      repo: Repo;
      commit: string;
      files: Map<string, { content: Content; lfs: boolean }>;
      path: string;
    },
    token: string | null,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    response.setHeader("x-repo-commit", at.commit);
    if (this.faults.redirectTo !== null) {
      response.writeHead(302, { location: this.faults.redirectTo });
      return void response.end();
    }
    const found = at.files.get(at.path);
    if (!found) return refuse(response, 404, "EntryNotFound", "Entry not found");
    if (at.repo.gated && !/^(README|LICENSE)/.test(at.path) && !(token !== null && at.repo.admitted.has(token)))
      return refuse(
        response,
        token === null ? 401 : 403,
        "GatedRepo",
        `Access to model ${at.id} is restricted and you are not in the authorized list.`,
      );
    const { content: c, lfs } = found;
    if (!lfs) {
      if (!/\bidentity\b/.test(request.headers["accept-encoding"] ?? "")) {
        response.writeHead(200, { etag: `W/"${c.oid}"`, "content-encoding": "gzip", "content-type": "text/plain" });
        return void response.end(gzipSync(c.slice(0, c.size)));
      }
      response.setHeader("etag", `"${c.oid}"`);
      return this.#send(c, request, response, false);
    }
    const signature = randomBytes(12).toString("hex");
    this.#signatures.set(signature, c);
    response.writeHead(302, {
      location: `${this.#cdnUrl}/${c.sha256}?X-Signature=${signature}`,
      "x-linked-etag": `"${c.sha256}"`,
      "x-linked-size": String(c.size),
      ...(this.xet
        ? { "x-xet-hash": sha("sha256", "xet", c.sha256), link: `<${this.#url}/api/xet>; rel="xet-auth"` }
        : {}),
      "content-length": "0",
    });
    response.end();
  }

  async #large(url: URL, token: string | null, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (token !== null) return refuse(response, 400, null, "Only one auth mechanism allowed");
    const c = this.#signatures.get(url.searchParams.get("X-Signature") ?? "");
    if (!c || !url.pathname.endsWith(c.sha256) || (this.faults.expired > 0 && this.faults.expired--))
      return refuse(response, 403, null, "Request has expired");
    response.setHeader("etag", `"${c.sha256}"`);
    await this.#send(c, request, response, true);
  }

  async #send(c: Content, request: IncomingMessage, response: ServerResponse, faulty: boolean): Promise<void> {
    const asked = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const ranged = asked !== null && !(faulty && this.faults.ignoreRange);
    const from = ranged ? Number(asked[1]) : 0;
    const to = ranged && asked[2] !== "" ? Math.min(c.size, Number(asked[2]) + 1) : c.size;
    if (ranged && from >= c.size) {
      response.writeHead(416, { "content-range": `bytes */${c.size}` });
      return void response.end();
    }
    response.writeHead(ranged ? 206 : 200, {
      "content-length": String(to - from),
      "accept-ranges": "bytes",
      ...(ranged ? { "content-range": `bytes ${from}-${to - 1}/${c.size}` } : {}),
    });
    if (request.method === "HEAD") return void response.end();
    const cut = faulty ? this.faults.cutAfter.shift() : undefined;
    if (cut !== undefined) this.hold ??= this.holdOnceCut;
    const wrong = faulty && this.faults.wrong > 0 && this.faults.wrong-- > 0;
    const stall = faulty && this.faults.stall > 0 && this.faults.stall-- > 0;
    for (let at = from; at < to; at += PART) {
      let end = Math.min(at + PART, to);
      if (cut !== undefined && end - from > cut) end = Math.max(at, from + cut);
      const part = wrong ? Buffer.from(c.slice(at, end)).fill(0xff, 0, 8) : c.slice(at, end);
      if (part.length > 0 && !response.write(part)) await taken(response);
      if (response.destroyed) return;
      if (cut !== undefined && end - from >= cut && end < to) {
        await new Promise((resolve) => response.write("", resolve));
        return void response.destroy();
      }
      if (stall && end - from >= this.faults.stallAt) return;
    }
    response.end();
  }
}

/** Resolves when there is room again, or the connection is closed. */
function taken(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      response.off("drain", over).off("close", over);
      resolve();
    };
    response.once("drain", over).once("close", over);
  });
}

function refuse(response: ServerResponse, status: number, code: string | null, message: string): void {
  response.writeHead(status, {
    ...(code === null ? {} : { "x-error-code": code }),
    "x-error-message": message,
    "x-request-id": "Root=1-2-3",
    "content-type": "text/plain",
    date: new Date().toUTCString(),
  });
  response.end();
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify(value));
}
