// The documentation at `/docs`: the pages that `npm run site` made, with search; without them a list of the Markdown files.
// The Markdown source of a page is at `/docs/PAGE.md` in both cases.

import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../errors/index.ts";
import { docsPages } from "../platform/docs-pages.ts";
import { staticFile, type Source, type StaticFile } from "./static-file.ts";

export interface DocsFolders {
  /** The Markdown files. */
  source: string;
  /** The built pages; need not exist. */
  site: string;
}

/** The page for an address that no page has; answered with 404. */
export const NOT_A_PAGE = "/docs/404.html";

const INLINE_SCRIPT = /<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g;

/** Adds the addresses of the documentation to `files`. */
export function collectDocs(folders: DocsFolders, files: Map<string, Source>): void {
  const pages = docsPages(folders.source);
  for (const page of pages) {
    const source = (): StaticFile | null => readAs("/page.txt", join(folders.source, `${page}.md`));
    for (const path of [`/docs/${page}`, `/docs/${page}.md`]) files.set(path, source);
  }
  if (pages.length > 0) for (const path of ["/docs", "/docs/"]) files.set(path, listOf(pages));
  for (const name of globSync("**/*.*", { cwd: folders.site })) {
    const path = `/docs/${name.replaceAll("\\", "/")}`;
    const page = (): StaticFile | null => builtFile(path, join(folders.site, name));
    for (const each of addressesOf(path)) files.set(each, page);
  }
}

/** A page answers without its ending, and the first page of a folder at the folder. */
function addressesOf(path: string): string[] {
  if (!path.endsWith(".html")) return [path];
  const clean = path.slice(0, -".html".length);
  if (!clean.endsWith("/index")) return [path, clean];
  const folder = clean.slice(0, -"/index".length);
  return [path, folder, `${folder}/`];
}

/**
 * A page of the site may run the scripts that it contains, and no other inline script. VitePress and RapiDoc insert styles
 * when they run, so pages allow those. Other files keep the policy of every answer.
 */
function builtFile(path: string, file: string): StaticFile | null {
  const built = readAs(path, file);
  if (!built || !path.endsWith(".html")) return built;
  const scripts = [...built.body.toString().matchAll(INLINE_SCRIPT)].map(
    ([, text]) =>
      `'sha256-${createHash("sha256")
        .update(text ?? "")
        .digest("base64")}'`,
  );
  const policy =
    `default-src 'self'; script-src 'self' ${scripts.join(" ")}; style-src 'self' 'unsafe-inline'; ` +
    `img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`;
  return { ...built, policy };
}

function readAs(path: string, file: string): StaticFile | null {
  try {
    return staticFile(path, readFileSync(file));
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return null;
    throw cause;
  }
}

function listOf(pages: readonly string[]): StaticFile {
  const links = pages.map((page) => `<li><a href="/docs/${page}.md">${page}</a></li>`).join("\n");
  const list = `<!doctype html><html lang="en"><meta charset="utf-8"><title>svc: documentation</title>
<h1>Documentation of svc</h1>
<p><a href="/">Dashboard</a> · <a href="/v1/openapi.json">API description</a></p>
<ul>
${links}
</ul>
</html>
`;
  return staticFile("/docs/index.html", Buffer.from(list));
}
