// The dashboard, read into memory at start: no text from a caller ever becomes a path on disk.

import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { docsPages } from "../platform/docs-pages.ts";
import type { FastifyReply, FastifyRequest } from "fastify";

interface StaticFile {
  body: Buffer;
  type: string;
  etag: string;
  cacheControl: string;
}

export type StaticFiles = ReadonlyMap<string, StaticFile>;

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
};

const NOT_BUILT = `<!doctype html><html lang="en"><meta charset="utf-8"><title>svc</title>
<h1>The dashboard is not built</h1>
<p>The control plane is running and its API answers. To build the dashboard, run <code>npm run setup</code> in the
checkout and start <code>svc serve</code> again. Until then, <code>svc jobs</code> and <code>svc logs -f JOB</code> show your runs.</p>
</html>
`;

const FILES_MAX = 2_000;

/** Every plain file under `directory`; without one, a page that says how to build it. */
export function loadStatic(directory: string | null, docs: string | null = null): StaticFiles {
  const files = new Map<string, StaticFile>();
  if (docs !== null) collectDocs(docs, files);
  if (directory !== null) collect(directory, "", files);
  if (!files.has("/index.html")) files.set("/index.html", entry("/index.html", Buffer.from(NOT_BUILT)));
  return files;
}

/**
 * The documentation in its Markdown source, `/docs/reference/cli.md` or `/docs/reference/cli`, and a list of its pages
 * at `/docs`.
 */
function collectDocs(folder: string, files: Map<string, StaticFile>): void {
  const pages = docsPages(folder);
  for (const page of pages) {
    const text = { ...entry(`/docs/${page}.md`, readFileSync(join(folder, `${page}.md`))), type: TYPES[".txt"] ?? "" };
    for (const path of [`/docs/${page}`, `/docs/${page}.md`]) files.set(path, text);
  }
  if (pages.length === 0) return;
  const links = pages.map((page) => `<li><a href="/docs/${page}.md">${page}</a></li>`).join("\n");
  const list = `<!doctype html><html lang="en"><meta charset="utf-8"><title>svc: documentation</title>
<h1>Documentation of svc</h1>
<p><a href="/">Dashboard</a> · <a href="/openapi.json">API description</a></p>
<ul>
${links}
</ul>
</html>
`;
  for (const path of ["/docs", "/docs/"])
    files.set(path, { ...entry(path, Buffer.from(list)), type: TYPES[".html"] ?? "" });
}

function collect(directory: string, prefix: string, files: Map<string, StaticFile>): void {
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch {
    return;
  }
  for (const name of names) {
    const path = join(directory, name);
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.isDirectory()) collect(path, `${prefix}/${name}`, files);
    else if (found?.isFile() && files.size < FILES_MAX)
      files.set(`${prefix}/${name}`, entry(`${prefix}/${name}`, readFileSync(path)));
  }
}

function entry(path: string, body: Buffer): StaticFile {
  return {
    body,
    type: TYPES[extname(path)] ?? "application/octet-stream",
    etag: `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`,
    // The build puts a hash of the content into the name of everything under assets/.
    cacheControl: path.startsWith("/assets/") ? "private, max-age=31536000, immutable" : "no-cache",
  };
}

/**
 * Answers with a file, or with the page shell if a person opens a page of the dashboard. Returns false if it is
 * neither.
 */
export function serveStatic(files: StaticFiles, path: string, request: FastifyRequest, reply: FastifyReply): boolean {
  if (request.method !== "GET" && request.method !== "HEAD") return false;
  const file = files.get(isShell(path, request.headers.accept ?? "") ? "/index.html" : path);
  if (!file) return false;
  void reply.headers({ "cache-control": file.cacheControl, etag: file.etag, "content-type": file.type });
  const known = (request.headers["if-none-match"] ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (known.includes(file.etag)) void reply.code(304).send();
  else void reply.code(200).send(file.body);
  return true;
}

/** API paths never return the shell: a mistyped path must not look like an answer. */
function isShell(path: string, accept: string): boolean {
  if (path === "/") return true;
  if (/^\/(jobs|v1|docs)(\/|$)/.test(path)) return false;
  return accept.includes("text/html") && /^(\/[\w~@:-]+)+\/?$/.test(path);
}
