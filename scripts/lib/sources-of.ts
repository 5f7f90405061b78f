// Says which program a part of the campaign has tested: a digest of the files of svc that it loads. A commit of words, tests or of
// the dashboard does not change it, so results of several commits with one digest belong to one program.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { build } from "esbuild";
import type { Kept } from "./campaign-page.ts";

const ROOT = join(import.meta.dirname, "../..");

/** The runner is started on machines, and imported by nothing here. */
const runnerFiles = (): string[] =>
  readdirSync(join(ROOT, "runner"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("__pycache__"))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));

/** The digest of the part's program, as eight hexadecimal digits. */
export async function sourcesOf(part: Kept["part"]): Promise<string> {
  const simulated = part === "simulation";
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: [simulated ? "test/sim/batch.child.ts" : "src/cli/main.ts"],
    bundle: true,
    write: false,
    metafile: true,
    outdir: "unused",
    splitting: true,
    format: "esm",
    platform: "node",
    packages: "external",
    logLevel: "error",
  });
  const loaded = Object.keys(metafile.inputs).filter((file) => file.startsWith("src/"));
  const digest = createHash("sha256");
  for (const file of [...loaded, ...(simulated ? [] : runnerFiles())].sort())
    digest
      .update(`${file}\0`)
      .update(readFileSync(join(ROOT, file)))
      .update("\0");
  return digest.digest("hex").slice(0, 8);
}
