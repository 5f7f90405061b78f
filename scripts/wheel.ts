// Makes dist/svc-VERSION-py3-none-any.whl: `npm run wheel`. The Python package with the built program in `svc/_plane`:
//
//   svc/                        the modules of `import svc`, and the console script's launcher
//   svc/_plane/dist             the program, bundled            svc/_plane/dashboard/dist   the pages that it serves
//   svc/_plane/node_modules     better-sqlite3, with its native parts for every platform
//   share/man/man1/svc.1        the manual page
//   svc/_plane/runner           what supervises a run           svc/_plane/python           the package, for the machines
//
// W1. The same sources make the same bytes: fixed times and modes, sorted entries, every tool of an exact version.
// W2. It writes only to dist/ and .cache/; a wheel appears under its name only when it is complete.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, cpSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { buildSite, SiteError } from "./lib/build-site.ts";
import { NoPythonTools, pythonWith } from "./lib/python-tools.ts";
import { PROGRAM_MAPS, readManifest, ROOT, theVersion, thirdPartyNotices } from "./package-parts.ts";

/** hatchling, and its dependencies. */
const TOOLS = [
  "hatchling==1.33.0",
  "packaging==26.3",
  "pathspec==1.1.1",
  "pluggy==1.7.0",
  "tomlkit==0.15.2",
  "trove-classifiers==2026.9.21.13",
];
const CACHE = join(ROOT, ".cache");

/** A virtual environment's `share/man` is where `man` looks for the programs of its `bin`. */
const MANUAL = '\n[tool.hatch.build.targets.wheel.shared-data]\n"man/svc.1" = "share/man/man1/svc.1"\n';

class WheelError extends Error {}

/**
 * Copies the files that match, keeping their paths below `from`. Throws when there are none: an incomplete wheel is
 * useless.
 */
function take(from: string, patterns: readonly string[], to: string): void {
  for (const pattern of patterns) {
    const paths = globSync(pattern, { cwd: join(ROOT, from), exclude: (name) => name === "__pycache__" });
    const files = paths.filter((path) => !/[\\/]__pycache__[\\/]|\.(pyc|map)$/.test(path));
    if (files.length === 0)
      throw new WheelError(`${from}/${pattern} names no file. Run \`npm run build\` and try again.`);
    for (const path of files) {
      mkdirSync(dirname(join(to, path)), { recursive: true });
      cpSync(join(ROOT, from, path), join(to, path), { recursive: true });
    }
  }
}

function stage(version: string, folder: string): void {
  const python = ["svc/**/*.py", "svc/py.typed"];
  take("python", ["pyproject.toml", "README.md", ...python], folder);
  take(".", ["LICENSE"], folder);
  take("dist", ["man/svc.1"], folder);
  // Not in the checkout's own pyproject.toml, because `pip install -e python` needs no build.
  appendFileSync(join(folder, "pyproject.toml"), MANUAL);
  const plane = join(folder, "svc", "_plane");
  take(
    ".",
    [
      "LICENSE",
      "CHANGELOG.md",
      "dist/cli.mjs",
      "dist/chunks/*.mjs",
      "dist/sim/*",
      "dist/site/**/*.*",
      "docs/**/*.md",
      "runner/**/*.py",
      "examples/digits/*.*",
    ],
    plane,
  );
  take("dashboard", ["dist/*.*", "dist/assets/*"], join(plane, "dashboard"));
  take("python", python, join(plane, "python"));
  const native = "node_modules/better-sqlite3";
  take(native, ["package.json", "LICENSE", "lib/**/*.js", "prebuilds/*.node"], join(plane, native));
  writeFileSync(join(plane, "dist", "THIRD-PARTY.txt"), thirdPartyNotices(PROGRAM_MAPS));
  const { name } = readManifest(ROOT);
  const manifest = { name, version, private: true, type: "module" };
  writeFileSync(join(plane, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

function call(program: string, args: readonly string[], otherwise: string, cwd = ROOT): void {
  // Variables of the environment must not change the bytes.
  const env = { ...process.env, SOURCE_DATE_EPOCH: "1580601600", PYTHONDONTWRITEBYTECODE: "1" };
  const done = spawnSync(program, args, { cwd, env, encoding: "utf8" });
  if (done.status !== 0) process.stderr.write(`${done.stdout ?? ""}${done.stderr ?? ""}`);
  if (done.status !== 0) throw new WheelError(`${otherwise}${done.error ? ` (${done.error.message})` : ""}`);
}

function makeWheel(): string {
  const version = theVersion();
  buildSite();
  const folder = join(CACHE, `wheel.${process.pid}`);
  rmSync(folder, { recursive: true, force: true });
  try {
    mkdirSync(folder, { recursive: true });
    stage(version, folder);
    const out = join(folder, "out");
    call(
      pythonWith("wheel-tools", TOOLS),
      ["-m", "hatchling", "build", "-t", "wheel", "-d", out],
      "hatchling failed; see above.",
      folder,
    );
    const name = `svc-${version}-py3-none-any.whl`;
    renameSync(join(out, name), join(ROOT, "dist", name));
    return join("dist", name);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  const path = makeWheel();
  const bytes = readFileSync(join(ROOT, path));
  const digest = createHash("sha256").update(bytes).digest("hex");
  console.log(`${path}  ${(bytes.length / 2 ** 20).toFixed(1)} MiB  sha256:${digest}`);
} catch (error) {
  if (error instanceof NoPythonTools) console.error(`The tools that make the wheel are not there: ${error.message}.`);
  else if (error instanceof WheelError || error instanceof SiteError) console.error(error.message);
  else throw error;
  process.exitCode = 1;
}
