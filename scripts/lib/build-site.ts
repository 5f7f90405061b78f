// Makes dist/site, the documentation that the control plane serves at /docs. VitePress makes pages with a search from docs/,
// and RapiDoc shows the HTTP API. `npm run site`, `npm run wheel` and `npm pack` call it: the wheel and the npm package
// contain the result, and a checkout without it serves the Markdown files.
//
// D1. The packages of this build are not in the checkout's node_modules: scripts/site has a lock of its own.
// D2. The same sources make the same bytes; dist/site appears under its name only when it is complete.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { npmEnvironment } from "./npm-environment.mjs";

const ROOT = join(import.meta.dirname, "../..");
const OWN = join(ROOT, "scripts", "site");
/** The parts of the theme's own pages, and RapiDoc: the licences that the packages must contain. */
const SHIPPED = [
  "vitepress",
  "vue",
  "@vue/shared",
  "@vueuse/core",
  "focus-trap",
  "tabbable",
  "mark.js",
  "minisearch",
  "rapidoc",
];

/** The site could not be built; the message says why. */
export class SiteError extends Error {}

function call(program: string, args: readonly string[], cwd: string, otherwise: string, env = process.env): void {
  const done = spawnSync(program, args, { cwd, encoding: "utf8", env });
  if (done.status === 0) return;
  process.stderr.write(`${done.stdout ?? ""}${done.stderr ?? ""}`);
  throw new SiteError(`${otherwise}${done.error ? ` (${done.error.message})` : ""}`);
}

/** A folder with the packages of scripts/site, installed once for each lock. */
function tools(): string {
  const lock = readFileSync(join(OWN, "package-lock.json"));
  const folder = join(ROOT, ".cache", `site-tools-${createHash("sha256").update(lock).digest("hex").slice(0, 12)}`);
  const done = join(folder, "complete");
  if (existsSync(done)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of ["package.json", "package-lock.json"]) cpSync(join(OWN, name), join(folder, name));
  call(
    "npm",
    ["ci", "--ignore-scripts", "--loglevel=error"],
    folder,
    "npm could not install VitePress; its output is above.",
    npmEnvironment(ROOT),
  );
  writeFileSync(done, "");
  return folder;
}

/** Makes `dist/site`. Throws {@link SiteError}. */
export function buildSite(): void {
  const installed = tools();
  const work = join(installed, `work-${process.pid}`);
  const pages = join(work, "pages");
  try {
    cpSync(join(ROOT, "docs"), pages, { recursive: true });
    cpSync(join(OWN, "config.mjs"), join(pages, ".vitepress", "config.mjs"));
    cpSync(join(OWN, "theme.mjs"), join(pages, ".vitepress", "theme", "index.js"));
    for (const name of ["api.html", "api.css", "api.js"]) cpSync(join(OWN, name), join(pages, "public", name));
    const rapidoc = join(installed, "node_modules", "rapidoc", "dist", "rapidoc-min.js");
    cpSync(rapidoc, join(pages, "public", "rapidoc-min.js"));
    const vitepress = join(installed, "node_modules", "vitepress", "bin", "vitepress.js");
    call(
      process.execPath,
      [vitepress, "build", pages],
      work,
      "VitePress could not build the pages; its output is above.",
    );
    writeFileSync(join(work, "site", "THIRD-PARTY.txt"), notices(join(installed, "node_modules")));
    const site = join(ROOT, "dist", "site");
    rmSync(site, { recursive: true, force: true });
    renameSync(join(work, "site"), site);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function notices(modules: string): string {
  const sections = SHIPPED.map((name) => {
    const { version } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")) as { version: string };
    const file = ["LICENSE", "LICENSE.txt", "LICENSE.md"].find((each) => existsSync(join(modules, name, each)));
    if (!file) throw new SiteError(`${name} has no licence file.`);
    return `${name} ${version}\n\n${readFileSync(join(modules, name, file), "utf8").trim()}\n`;
  });
  return sections.join(`\n${"-".repeat(80)}\n\n`);
}
