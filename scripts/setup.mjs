// Makes a fresh checkout ready, then runs the given file:  node scripts/setup.mjs [--build|--no-build] [-- file
// args...]
//
// npm starts this file with the machine's Node, so it needs no package and no syntax newer than Node 20.
//
// S1. If nothing has changed since the last time, it starts no child process and ends within a fraction of a second.
// S2. Packages come from the lock alone; which registry serves them is the machine's own npm configuration.
// S3. A state only counts if it was completed: npm writes its own list last, and the build stamp is written last.
// S4. Two set-ups of one checkout wait for each other.

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { npmEnvironment } from "./lib/npm-environment.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const NODE_NEEDED = [22, 14];
/** The inputs of the build. A change in any of these files means a new build. */
const BUILD_INPUTS = [
  "src",
  "sdk",
  "dashboard",
  "runner",
  "python",
  "test/sim/machines",
  "test/sim/providers",
  "test/sim/serve.ts",
  "scripts/build.ts",
  "package-lock.json",
  "tsconfig.json",
];
const BUILD_SKIPPED = new Set(["node_modules", "dist", "__pycache__"]);
const BUILD_STAMP = join(ROOT, "dist", ".inputs");

class SetupError extends Error {}

function say(line) {
  process.stderr.write(`setup: ${line}\n`);
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Whether node_modules has the lock's packages. npm writes its own list at the very end, so an incomplete install has
 * none.
 */
function packagesAreCurrent() {
  const wanted = readJson(join(ROOT, "package-lock.json"))?.packages;
  const present = readJson(join(ROOT, "node_modules", ".package-lock.json"))?.packages;
  if (!wanted) throw new SetupError("package-lock.json is missing or not readable. Check the file out again.");
  if (!present) return false;
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === "") continue;
    const have = present[path];
    if (have ? have.version !== entry.version || have.integrity !== entry.integrity : !entry.optional) return false;
  }
  return Object.keys(present).every((path) => wanted[path] !== undefined);
}

function installPackages() {
  say("installing packages (this happens once, and takes some 20 seconds)");
  // npm must not run on the Node that it is about to replace.
  const env = npmEnvironment(ROOT);
  // No package runs a script: native parts come built. npm would rebuild better-sqlite3 only because of its
  // binding.gyp, which needs a compiler and Node's headers from the network.
  const args = ["ci", "--ignore-scripts", "--include=dev", "--include=optional", "--loglevel=error", "--no-progress"];
  const done = spawnSync("npm", args, { cwd: ROOT, env, stdio: ["ignore", "ignore", "inherit"] });
  if (done.error)
    throw new SetupError(`npm could not be started (${done.error.message}). Install npm, or put it on the PATH.`);
  if (done.status !== 0)
    throw new SetupError("npm ci failed; its own words are above. Correct that and run the same command again.");
}

function isNewEnough(version) {
  const [major, minor] = version.replace(/^v/, "").split(".").map(Number);
  return major > NODE_NEEDED[0] || (major === NODE_NEEDED[0] && minor >= NODE_NEEDED[1]);
}

/** Some versions of npm (such as 10) unpack the Node package without its link. */
function linkPackagedNode() {
  const link = join(ROOT, "node_modules", ".bin", "node");
  const binary = `node-${process.platform}-${process.arch}/bin/node`;
  if (existsSync(link) || !existsSync(join(ROOT, "node_modules", binary))) return;
  rmSync(link, { force: true });
  symlinkSync(`../${binary}`, link);
}

/** The Node of the packages, else the machine's own if it is new enough. */
export function nodeBinary() {
  const packaged = join(ROOT, "node_modules", ".bin", "node");
  if (existsSync(packaged)) return packaged;
  if (isNewEnough(process.version)) return process.execPath;
  throw new SetupError(
    `Node ${NODE_NEEDED.join(".")} or newer is needed; this is ${process.version}, and none comes with the packages for ` +
      `${process.platform}-${process.arch}. Install a newer Node and run the same command again.`,
  );
}

/** Both are native code: their presence proves little, so each does a little work. */
function proveNativeParts() {
  const script = `const D = require("better-sqlite3"); new D(":memory:").exec("create table t(a)"); console.log(process.version)`;
  const node = nodeBinary();
  const done = spawnSync(node, ["-e", script], { cwd: ROOT, encoding: "utf8" });
  const version = (done.stdout ?? "").trim();
  if (done.status !== 0 || !isNewEnough(version)) {
    const why =
      (done.error?.message ?? done.stderr ?? "").trim().split("\n").at(-1) ||
      `it ended with ${done.status ?? done.signal}`;
    throw new SetupError(`${node} does not work with better-sqlite3 on this machine: ${why}.`);
  }
  if (spawnSync("python3", ["--version"], { stdio: "ignore" }).status !== 0) {
    say(
      "no python3 was found: the control plane works, but no Python script will run on this machine until it is installed",
    );
  }
  return version;
}

