// Where the parts of a git repository lie, read without git.

import { accessSync, constants, lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export interface GitDirs {
  /** HEAD and index of this work tree. */
  gitDir: string;
  /** What all work trees of the repository share: configuration and `info/exclude`. */
  commonDir: string;
}

/** The text of a file. A pipe in its place is empty or an error: waiting for it would stop the whole process. */
export const readNow = (path: string): string =>
  readFileSync(path, { encoding: "utf8", flag: constants.O_RDONLY | constants.O_NONBLOCK });

/** The folder that holds `.git`, at or above `dir`; null outside of any repository. */
export function gitTop(dir: string): string | null {
  for (let at = dir; ; at = dirname(at)) {
    if (lstatSync(join(at, ".git"), { throwIfNoEntry: false })) return at;
    if (at === dirname(at)) return null;
  }
}

/** Null where `.git` in `top` leads to no repository, as git judges it. */
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

/** Whether the directory is a repository of its own. One that cannot be looked into counts as one, as it does for git. */
export function isRepository(dir: string): boolean {
  const at = join(dir, ".git");
  if (!lstatSync(at, { throwIfNoEntry: false })) return false;
  if (gitDirsOf(dir) !== null) return true;
  try {
    if (statSync(at).isFile()) readFileSync(at);
    return false;
  } catch {
    return true;
  }
}

/** Whether a `.git` that git does not take for a repository holds what was one. */
export const wasRepository = (top: string): boolean =>
  lstatSync(join(top, ".git"), { throwIfNoEntry: false })?.isFile() === true ||
  ["index", "HEAD", "objects"].some((name) => lstatSync(join(top, ".git", name), { throwIfNoEntry: false }));

/** The directory that all work trees of the repository share, by its real path; null where there is none. */
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
