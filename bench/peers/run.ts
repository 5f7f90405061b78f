// Measures svc, SkyPilot and dstack side by side and writes docs/quality/side-by-side.md: `node bench/peers/run.ts`. README.md says how.
//
//   --only install|figures|leaks|page  one part; the page is written from all that --keep has
//   --keep DIR                    keeps environments, logs and results there, and uses what is there
//   --rounds N                    rounds of every timed figure (5)
//   --rows A,B                    rows of the lists (0,1000,20000)
//   --leak-rounds N               rounds of every fault (1)
//   --faults A,B                  these faults alone, by the names in leaks.ts
//   --at-once N                   faults at the same time (4)
//
// Root on Linux: every measurement runs in a network of its own that has nothing but loopback.

import { spawn } from "node:child_process";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { NAMES, type Name } from "./contestant.ts";
import type { Figures } from "./figures.ts";
import { install, type Installed } from "./install.ts";
import { CASE_NAMES, type CaseName, type Outcome } from "./leaks.ts";
import { pageOf, type Results } from "./page.ts";

const { values: options } = parseArgs({
  options: {
    only: { type: "string" },
    keep: { type: "string" },
    rounds: { type: "string", default: "5" },
    rows: { type: "string", default: "0,1000,20000" },
    "leak-rounds": { type: "string", default: "1" },
    faults: { type: "string" },
    "at-once": { type: "string", default: "4" },
  },
});
const PARTS = ["install", "figures", "leaks", "page"];
if (options.only !== undefined && !PARTS.includes(options.only)) {
  console.error(`--only takes ${PARTS.join(", ")}`);
  process.exit(2);
}
if (process.platform !== "linux" || process.getuid?.() !== 0) {
  console.error("The side-by-side measurement needs root on Linux: it gives every program a network of its own.");
  process.exit(2);
}

const PAGE = join(import.meta.dirname, "../../docs/quality/side-by-side.md");
const FIGURES_LIMIT_MS = 60 * 60_000;
const LEAK_LIMIT_MS = 60 * 60_000;
const dir = options.keep ?? mkdtempSync(join(tmpdir(), "svc-peers-"));
mkdirSync(dir, { recursive: true });
const venvs = join(dir, "venvs");
const wants = (part: string): boolean => options.only === undefined || options.only === part;

try {
  if (wants("install")) writeFileSync(join(dir, "install.json"), JSON.stringify(await install(venvs), null, 2));
  if (wants("figures"))
    for (const name of ["svc", "dstack", "SkyPilot"] as const)
      await apart("figures", [name, options.rounds, options.rows], `figures-${name}`, FIGURES_LIMIT_MS);
  if (wants("leaks")) for (let round = 1; round <= Number(options["leak-rounds"]); round++) await leaks(round);
  const installed = join(dir, "install.json");
  const results: Results = {
    machine: `${cpus().length} x ${cpus()[0]?.model ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    install: existsSync(installed) ? (JSON.parse(readFileSync(installed, "utf8")) as Installed[]) : [],
    figures: logged<Figures>("figures-"),
    leaks: logged<Outcome>("leak-"),
  };
  writeFileSync(PAGE, pageOf(results));
  console.log(`Written: ${PAGE}; load ${loadavg()[0]?.toFixed(1)} at the end.`);
} finally {
  if (options.keep === undefined) rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
}

async function leaks(round: number): Promise<void> {
  const named = options.faults?.split(",");
  const chosen = CASE_NAMES.filter((fault) => named === undefined || named.includes(fault));
  // One fault after the other, its three programs next to each other: a busy minute strikes all three.
  const left: [Name, CaseName][] = chosen.flatMap((fault) => NAMES.map((name): [Name, CaseName] => [name, fault]));
  const worker = async (): Promise<void> => {
    for (let next = left.shift(); next; next = left.shift()) {
      const [name, fault] = next;
      try {
        await apart("leaks", [name, fault], `leak-${round}-${fault}-${name}`, LEAK_LIMIT_MS);
      } catch (error) {
        console.error(`${name}, ${fault}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: Number(options["at-once"]) }, worker));
}

/** Runs a file of this folder in a network and a process table of its own; its last line is its value, which the log keeps. */
function apart(file: string, args: readonly string[], folder: string, limitMs: number): Promise<void> {
  const own = join(dir, folder);
  const log = join(dir, `${folder}.log`);
  if (existsSync(log) && valueOf(readFileSync(log, "utf8")) !== null) return Promise.resolve();
  rmSync(own, { recursive: true, force: true });
  mkdirSync(own, { recursive: true });
  const script = join(import.meta.dirname, `${file}.ts`);
  // A session of its own: a program that ends its process group must not reach this one, which such a signal would.
  const inside = ["-c", 'ip link set lo up && exec setsid "$@"', "--", process.execPath, script, ...args, own, venvs];
  const child = spawn("unshare", ["--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", ...inside], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  const take = (text: string): void => void (out += text);
  child.stdout.setEncoding("utf8").on("data", take);
  child.stderr.setEncoding("utf8").on("data", take);
  console.error(`${folder} begins`);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      writeFileSync(log, out);
      const value = code === 0 ? valueOf(out) : null;
      console.error(`${folder} ended: ${value === null ? `code ${code}` : JSON.stringify(value)}`);
      if (value !== null) resolve();
      else reject(new Error(`it ended with ${code}: ${out.slice(-1_500)}`));
    });
  });
}

/** The value of the last line of an output. */
function valueOf(out: string): unknown {
  const json = /^(?:figures|outcome): (.+)$/.exec(out.trimEnd().split("\n").at(-1) ?? "")?.[1];
  return json === undefined ? null : JSON.parse(json);
}

/** The values of all logs whose names begin so. */
function logged<T>(begin: string): T[] {
  return readdirSync(dir)
    .filter((name) => name.startsWith(begin) && name.endsWith(".log"))
    .toSorted()
    .map((name) => valueOf(readFileSync(join(dir, name), "utf8")) as T | null)
    .filter((value) => value !== null);
}
