// Finds the parts of a git repository, without git.

import { accessSync, constants, lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { systemCode } from "../../errors/index.ts";

export interface GitDirs {
  /** HEAD and index of this work tree. */
  gitDir: string;
  /** Shared by all work trees of the repository: configuration and `info/exclude`. */
  commonDir: string;
}

/** The text of a file. A pipe in its place is empty or an error: waiting for it would block the whole process. */
export const readNow = (path: string): string =>
  readFileSync(path, { encoding: "utf8", flag: constants.O_RDONLY | constants.O_NONBLOCK });

/** The folder that holds `.git`, at or above `dir`; null outside of any repository. */
export function gitTop(dir: string): string | null {
  for (let at = dir; ; at = dirname(at)) {
    if (lstatSync(join(at, ".git"), { throwIfNoEntry: false })) return at;
    if (at === dirname(at)) return null;
  }
}

/** Null if `.git` in `top` does not lead to a repository, as git judges it. */
export function gitDirsOf(top: string): GitDirs | null {
  try {
    const at = join(top, ".git");
    const gitDir = statSync(at).isDirectory() ? at : linkedDir(top, readNow(at));
    if (gitDir === null) return null;
    const commonDir = commonDirOf(gitDir);
    const head = lstatSync(join(gitDir, "HEAD"));
    if (!head.isSymbolicLink() && !/^(ref:\s*refs\/|[0-9a-f]{40})/.test(readNow(join(gitDir, "HEAD")))) return null;
    for (const part of ["objects", "refs"]) accessSync(join(commonDir, part), constants.X_OK);
    return { gitDir, commonDir };
  } catch {
    return null;
  }
}

/** Whether the directory is a separate repository. Like git, counts one that cannot be read as one. */
export function isRepository(dir: string): boolean {
  const at = join(dir, ".git");
  try {
    if (!lstatSync(at, { throwIfNoEntry: false })) return false;
  } catch (cause) {
    if (systemCode(cause) === "ENAMETOOLONG") return false;
    throw cause;
  }
  if (gitDirsOf(dir) !== null) return true;
  try {
    if (statSync(at).isFile()) readFileSync(at);
    return false;
  } catch {
    return true;
  }
}

/** Whether a `.git` that git does not accept as a repository contains the remains of one. */
export const wasRepository = (top: string): boolean =>
  lstatSync(join(top, ".git"), { throwIfNoEntry: false })?.isFile() === true ||
  ["index", "HEAD", "objects"].some((name) => lstatSync(join(top, ".git", name), { throwIfNoEntry: false }));

/** The directory that all work trees of the repository share, by its real path; null if there is none. */
export function realCommonDir(top: string): string | null {
  const dirs = gitDirsOf(top);
  return dirs && realpathSync(dirs.commonDir);
}

function linkedDir(top: string, text: string): string | null {
  const to = /^gitdir: (.+?)[\r\n]*$/s.exec(text)?.[1];
  return to === undefined ? null : resolve(top, to);
}

function commonDirOf(gitDir: string): string {
  try {
    return resolve(gitDir, readNow(join(gitDir, "commondir")).trimEnd());
  } catch {
    return gitDir;
  }
}
