// `npm run test:recipes`: the recipes of examples/ for real, with the packages they name. Not part of `npm test`: PyTorch and Ray
// are several gigabytes. They go into .cache/recipes-venv, once; SVC_RECIPES_PYTHON names an interpreter that has them already.
//
//   npm run test:recipes                   everything
//   npm run test:recipes -- ddp keras      some

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const VENV = join(ROOT, ".cache", "recipes-venv");
const RECIPES = ["ddp", "hf-trainer", "lightning", "accelerate", "keras", "ray-train"];
/** In addition to the recipes' packages: one test draws progress bars. */
const EXTRA = ["tqdm"];

function run(command: string, args: string[], env: Record<string, string> = {}): number {
  const cwd = join(ROOT, "test", "recipes");
  const done = spawnSync(command, args, { cwd, stdio: "inherit", env: { ...process.env, ...env } });
  if (done.error) console.error(`${command}: ${done.error.message}`);
  return done.status ?? 1;
}

/** The interpreter with the packages; created if missing, updated if a recipe names other packages. */
function interpreter(): string {
  const given = process.env["SVC_RECIPES_PYTHON"];
  if (given) return given;
  const python = join(VENV, "bin", "python");
  const files = RECIPES.map((name) => join(ROOT, "examples", name, "requirements.txt"));
  const wanted = createHash("sha256")
    .update(files.map((file) => readFileSync(file, "utf8")).join("\0"))
    .digest("hex");
  const stamp = join(VENV, ".filled");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return python;
  console.error("test:recipes: installing PyTorch, Ray and others into .cache/recipes-venv (once; about 7 GB)");
  mkdirSync(join(ROOT, ".cache"), { recursive: true });
  const packages = ["-m", "pip", "install", "--quiet", ...files.flatMap((file) => ["-r", file]), ...EXTRA];
  if (run("python3", ["-m", "venv", VENV]) !== 0 || run(python, packages) !== 0) process.exit(1);
  writeFileSync(stamp, wanted);
  return python;
}

const names = process.argv.slice(2);
const unknown = names.find((name) => !RECIPES.includes(name));
if (unknown !== undefined) {
  console.error(`There is no recipe called ${unknown}; there are ${RECIPES.join(", ")}.`);
  process.exit(2);
}
const chosen = names.length > 0 ? { SVC_TEST_RECIPES: names.join(",") } : {};
process.exitCode = run(interpreter(), ["-m", "unittest", "-v", "test_recipes"], chosen);
