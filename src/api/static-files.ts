// The files of the dashboard and of the documentation. The paths are known at start: no text from a caller ever becomes a
// path on disk.

import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyReply, FastifyRequest } from "fastify";
import { collectDocs, NOT_A_PAGE, type DocsFolders } from "./documentation.ts";
import { staticFile, type Source } from "./static-file.ts";

export type StaticFiles = ReadonlyMap<string, Source>;

const NOT_BUILT = `<!doctype html><html lang="en"><meta charset="utf-8"><title>svc</title>
<h1>The dashboard is not built</h1>
<p>The control plane is running and its API answers. To build the dashboard, run <code>npm run setup</code> in the
checkout and start <code>svc serve</code> again. Until then, <code>svc jobs</code> and <code>svc logs -f JOB</code> show your runs.</p>
</html>
`;

const FILES_MAX = 2_000;

/** Every plain file under `directory`; without one, a page that says how to build it. */
export function loadStatic(directory: string | null, docs: DocsFolders | null = null): StaticFiles {
  const files = new Map<string, Source>();
  if (docs !== null) collectDocs(docs, files);
  if (directory !== null) collect(directory, "", files);
  if (!files.has("/index.html")) files.set("/index.html", staticFile("/index.html", Buffer.from(NOT_BUILT)));
  return files;
}

function collect(directory: string, prefix: string, files: Map<string, Source>): void {
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
      files.set(`${prefix}/${name}`, staticFile(`${prefix}/${name}`, readFileSync(path)));
  }
}

/**
 * Answers with a file, or with the page shell if a person opens a page of the dashboard. Returns false if it is
 * neither.
 */
export function serveStatic(files: StaticFiles, path: string, request: FastifyRequest, reply: FastifyReply): boolean {
  if (request.method !== "GET" && request.method !== "HEAD") return false;
  const accept = request.headers.accept ?? "";
  const found = files.get(isShell(path, accept) ? "/index.html" : path);
  const missing =
    !found && path.startsWith("/docs/") && accept.includes("text/html") ? files.get(NOT_A_PAGE) : undefined;
  const source = found ?? missing;
  const file = typeof source === "function" ? source() : source;
  if (!file) return false;
  void reply.headers({ "cache-control": file.cacheControl, etag: file.etag, "content-type": file.type });
  if (file.policy) void reply.header("content-security-policy", file.policy);
  const held = (request.headers["if-none-match"] ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (missing) void reply.code(404).send(file.body);
  else if (held.includes(file.etag)) void reply.code(304).send();
  else void reply.code(200).send(file.body);
  return true;
}

/** API paths never return the shell: a mistyped path must not look like an answer. */
function isShell(path: string, accept: string): boolean {
  if (path === "/") return true;
  if (/^\/(jobs|v1|docs)(\/|$)/.test(path)) return false;
  return accept.includes("text/html") && /^(\/[\w~@:-]+)+\/?$/.test(path);
}
