// Finds a Python for the runner and for scripts, if possible without starting one: asking an interpreter for its
// version costs 10 to 60 ms, which would delay every first log line.

import { execFile } from "node:child_process";
import { closeSync, openSync, readSync } from "node:fs";
import { access, constants, realpath, stat } from "node:fs/promises";
import { basename, delimiter, isAbsolute, join } from "node:path";
import { SvcError } from "../../errors/index.ts";

export interface Python {
  /** Absolute path of the interpreter itself, never of a wrapper script. */
  path: string;
  /** Such as `3.11`, or `3.11.7` if it had to be asked. */
  version: string;
}

const MINOR_MIN = 8;
const PROBE = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)";
const cache = new Map<string, Promise<Python | null>>();

/**
 * The Python named by `SVC_PYTHON`, else the first of `python3` and `python` on the PATH that is 3.8 or newer. Cached
 * per file and its modification time. Throws `python_missing`, which lists the tried paths.
 */
export async function findPython(env: Readonly<Record<string, string | undefined>>): Promise<Python> {
  const tried: string[] = [];
  for await (const candidate of candidates(env)) {
    tried.push(candidate);
    const python = await examine(candidate, env);
    if (python) return python;
  }
  const wanted = env["SVC_PYTHON"] ? `SVC_PYTHON=${env["SVC_PYTHON"]}` : "python3 and python on the PATH";
  throw new SvcError("python_missing", { tried: tried.length > 0 && !env["SVC_PYTHON"] ? tried.join(", ") : wanted });
}

/** The version of this very Python, however old it is; null if it does not answer as a Python. */
export async function askPython(
  path: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Python | null> {
  return (await fromName(path)) ?? (await probe(path, env));
}

async function* candidates(env: Readonly<Record<string, string | undefined>>): AsyncGenerator<string> {
  const named = env["SVC_PYTHON"];
  // A named Python is the only candidate: falling back would hide the mistake.
  const names = named ? [named] : ["python3", "python"];
  for (const name of names) {
    if (name.includes("/")) {
      if (isAbsolute(name) && (await executable(name))) yield name;
      continue;
    }
    for (const folder of (env["PATH"] ?? "").split(delimiter)) {
      const path = join(folder, name);
      if (isAbsolute(folder) && (await executable(path))) yield path;
    }
  }
}

async function executable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

async function examine(path: string, env: Readonly<Record<string, string | undefined>>): Promise<Python | null> {
  const python = await asked(path, env);
  if (python === null) return null;
  const [major = 0, minor = 0] = python.version.split(".").map(Number);
  return major === 3 && minor >= MINOR_MIN ? python : null;
}

async function asked(path: string, env: Readonly<Record<string, string | undefined>>): Promise<Python | null> {
  const s = await stat(path);
  // Wrapper scripts of version managers choose by this variable.
  const key = [path, s.ino, s.size, s.mtimeMs, env["PYENV_VERSION"] ?? ""].join("\0");
  let answer = cache.get(key);
  if (!answer) {
    answer = askPython(path, env);
    cache.set(key, answer);
    // A failure may have been a busy moment: it is tried again next time.
    const forget = (): boolean => cache.delete(key);
    void answer.then((python) => python ?? forget(), forget);
  }
  return answer;
}

/** A `python3` that points to a binary called `python3.11` shows its version by that name. */
async function fromName(path: string): Promise<Python | null> {
  const real = await realpath(path);
  const minor = /^python3\.([0-9]+)$/.exec(basename(real))?.[1];
  if (minor === undefined || isScript(real)) return null;
  return { path, version: `3.${minor}` };
}

function isScript(path: string): boolean {
  try {
    const fd = openSync(path, "r");
    try {
      const head = Buffer.alloc(2);
      return readSync(fd, head, 0, 2, 0) < 2 || head.toString("latin1") === "#!";
    } finally {
      closeSync(fd);
    }
  } catch {
    return true; // unreadable: ask it
  }
}

function probe(path: string, env: Readonly<Record<string, string | undefined>>): Promise<Python | null> {
  return new Promise((resolve) => {
    execFile(path, ["-I", "-S", "-c", PROBE], { env, timeout: 10_000, killSignal: "SIGKILL" }, (error, stdout) => {
      const [version = "", real = ""] = stdout.split("\n");
      const [major, minor] = version.split(".").map(Number);
      const good = !error && Number.isInteger(major) && Number.isInteger(minor);
      resolve(good ? { path: real || path, version } : null);
    });
  });
}
