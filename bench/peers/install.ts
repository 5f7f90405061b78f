// Installs each program into a Python environment of its own, as its documentation says, and measures room and time.

import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run, type Name, type Ran } from "./contestant.ts";

export interface Installed {
  name: Name;
  version: string;
  /** Room beyond that of an empty environment. */
  mb: number;
  /** Null where the time was not taken. */
  seconds: number | null;
  /** Packages that pip lists, itself left out. */
  packages: number;
  /** `--version` as a whole process, after a first one that is not counted. */
  versionMs: number[];
  versionCpuMs: number[];
}

const ROOT = join(import.meta.dirname, "../..");
const WANTED = { SkyPilot: "skypilot[runpod]==0.14.1", dstack: "dstack[server]==0.22.5" } as const;
const COMMANDS = { svc: "svc", SkyPilot: "sky", dstack: "dstack" } as const;
const FOLDERS = { svc: "svc", SkyPilot: "skypilot", dstack: "dstack" } as const;
const LIMIT_MS = 20 * 60_000;
const STARTS = 5;

export async function install(venvs: string): Promise<Installed[]> {
  mkdirSync(venvs, { recursive: true });
  const done: Installed[] = [];
  for (const name of ["svc", "SkyPilot", "dstack"] as const) {
    const folder = join(venvs, FOLDERS[name]);
    const pip = join(folder, "bin/pip");
    const { mb, seconds } = await made(folder, name);
    const listed = await must(pip, ["list", "--format=freeze"]);
    const packages = listed.out
      .split("\n")
      .filter((line) => /^[\w.-]+==/.test(line) && !/^(pip|setuptools)==/.test(line));
    const command = join(folder, "bin", COMMANDS[name]);
    const versionMs: number[] = [];
    const versionCpuMs: number[] = [];
    let version = "";
    for (let start = 0; start <= STARTS; start++) {
      const asked = await must(command, ["--version"]);
      version = /\d+\.\d+\.\d+/.exec(asked.out)?.[0] ?? "";
      if (start === 0) continue;
      versionMs.push(asked.ms);
      versionCpuMs.push(asked.cpuMs);
    }
    done.push({ name, version, mb, seconds, packages: packages.length, versionMs, versionCpuMs });
    console.error(`${name} ${version}: ${mb} MB in ${seconds?.toFixed(0) ?? "?"} s`);
  }
  return done;
}

/** Makes an environment, or takes a whole one of an earlier call, with the figures that belong to it. */
async function made(folder: string, name: Name): Promise<Pick<Installed, "mb" | "seconds">> {
  const note = join(folder, "installed.json");
  if (existsSync(note)) return JSON.parse(readFileSync(note, "utf8")) as Pick<Installed, "mb" | "seconds">;
  rmSync(folder, { recursive: true, force: true });
  await must("python3", ["-m", "venv", folder]);
  const empty = await megabytes(folder);
  const wanted = name === "svc" ? await ourWheel() : WANTED[name];
  const { ms } = await must(join(folder, "bin/pip"), ["install", "--quiet", "--no-cache-dir", wanted]);
  const figures = { mb: (await megabytes(folder)) - empty, seconds: ms / 1_000 };
  writeFileSync(note, JSON.stringify(figures));
  return figures;
}

async function ourWheel(): Promise<string> {
  const newest = (): string | undefined => globSync(join(ROOT, "dist/svc-*.whl")).toSorted().at(-1);
  if (newest() === undefined) await must("npm", ["run", "--silent", "wheel"]);
  const path = newest();
  if (path === undefined || !existsSync(path)) throw new Error("npm run wheel made no wheel");
  return path;
}

async function megabytes(folder: string): Promise<number> {
  return Number(/^\d+/.exec((await must("du", ["-sm", folder])).out)?.[0]);
}

async function must(program: string, args: readonly string[]): Promise<Ran> {
  const env = { ...process.env, SKYPILOT_DISABLE_USAGE_COLLECTION: "1" };
  const ran = await run(program, args, { cwd: ROOT, env, limitMs: LIMIT_MS });
  if (ran.code !== 0) throw new Error(`${program} ${args.join(" ")}: ${ran.out.slice(-1_500)}`);
  return ran;
}
