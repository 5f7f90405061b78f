// A simulated empty computer: a separate home, and a PATH with everything but Node and Python.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  watch,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { DEADLINE_MS } from "../deadline.ts";

/** For a build, or an installation from a registry: minutes on a busy computer. */
const CALL_MS = 8 * DEADLINE_MS;
export const ROOT = join(import.meta.dirname, "../..");
/** Names that an empty computer does not have. */
const ABSENT = /^(node|nodejs|npm|npx|corepack|svc|python|pip|pydoc|idle|uv)([0-9.x-].*)?$/;
/** Settings that tell pip and npm where this computer's registries are, and what a proxy needs. */
const CARRIED =
  /^(PIP_|NPM_CONFIG_|npm_config_|SSL_|REQUESTS_|NODE_EXTRA_CA|HTTPS?_PROXY|NO_PROXY|https?_proxy|no_proxy)/;

export interface Computer {
  folder: string;
  /** The environment of a program on it, with `first` at the beginning of the PATH. */
  env(first?: readonly string[]): Record<string, string>;
  remove(): void;
}

export function emptyComputer(): Computer {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "svc packages ")));
  const tools = join(folder, "tools");
  for (const each of ["tools", "home", "project"]) mkdirSync(join(folder, each));
  for (const from of ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"])
    for (const name of existsSync(from) ? readdirSync(from) : [])
      if (!ABSENT.test(name) && !existsSync(join(tools, name))) link(join(from, name), join(tools, name));
  const carried = Object.entries(process.env).filter(([name, value]) => CARRIED.test(name) && value !== undefined);
  const base = Object.fromEntries(carried) as Record<string, string>;
  return {
    folder,
    env: (first = []) => ({
      ...base,
      HOME: join(folder, "home"),
      SVC_HOME: join(folder, "svc home"),
      LANG: "C.UTF-8",
      PATH: [...first, tools].join(delimiter),
    }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function link(from: string, to: string): void {
  try {
    symlinkSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/**
 * The current sources, in a separate folder, so that later edits of the checkout do not change them during the test,
 * and `dist/` of the checkout stays unchanged. The folder is inside the checkout, so that the copy of its packages
 * needs no space.
 */
export function copyOfSources(): { folder: string; another(): string; remove(): void } {
  const around = join(ROOT, ".cache", `packages ${process.pid}`);
  const folder = join(around, "checkout");
  for (const path of must(["git", "ls-files", "-z", "-co", "--exclude-standard"], { cwd: ROOT }).split("\0")) {
    if (path === "" || !existsSync(join(ROOT, path))) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    copyFileSync(join(ROOT, path), join(folder, path));
  }
  must(["cp", "-al", join(ROOT, "node_modules"), join(folder, "node_modules")]);
  return {
    folder,
    /** Another copy of the same sources, without a build. */
    another: () => {
      const other = join(around, "another checkout");
      must(["cp", "-al", folder, other]);
      for (const built of ["dist", "dashboard/dist"]) rmSync(join(other, built), { recursive: true, force: true });
      return other;
    },
    remove: () => rmSync(around, { recursive: true, force: true }),
  };
}

export interface Ended {
  code: number | null;
  out: string;
  err: string;
}

export function call(
  argv: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; input?: string } = {},
): Ended {
  const [program = "", ...args] = argv;
  const done = spawnSync(program, args, { ...options, encoding: "utf8", timeout: CALL_MS, maxBuffer: 2 ** 26 });
  return { code: done.status, out: done.stdout ?? "", err: done.error ? String(done.error) : done.stderr };
}

/** Like `call`, for a command that must succeed; returns its output. */
export function must(argv: readonly string[], options: Parameters<typeof call>[1] = {}): string {
  const done = call(argv, options);
  if (done.code !== 0) throw new Error(`${argv.join(" ")} ended with ${done.code}:\n${done.out}${done.err}`);
  return done.out;
}

export interface Started {
  child: ChildProcess;
  ended: Promise<Ended>;
}

export function start(argv: readonly string[], options: { env: NodeJS.ProcessEnv; cwd: string }): Started {
  const [program = "", ...args] = argv;
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => (out += part));
  child.stderr.setEncoding("utf8").on("data", (part: string) => (err += part));
  const ended = new Promise<Ended>((done) => {
    child.once("error", (error) => done({ code: null, out, err: String(error) }));
    child.once("close", (code) => done({ code, out, err }));
  });
  return { child, ended };
}

/** Resolves with the content of a file as soon as the file has any; rejects if `started` ends before. */
export async function appears(path: string, started: Started): Promise<string> {
  const watcher = watch(join(path, ".."));
  const gone = started.ended.then((end) => {
    throw new Error(`It ended before ${path} was there:\n${end.out}${end.err}`);
  });
  try {
    for (;;) {
      const changed = new Promise((done) => watcher.once("change", done));
      const text = existsSync(path) ? readFileSync(path, "utf8") : "";
      if (text.endsWith("\n")) return text.trim();
      await Promise.race([changed, gone]);
    }
  } finally {
    watcher.close();
    gone.catch(() => {});
  }
}

/** Two scripts: one logs; the other writes its process id into `started` and waits to be ended. */
export const TRAIN = `import svc
svc.log({"loss": 0.25}, step=1)
print("trained with", svc.__version__)
`;
export const ENDLESS = `import os, signal
with open("pid.part", "w") as file:
    file.write("%d\\n" % os.getpid())
os.rename("pid.part", "started")
while True:
    signal.pause()
`;