/** A digest of every file that the build reads, by name and content. */
function hashOfInputs() {
  const hash = createHash("sha256");
  const visit = (path) => {
    const full = join(ROOT, path);
    let entries;
    try {
      entries = readdirSync(full, { withFileTypes: true });
    } catch (error) {
      if (error.code === "ENOENT") return;
      if (error.code !== "ENOTDIR") throw error;
      hash.update(`${path}\0`).update(readFileSync(full)).update("\0");
      return;
    }
    entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      if (BUILD_SKIPPED.has(entry.name) || entry.name.endsWith(".pyc")) continue;
      const child = `${path}/${entry.name}`;
      if (entry.isDirectory()) visit(child);
      else if (entry.isFile())
        hash
          .update(`${child}\0`)
          .update(readFileSync(join(ROOT, child)))
          .update("\0");
    }
  };
  for (const input of BUILD_INPUTS) visit(input);
  return hash.digest("hex");
}

function readText(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function build(inputs) {
  say("building");
  rmSync(BUILD_STAMP, { force: true });
  const done = spawnSync(nodeBinary(), ["scripts/build.ts"], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
  if (done.status !== 0) throw new SetupError("the build failed; its own words are above.");
  mkdirSync(join(ROOT, "dist"), { recursive: true });
  writeFileSync(BUILD_STAMP, inputs);
}

/** Holds a lock file with our pid during `work`; ignores a holder that is no longer alive. */
function alone(work) {
  const folder = join(ROOT, ".cache");
  const lock = join(folder, "setup.lock");
  const mine = join(folder, `setup.${process.pid}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(mine, String(process.pid));
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  try {
    // A link appears together with its content, so a reader never finds a lock without a pid.
    for (let told = false; !linked(mine, lock); Atomics.wait(sleeper, 0, 0, 200)) {
      const holder = Number(readText(lock));
      if (!isAlive(holder)) rmSync(lock, { force: true });
      else if (!told) {
        told = true;
        say(`another set-up of this checkout is under way (pid ${holder}); waiting for it`);
      }
    }
  } finally {
    rmSync(mine, { force: true });
  }
  try {
    return work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function linked(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

function isAlive(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** `when-changed` builds if an input has changed; `always` always builds; `never` does not build. */
export function setup(buildWanted = "when-changed") {
  if (process.platform === "win32") throw new SetupError("a checkout works on Linux and macOS; on Windows use WSL.");
  const stale = () => buildWanted !== "never" && (buildWanted === "always" || readText(BUILD_STAMP) !== hashOfInputs());
  const current = packagesAreCurrent();
  if (current) linkPackagedNode();
  if (current && !stale()) return;
  alone(() => {
    // Checked again: another holder of the lock may have finished the work.
    if (!packagesAreCurrent()) {
      installPackages();
      linkPackagedNode();
      say(`packages are in place, with Node ${proveNativeParts()}`);
    }
    if (stale()) build(hashOfInputs());
  });
}

/**
 * Runs a file on our Node in place of this process: same terminal, same signals, same exit. `-e CODE` runs code
 * instead. Tests learn whether the build matches these sources, because the build starts in a third of the time.
 */
function runInstead(file, args, built) {
  const node = nodeBinary();
  const env = { ...process.env, PATH: join(ROOT, "node_modules", ".bin") + delimiter + npmEnvironment(ROOT).PATH };
  if (built) env.SVC_TEST_BUILT = "1";
  else delete env.SVC_TEST_BUILT;
  const child = spawn(node, [file.startsWith("-") ? file : join(ROOT, file), ...args], {
    cwd: ROOT,
    env,
    stdio: "inherit",
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
    // A terminal sends Ctrl-C to the whole group; only signals to this process alone are passed on.
    process.on(signal, () => (signal === "SIGINT" && process.stdin.isTTY ? undefined : child.kill(signal)));
  }
  child.on("error", (error) => fail(`${node} could not be started: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

function fail(message) {
  process.stderr.write(`setup: ${message}\n`);
  process.exit(1);
}

function main(argv) {
  const divider = argv.indexOf("--");
  const flags = divider === -1 ? argv : argv.slice(0, divider);
  const [file, ...args] = divider === -1 ? [] : argv.slice(divider + 1);
  const unknown = flags.find((flag) => flag !== "--build" && flag !== "--no-build");
  if (unknown) fail(`unknown option ${unknown}; known are --build, --no-build and -- FILE ARGS`);
  try {
    const build = flags.includes("--build") ? "always" : flags.includes("--no-build") ? "never" : "when-changed";
    setup(build);
    if (file) runInstead(file, args, build !== "never");
    else say("ready");
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    fail(error.message);
  }
}

main(process.argv.slice(2));
