import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

const SOURCE = join(import.meta.dirname, "../../docs");
const HTML = { accept: "text/html,*/*" };
const SCRIPT = "document.documentElement.classList.toggle('dark')";

/** A site as `npm run site` makes it: pages with an inline script, a hashed file, a page for unknown addresses. */
function site(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-site-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const page = (text: string): string =>
    `<!doctype html><script src="/docs/assets/app.js"></script><script id="x">${SCRIPT}</script><p>${text}</p>`;
  for (const name of ["guide", "reference/providers", "assets"]) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, "index.html"), page("start"));
  writeFileSync(join(folder, "404.html"), page("unknown"));
  writeFileSync(join(folder, "guide/quickstart.html"), page("first run"));
  writeFileSync(join(folder, "reference/providers/index.html"), page("providers"));
  writeFileSync(join(folder, "assets/app.1a2b.js"), "export {};");
  return folder;
}

it("The Markdown source is served with a list of its pages, and no other file", async () => {
  const { server } = await serve({ docs: { source: SOURCE, site: join(SOURCE, "none") } });
  const { port } = server;
  const list = await ask({ port, path: "/docs", headers: HTML });
  expect([list.status, list.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
  expect(list.text).toContain('<a href="/docs/guide/troubleshooting.md">');
  for (const path of ["/docs/reference/credentials.md", "/docs/reference/credentials"]) {
    const page = await ask({ port, path, headers: HTML });
    expect([page.status, page.headers["content-type"]]).toEqual([200, "text/plain; charset=utf-8"]);
    expect(page.text).toBe(readFileSync(join(SOURCE, "reference/credentials.md"), "utf8"));
  }
  for (const path of [
    "/docs/NONE.md",
    "/docs/quality/campaign.jsonl",
    "/docs/../package.json",
    "/docs/%2e%2e/README.md",
  ])
    expect((await ask({ port, path, headers: HTML })).status, path).toBe(404);
});

it("A built site answers at clean addresses, with the Markdown source next to it", async () => {
  const { server } = await serve({ docs: { source: SOURCE, site: site() } });
  const { port } = server;
  const text = async (path: string): Promise<string> => (await ask({ port, path, headers: HTML })).text;
  for (const path of ["/docs", "/docs/", "/docs/index.html"]) expect(await text(path), path).toContain("<p>start");
  for (const path of ["/docs/guide/quickstart", "/docs/guide/quickstart.html"])
    expect(await text(path), path).toContain("<p>first run");
  for (const path of ["/docs/reference/providers", "/docs/reference/providers/"])
    expect(await text(path), path).toContain("<p>providers");
  expect(await text("/docs/guide/quickstart.md")).toMatch(/^# First run/);
  const asset = await ask({ port, path: "/docs/assets/app.1a2b.js" });
  expect([asset.headers["content-type"], asset.headers["cache-control"]]).toEqual([
    "text/javascript; charset=utf-8",
    "private, max-age=31536000, immutable",
  ]);
});

it("A page of the site may run the inline scripts that it contains, and no others", async () => {
  const { server } = await serve({ docs: { source: SOURCE, site: site() } });
  const page = await ask({ port: server.port, path: "/docs/guide/quickstart", headers: HTML });
  const policy = String(page.headers["content-security-policy"]);
  const hash = createHash("sha256").update(SCRIPT).digest("base64");
  expect(policy).toContain(`script-src 'self' 'sha256-${hash}';`);
  expect(policy).toContain("style-src 'self' 'unsafe-inline';");
  expect(policy).toContain("frame-ancestors 'none'");
  const asset = await ask({ port: server.port, path: "/docs/assets/app.1a2b.js" });
  expect(asset.headers["content-security-policy"]).not.toContain("unsafe");
});

it("An unknown address of the site shows its page to a browser, and a problem to a program", async () => {
  const folder = site();
  const { server } = await serve({ docs: { source: SOURCE, site: folder } });
  const { port } = server;
  const page = await ask({ port, path: "/docs/nothing", headers: HTML });
  expect([page.status, page.text]).toEqual([404, expect.stringContaining("<p>unknown")]);
  const program = await ask({ port, path: "/docs/nothing" });
  expect([program.status, program.json.code]).toEqual([404, "not_found"]);
  // An upgrade in place removes files of the version that runs.
  rmSync(join(folder, "guide/quickstart.html"));
  expect((await ask({ port, path: "/docs/guide/quickstart.html" })).status).toBe(404);
});
