// Lists the files of a directory that git chooses, across nested repositories.
//
// B1. Inside a repository git answers (ask-git.ts). Without a git binary, or if git refuses a repository because of its
//     owner, our own walk (own-walk.ts) chooses by the same rules; it also does so outside of any repository.
// B2. A repository within the directory (a submodule that is checked out, or a clone) lists its own files: the rules of
//     the surrounding repository end at its border, as they do for git. Git does not see the files of a submodule whose
//     `.git` is missing; they belong to the run all the same, by the rule files in it.
// B3. If the choice cannot be determined (a broken index, a `.git` that leads nowhere), the project is refused with an
//     explanation: ignored files may hold secrets and must never be sent by a guess.

import { existsSync, lstatSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  chosenFiles,
  gitlinks,
  GitRefused,
  ignoredFiles,
  ignoredOf,
  ruleAgainst,
  unknownSet,
  type Gitlink,
} from "./ask-git.ts";
import { ConfigUnreadable, ignoreSettings } from "./git-config.ts";
import { IndexUnreadable, mayHoldGitlinks } from "./git-index.ts";
import { gitDirsOf, gitTop, realCommonDir, wasRepository } from "./git-layout.ts";
import { RulesUnreadable, walk } from "./own-walk.ts";
import type { LeftOutName } from "../../schemas/job.ts";

export interface FileSet {
  /** Files that git would choose but that do not exist or cannot be read. */
  missing: LeftOutName[];
  /** Ignored files, and ignored folders with a slash at their end. */
  ignored: string[];
  /** Whether git answered for the directory itself. */
  byGit: boolean;
}

export interface SetOptions {
  /** Also find ignored files: this costs one more walk by git. */
  ignored?: boolean;
  /** Never ask git: for tests, and for computers without git. */
  own?: boolean;
  signal?: AbortSignal;
  /**
   * Receives files and symlinks during the search, in any order. Paths are relative to the project directory, with `/`.
   * A tracked file may be missing from the directory.
   */
  each: (paths: readonly string[], tracked: boolean) => Promise<void>;
}

/** Throws `project_dir_refused` if the set cannot be determined (B3). */
export async function repositoryFiles(root: string, options: SetOptions): Promise<FileSet> {
  const set: FileSet = { missing: [], ignored: [], byGit: false };
  await new Collector(root, set, options).directory("");
  return set;
}

class Collector {
  readonly #root: string;
  readonly #set: FileSet;
  readonly #options: SetOptions;
  readonly #signal: AbortSignal;

  constructor(root: string, set: FileSet, options: SetOptions) {
    this.#root = root;
    this.#set = set;
    this.#options = options;
    this.#signal = options.signal ?? new AbortController().signal;
  }

