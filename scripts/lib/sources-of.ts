// Says which program a part of the campaign has tested: a digest of what runs in the files of svc that it loads. A commit of comments,
// types, documentation, tests, the dashboard or a command that the part does not run keeps it, so results with one digest belong to
// one program.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { build, transform, type Plugin } from "esbuild";
import type { Kept } from "./campaign-page.ts";

const ROOT = join(import.meta.dirname, "../..");

/** The runner is started on machines, and imported by nothing here. */
const runnerFiles = (): string[] =>
  readdirSync(join(ROOT, "runner"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("__pycache__"))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));

/** The first file of the program of each part. */
const ENTRY: Record<Kept["part"], string> = {
  simulation: "test/sim/batch.child.ts",
  kills: "src/cli/main.ts",
  calls: "src/cli/main.ts",
  matrix: "test/rented/control-plane.child.ts",
  preemptions: "test/rented/control-plane.child.ts",
  budgets: "test/rented/control-plane.child.ts",
};

/** `svc` loads one command at a time, and the parts that start it as a process run `svc serve`. */
const onlyServe: Plugin = {
  name: "only svc serve",
  setup: (to) =>
    to.onResolve({ filter: /^\.\// }, ({ importer, path }) =>
      importer === join(ROOT, "src/cli/commands/index.ts") && path !== "./serve.ts" ? { path, external: true } : null,
    ),
};

/** Kills and calls have runs of this computer alone: no function of a renting provider is called in them. */
const RENTING = /^src\/providers\/(?:podhost|market|cloudvm|notebook)\/(?!descriptor\.ts$)/;
const isLocal = (part: Kept["part"]): boolean => part === "kills" || part === "calls";

/** The code that runs: without comments, types, and blanks that no text contains. */
export async function codeOf(typescript: string): Promise<string> {
  return (await transform(typescript, { loader: "ts", minifyWhitespace: true, legalComments: "none" })).code;
}

/** The digest of the part's program, as eight hexadecimal digits. */
export async function sourcesOf(part: Kept["part"]): Promise<string> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [ENTRY[part]],
    bundle: true,
    write: false,
    metafile: true,
    outdir: "unused",
    splitting: true,
    format: "esm",
    platform: "node",
    packages: "external",
    plugins: [onlyServe],
    logLevel: "error",
  });
  const loaded = Object.keys(metafile.inputs).filter(
    (file) => file.startsWith("src/") && !(isLocal(part) && RENTING.test(file)),
  );
  const digest = createHash("sha256");
  for (const file of [...loaded, ...(part === "simulation" ? [] : runnerFiles())].sort()) {
    const bytes = readFileSync(join(ROOT, file));
    digest
      .update(`${file}\0`)
      .update(file.endsWith(".ts") ? await codeOf(bytes.toString()) : bytes)
      .update("\0");
  }
  return digest.digest("hex").slice(0, 8);
}
