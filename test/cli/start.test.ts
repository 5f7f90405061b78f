// What a command loads before it does anything. Node takes a quarter of a millisecond for each file, and the library of the schemas
// alone takes as long to load as Node itself.

import { build, stop, type Metafile } from "esbuild";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { allCommands, commandsFor } from "../../src/cli/commands/index.ts";

afterAll(() => stop());

const ROOT = join(import.meta.dirname, "../..");

/** The packages and modules of Node that a file imports, itself or through others, without what it loads later. */
async function loadedWith(...files: string[]): Promise<string[]> {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: files,
    outdir: "unused",
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "node",
    packages: "external",
  });
  const found = new Set<string>();
  const walked = new Set<string>();
  const walk = (file: string, { inputs }: Metafile): void => {
    if (walked.has(file)) return;
    walked.add(file);
    for (const { path, kind, external } of inputs[file]?.imports ?? [])
      if (kind !== "import-statement") continue;
      else if (external) found.add(path);
      else walk(path, metafile);
  };
  for (const file of files) walk(file, metafile);
  return [...found].toSorted();
}

test("`svc jobs` loads neither the library of the schemas nor what measures emoji, and no encryption", async () => {
  expect(await loadedWith("src/cli/program.ts", "src/cli/commands/jobs.ts")).toEqual([
    "cac",
    "node:fs",
    "node:module",
    "node:os",
    "node:path",
  ]);
});

test("a command is loaded alone where its name comes first, and is the same as in the list", async () => {
  for (const command of await allCommands()) {
    const [alone, ...others] = await commandsFor([command.name, "--help"]);
    expect(alone?.summary).toBe(command.summary);
    expect(alone?.name).toBe(command.name);
    expect(others).toEqual([]);
  }
});

test("all commands are loaded where the first word is another, and none for the version", async () => {
  const all = await allCommands();
  for (const words of [[], ["--help"], ["--json", "jobs"], ["job"], ["help", "jobs"], ["--version", "jobs"]])
    expect(await commandsFor(words)).toHaveLength(all.length);
  expect(await commandsFor(["--version"])).toEqual([]);
});