  /** @param at the directory of a repository within the project, or "" for the project itself. */
  async directory(at: string): Promise<void> {
    const dir = join(this.#root, at);
    const top = gitTop(dir);
    try {
      if (top !== null && !this.#options.own) {
        try {
          await this.#byGit(at, dir, top);
          if (at === "") this.#set.byGit = true;
          return;
        } catch (cause) {
          if (!(cause instanceof GitRefused)) throw cause;
          const { kind } = cause.refusal;
          // Git ignores an empty `.git` and looks further up; svc does not, because the rules there are unknown.
          if (kind === "broken" || (kind === "no-repository" && wasRepository(top))) throw cause;
        }
      }
      await this.#byWalk(at, dir, top);
    } catch (cause) {
      if (cause instanceof GitRefused || cause instanceof RulesUnreadable || cause instanceof ConfigUnreadable)
        throw unknownSet(this.#root, top === null ? null : at, cause.message, cause);
      if (cause instanceof IndexUnreadable)
        throw unknownSet(this.#root, at, `git is not installed, and ${cause.message}`, cause);
      throw cause;
    }
  }

  async #byGit(at: string, dir: string, top: string): Promise<void> {
    const pipe = pipeThatGitReads(top, dir);
    if (pipe !== null)
      throw new GitRefused({
        kind: "broken",
        why: `${pipe} is a pipe, and git would wait until something is written into it`,
      });
    const signal = this.#signal;
    const ends = new AbortController();
    const both = AbortSignal.any([signal, ends.signal]);
    // This call takes longest, so it starts first.
    const chosen = chosenFiles(dir, both, async (paths, tracked) => {
      const links = tracked ? await submodules : [];
      const files = links.length === 0 ? paths : without(paths, links);
      await this.#options.each(allBelow(at, files), tracked);
    });
    const dirs = gitDirsOf(top);
    const submodules = dirs && !mayHoldGitlinks(join(dirs.gitDir, "index")) ? Promise.resolve([]) : gitlinks(dir, both);
    const ignored = this.#options.ignored ? ignoredFiles(dir, both) : Promise.resolve([]);
    // The first failure is reported; the other calls end with it.
    submodules.catch(() => undefined);
    ignored.catch(() => undefined);
    try {
      const { repositories, unreadable } = await chosen;
      const links = await submodules;
      for (const { path, why } of unreadable) this.#unreadable(below(at, path), why);
      for (const path of await ignored) this.#set.ignored.push(below(at, path));
      await this.#within(at, top, links, repositories);
    } finally {
      ends.abort();
    }
  }

  /** Returns whether it found anything. */
  async #byWalk(at: string, dir: string, top: string | null): Promise<boolean> {
    const dirs = top === null ? null : gitDirsOf(top);
    if (top !== null && dirs === null && wasRepository(top))
      throw new RulesUnreadable(`${join(top, ".git")} points to a repository that does not exist`);
    const place = dirs && top !== null ? { top, dirs } : { top: dir, dirs: null };
    const walked = await walk(dir, place);
    const files = walked.tracked.filter((entry) => !entry.gitlink).map((entry) => entry.path);
    await this.#options.each(allBelow(at, files), true);
    await this.#options.each(allBelow(at, walked.untracked), false);
    for (const { path, why } of walked.unreadable) this.#unreadable(below(at, path), why);
    for (const path of walked.ignored) this.#set.ignored.push(below(at, path));
    const links = walked.tracked.filter((entry) => entry.gitlink);
    await this.#within(at, place.top, links, walked.repositories);
    return files.length + links.length + walked.untracked.length + walked.repositories.length > 0;
  }

  /** The repositories within another one (B2). */
  async #within(at: string, top: string, submodules: readonly Gitlink[], clones: readonly string[]): Promise<void> {
    for (const { path, skipped } of submodules) {
      // `./` is the directory itself, in a submodule without its repository.
      const inside = path === "./" ? at : below(at, path);
      if (this.#isCheckedOut(inside)) await this.#enter(inside);
      else if (!(await this.#plainFolder(inside)) && !skipped)
        this.#set.missing.push({ path: inside, why: this.#remedy(at, top, path) });
    }
    const own = realCommonDir(top);
    for (const path of clones) {
      const inside = below(at, path);
      if (own !== null && realCommonDir(join(this.#root, inside)) === own)
        this.#set.missing.push({ path: inside, why: "it is another work tree of this repository" });
      else await this.#enter(inside);
    }
  }

  async #enter(inside: string): Promise<void> {
    await this.directory(inside);
  }

  /** A submodule's files without its repository, as in a copy or an unpacked archive: its own rule files choose (B2). */
  async #plainFolder(inside: string): Promise<boolean> {
    const dir = join(this.#root, inside);
    return isRealFolder(dir) && this.#byWalk(inside, dir, null);
  }

  #remedy(at: string, top: string, path: string): string {
    if (!existsSync(join(top, ".gitmodules")))
      return "git has it as a submodule, and no .gitmodules says where its files are: put them there";
    const git = at === "" ? "git" : `git -C ${at}`;
    return `the submodule is not checked out: \`${git} submodule update --init ${path}\` brings its files`;
  }

  /**
   * Whether a repository is checked out there, with no symlink on the way to it: git treats anything behind a symlink
   * as gone.
   */
  #isCheckedOut(inside: string): boolean {
    try {
      const at = join(this.#root, inside);
      return realpathSync(at) === at && lstatSync(join(at, ".git")) !== undefined;
    } catch {
      return false;
    }
  }

  #unreadable(path: string, why: string): void {
    this.#set.missing.push({ path, why: `it cannot be read: ${why}` });
  }
}

function isRealFolder(path: string): boolean {
  try {
    return realpathSync(path) === path && statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function isPipe(path: string): boolean {
  try {
    return statSync(path).isFIFO();
  } catch {
    return false;
  }
}

/** A pipe in place of a file that git opens before it lists files: git would block on it for ever. */
function pipeThatGitReads(top: string, dir: string): string | null {
  const files = ["HEAD", "index", "config", "commondir", "packed-refs"].map((name) => join(top, ".git", name));
  try {
    const dirs = gitDirsOf(top);
    if (dirs) {
      files.push(join(dirs.gitDir, "HEAD"), join(dirs.gitDir, "index"));
      files.push(join(dirs.commonDir, "config"), join(dirs.commonDir, "info", "exclude"));
    }
    files.push(ignoreSettings(top, dirs).excludesFile);
  } catch (cause) {
    // Git itself reports that it cannot read its configuration.
    if (!(cause instanceof ConfigUnreadable)) throw cause;
  }
  for (let at = dir; at !== top && at !== dirname(at);) {
    at = dirname(at);
    files.push(join(at, ".gitignore"));
  }
  return files.find(isPipe) ?? null;
}

function without(paths: readonly string[], links: readonly Gitlink[]): readonly string[] {
  const submodules = new Set(links.map(({ path }) => path));
  return paths.filter((path) => !submodules.has(path));
}

const below = (at: string, path: string): string => (at === "" ? path : `${at}/${path}`);
const allBelow = (at: string, paths: readonly string[]): readonly string[] =>
  at === "" ? paths : paths.map((path) => `${at}/${path}`);

/** The `paths` that git ignores; empty if git cannot answer. */
export async function ignoredAmong(root: string, paths: readonly string[], byGit: boolean): Promise<Set<string>> {
  if (!byGit || paths.length === 0) return new Set();
  return ignoredOf(root, paths, new AbortController().signal).catch(() => new Set<string>());
}

/**
 * The rule by which git ignores the project directory itself, as a sentence; null if there is none or git cannot
 * answer.
 */
export const ruleAgainstProject = (root: string): Promise<string | null> =>
  gitTop(root) === null ? Promise.resolve(null) : ruleAgainst(root, new AbortController().signal).catch(() => null);
