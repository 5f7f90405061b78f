// Installs tools that are written in Python into a virtual environment of this checkout, once for each list of exact
// versions.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const CACHE = join(import.meta.dirname, "../../.cache");

/** The tools cannot be installed on this machine; the message says what is missing. */
export class NoPythonTools extends Error {}

/** The path of a Python that has exactly these packages, each with its version. The list includes all dependencies. */
export function pythonWith(name: string, packages: readonly string[]): string {
  const digest = createHash("sha256").update(packages.join()).digest("hex").slice(0, 12);
  const venv = join(CACHE, `${name}-${digest}`);
  const python = join(venv, "bin", "python");
  const done = join(venv, "complete");
  if (existsSync(done)) return python;
  mkdirSync(CACHE, { recursive: true });
  rmSync(venv, { recursive: true, force: true });
  run(
    "python3",
    ["-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))"],
    "they need Python 3.10 or newer with venv (python3-venv)",
  );
  run("python3", ["-m", "venv", venv], "a virtual environment could not be made");
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", ...packages];
  run(python, pip, "pip could not install them; its output is above");
  writeFileSync(done, "");
  return python;
}

function run(program: string, args: readonly string[], otherwise: string): void {
  const done = spawnSync(program, args, { encoding: "utf8" });
  if (done.status === 0) return;
  process.stderr.write(done.stderr ?? "");
  throw new NoPythonTools(otherwise);
}
