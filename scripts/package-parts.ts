// The common parts of the npm package and the wheel: the TypeScript SDK with its types, and the licences of bundled
// packages.

import { spawnSync } from "node:child_process";
import { existsSync, globSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { build } from "esbuild";

export const ROOT = join(import.meta.dirname, "..");
const DIST = join(ROOT, "dist");
/** The maps of the program's bundle. */
export const PROGRAM_MAPS = ["cli.mjs.map", "chunks/*.map"];
/** vite bundles these and leaves no map to read: the dashboard's packages and their dependencies. */
const DASHBOARD_PACKAGES = ["react", "react-dom", "@xstate/store", "@xstate/store-react", "uplot"];

interface Manifest {
  name: string;
  version: string;
  license?: string;
  dependencies?: Record<string, string>;
}

export const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

/** The version of svc. Throws if the Python package or the changelog has another one. */
export function theVersion(): string {
  const { version } = readManifest(ROOT);
  const python = /^__version__ = "(.*)"$/m.exec(readFileSync(join(ROOT, "python", "svc", "__init__.py"), "utf8"))?.[1];
  if (python !== version)
    throw new Error(`package.json says ${version}, python/svc/__init__.py says ${python}: run \`npm run docs\`.`);
  if (!readFileSync(join(ROOT, "CHANGELOG.md"), "utf8").includes(`\n## ${version}`))
    throw new Error(`CHANGELOG.md has no entry for ${version}.`);
  return version;
}

/** Builds `dist/sdk/index.mjs`, and `dist/types` with the declarations that its own types need. */
export async function buildSdk(): Promise<void> {
  for (const folder of ["sdk", "types"]) rmSync(join(DIST, folder), { recursive: true, force: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: { index: "sdk/index.ts" },
    outdir: "dist/sdk",
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node22.14",
    external: ["zod"],
    sourcemap: "linked",
    sourcesContent: false,
    logLevel: "warning",
  });
  const tsc = spawnSync(process.execPath, [join(ROOT, "node_modules", "typescript", "bin", "tsc"), "-p", "sdk"], {
    cwd: ROOT,
    stdio: ["ignore", 2, 2],
  });
  if (tsc.status !== 0) throw new Error("The SDK's declarations could not be made; the compiler's words are above.");
  keepReachable(join(DIST, "types", "sdk", "index.d.ts"));
}

/** Names files as every compiler expects them (`.js`), and removes unreachable ones. */
function keepReachable(entry: string): void {
  const reached = new Set<string>();
  const visit = (file: string): void => {
    if (reached.has(file)) return;
    reached.add(file);
    const text = readFileSync(file, "utf8");
    const named = text
      .replaceAll(/(from |import\()"(\.[^"]+)\.ts"/g, '$1"$2.js"')
      // The compiler writes this one name of an enumeration in an invalid form.
      .replaceAll("[-Infinity]:", '"-Infinity":');
    if (named !== text) writeFileSync(file, named);
    for (const [, , path] of named.matchAll(/(from |import\()"(\.[^"]+)\.js"/g))
      visit(resolve(dirname(file), `${path}.d.ts`));
  };
  visit(entry);
  const types = join(DIST, "types");
  for (const name of globSync("**/*.d.ts", { cwd: types }))
    if (!reached.has(join(types, name))) rmSync(join(types, name));
}

/** The licence of every package in the dashboard, and in the bundles whose maps in `dist/` match. */
export function thirdPartyNotices(maps: readonly string[]): string {
  const folders = new Set(DASHBOARD_PACKAGES.flatMap((name) => [...withDependencies(name)]));
  for (const map of globSync(maps, { cwd: DIST })) {
    const { sources } = JSON.parse(readFileSync(join(DIST, map), "utf8")) as { sources: string[] };
    for (const source of sources) {
      const path = relative(ROOT, resolve(DIST, dirname(map), source)).replaceAll("\\", "/");
      const folder = /^.*node_modules\/(@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0];
      if (folder) folders.add(folder);
    }
  }
  const sections = [...folders].toSorted().map((folder) => {
    const { name, version, license } = readManifest(join(ROOT, folder));
    const file = readdirSync(join(ROOT, folder)).find((each) => /^licen[cs]e(\.|$)/i.test(each));
    const text = file
      ? readFileSync(join(ROOT, folder, file), "utf8").trim()
      : `Licence: ${license ?? "see the package"}`;
    return `${name} ${version}\n\n${text}\n`;
  });
  return sections.join(`\n${"-".repeat(80)}\n\n`);
}

function withDependencies(name: string, found = new Set<string>()): Set<string> {
  const folder = `node_modules/${name}`;
  if (found.has(folder) || !existsSync(join(ROOT, folder))) return found;
  found.add(folder);
  for (const each of Object.keys(readManifest(join(ROOT, folder)).dependencies ?? {})) withDependencies(each, found);
  return found;
}
