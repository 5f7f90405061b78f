// Random repositories, made from a seed, with everything that decides which files git lists; and git's own list of
// them.

import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";

const NAMES = [
  "a",
  "b",
  "ab",
  "c.x",
  "d",
  "Ab",
  "é",
  "sp ace",
  `q'u"o`,
  "t\tb",
  "back\\s",
  "-x",
  "[br]",
  "#h",
  "!n",
  "new\nline",
  "z.X",
];
const GLOBS = [
  "a",
  "b",
  "ab",
  "c.x",
  "d",
  "A",
  "*",
  "**",
  "?",
  "[ab]",
  "[!a]",
  "/",
  "/",
  "*.x",
  "é",
  "\\#h",
  "\\!n",
  "sp ace",
  "[[:upper:]]",
  " ",
];

export type Random = () => number;
/** Mulberry32. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface Made {
  /** The directory to list. */
  project: string;
  /** The index is in a state that our own walk cannot read. */
  ownCannot: boolean;
  told: string[];
}

/** @param home the user's home with their configuration; git reads no other. */
export class RepositoryMaker {
  readonly #random: Random;
  readonly #top: string;
  readonly #home: string;
  readonly told: string[] = [];
  ownCannot = false;

  constructor(seed: number, top: string, home: string) {
    this.#random = randomOf(seed);
    this.#top = top;
    this.#home = home;
  }

  #below(n: number): number {
    return Math.floor(this.#random() * n);
  }
  #one<T>(of: readonly T[]): T {
    return of[this.#below(of.length)] as T;
  }
  #chance(share: number): boolean {
    return this.#random() < share;
  }
  #many<T>(max: number, make: () => T): T[] {
    return Array.from({ length: this.#below(max + 1) }, make);
  }
  #path(): string {
    return Array.from({ length: 1 + this.#below(3) }, () => this.#one(NAMES)).join("/");
  }
  #rules(): string {
    const rule = (): string => {
      const glob = Array.from({ length: 1 + this.#below(4) }, () => this.#one(GLOBS)).join("");
      return this.#one(["", "", "", "!"]) + glob.replace(/\/+/g, "/");
    };
    return this.#many(4, rule).join(this.#one(["\n", "\n", "\r\n"])) + this.#one(["\n", ""]);
  }

  git(at: string, ...args: string[]): string {
    return git(this.#home, at, ...args);
  }
  /** Runs a git command that may fail: a path may be a folder by now, or contain something that git refuses. */
  #try(at: string, ...args: string[]): boolean {
    try {
      this.git(at, ...args);
      return true;
    } catch {
      return false;
    }
  }

  #put(at: string, path: string, text = ""): boolean {
    try {
      mkdirSync(dirname(join(at, path)), { recursive: true });
      writeFileSync(join(at, path), text);
      return true;
    } catch {
      return false;
    }
  }

  make(): Made {
    mkdirSync(this.#home, { recursive: true });
    this.#user();
    const repo = join(this.#top, "w", "repo");
    mkdirSync(repo, { recursive: true });
    this.#repository(repo, 0);
    let project = repo;
    if (this.#chance(0.15) && this.#try(repo, "rev-parse", "-q", "--verify", "HEAD")) {
      const tree = this.#chance(0.5) ? join(this.#top, "w", "tree") : join(repo, "tree");
      if (this.#try(repo, "worktree", "add", "-q", "--detach", tree)) {
        this.told.push("work tree");
        for (const path of this.#many(4, () => this.#path())) this.#put(tree, path);
        this.#states(tree, 1);
        if (this.#chance(0.7)) project = tree;
      }
    }
    if (this.#chance(0.2)) {
      const below = join(project, this.#one(NAMES.slice(0, 5)));
      if (lstatSync(below, { throwIfNoEntry: false })?.isDirectory()) project = below;
    }
    return { project: realpathSync(project), ownCannot: this.ownCannot, told: this.told };
  }

  #user(): void {
    let config = "";
    if (this.#chance(0.3)) {
      config += `[core]\n\texcludesFile = ${this.#one(["~/mine", `"${this.#home}/mine" ; words`])}\n`;
      this.#put(this.#home, "mine", this.#rules());
    }
    if (this.#chance(0.2)) {
      const where = this.#one([`gitdir:${this.#top}/`, "gitdir:~/", "gitdir:repo/", "gitdir/i:W/", "onbranch:ma*"]);
      config += `[includeIf "${where}"]\n\tpath = more\n`;
      this.#put(this.#home, "more", `[core]\n\texcludesfile = ~/other\n`);
      this.#put(this.#home, "other", this.#rules());
    }
    if (this.#chance(0.1)) config += "[core]\n\tignoreCase = true\n";
    if (config !== "") this.#put(this.#home, ".gitconfig", config);
    if (this.#chance(0.3)) this.#put(this.#home, ".config/git/ignore", this.#rules());
  }

  #repository(at: string, depth: number): void {
    this.git(at, "init", "-q", "-b", this.#one(["main", "other"]));
    if (this.#chance(0.3)) this.#put(at, ".git/info/exclude", this.#rules());
    if (this.#chance(0.1)) this.git(at, "config", "core.excludesFile", this.#one(["inside-rules", "/dev/null"]));
    this.#put(at, "inside-rules", this.#rules());
    if (this.#chance(0.7)) this.#put(at, ".gitignore", this.#rules());
    for (const path of this.#many(12, () => this.#path())) this.#put(at, path);
    for (const path of this.#many(2, () => this.#path())) this.#put(at, `${path}/.gitignore`, this.#rules());
    if (this.#chance(0.3)) this.#link(at);
    for (let i = 0; i < 2; i++) if (depth < 2 && this.#chance(0.25)) this.#nested(at, depth);
    if (this.#chance(0.7)) this.#try(at, "add", "-A");
    for (const path of this.#many(3, () => this.#one(NAMES))) this.#try(at, "add", "-f", "--", path);
    if (this.#chance(0.7)) this.#try(at, "commit", "-qm", "one");
    for (const path of this.#many(5, () => this.#path())) this.#put(at, path);
    this.#states(at, depth);
  }

  #link(at: string): void {
    try {
      symlinkSync(this.#one(["a", "nowhere", "..", "b/c.x"]), join(at, this.#one(NAMES)));
    } catch {
      // The path already exists.
    }
  }

  #nested(at: string, depth: number): void {
    const path = this.#path();
    const inside = join(at, path);
    if (existsSync(join(inside, ".git"))) return;
    try {
      mkdirSync(inside, { recursive: true });
    } catch {
      return;
    }
    if (!lstatSync(inside).isDirectory() || realpathSync(inside) !== inside) return;
    this.#repository(inside, depth + 1);
    this.told.push(`nested ${path}`);
    if (!this.#chance(0.5)) return;
    let commit = "1".repeat(40);
    if (this.#try(inside, "rev-parse", "-q", "--verify", "HEAD")) commit = this.git(inside, "rev-parse", "HEAD").trim();
    if (this.#try(at, "update-index", "--add", "--cacheinfo", `160000,${commit},${path}`)) this.told.push("gitlink");
    if (this.#chance(0.3)) rmSync(join(inside, ".git"), { recursive: true });
  }

  /** States of the index and of the work tree. */
  #states(at: string, depth: number): void {
    const tracked = this.git(at, "ls-files", "-z")
      .split("\0")
      .filter((path) => path !== "");
    const some = (): string => (tracked.length > 0 ? this.#one(tracked) : "a");
    if (this.#chance(0.2)) this.#try(at, "update-index", "--skip-worktree", "--", some());
    if (this.#chance(0.2)) this.#try(at, "update-index", "--assume-unchanged", "--", some());
    if (this.#chance(0.2)) this.#try(at, "add", "-f", "-N", "--", this.#path());
    if (this.#chance(0.3)) this.#remove(at, some());
    if (this.#chance(0.15)) {
      const path = some();
      this.#remove(at, path);
      this.#put(at, `${path}/inside`);
    }
    if (this.#chance(0.15)) {
      const folder = some().split("/")[0] ?? "a";
      this.#remove(at, folder);
      try {
        symlinkSync(this.#one(["b", "..", "ab"]), join(at, folder));
      } catch {
        // The file disappeared with its folder.
      }
    }
    if (this.#chance(0.15)) this.#conflict(at, some());
    if (
      this.#chance(0.1) &&
      depth < 3 &&
      this.#try(at, "sparse-checkout", "set", ...this.#one([["a"], ["--no-cone", "/b"], ["--cone", "ab"]]))
    )
      this.told.push("sparse");
    if (this.#chance(0.15)) this.#try(at, "update-index", "--index-version", this.#one(["3", "4"]));
    if (this.#chance(0.05) && this.#try(at, "update-index", "--split-index")) this.ownCannot = true;
    if (this.#chance(0.2)) this.#put(at, ".git/rebase-merge/done", "");
  }

  #remove(at: string, path: string): void {
    if (path !== "" && path !== ".git") rmSync(join(at, path), { recursive: true, force: true });
  }

  #conflict(at: string, path: string): void {
    if (path.includes("\n") || path.includes('"') || path.includes("\t") || path.includes("\\")) return;
    const object = execFileSync("git", ["hash-object", "-w", "--stdin"], {
      cwd: at,
      input: "x",
      env: envOf(this.#home),
    })
      .toString()
      .trim();
    const sides = [1, 2, 3].map((stage) => `100644 ${object} ${stage}\t${path}\n`).join("");
    try {
      const input = `0 ${"0".repeat(40)}\t${path}\n${sides}`;
      execFileSync("git", ["update-index", "--index-info"], {
        cwd: at,
        input,
        env: envOf(this.#home),
        stdio: ["pipe", "ignore", "ignore"],
      });
      this.told.push(`conflict ${path}`);
    } catch {
      // A folder has this name.
    }
  }
}

const envOf = (home: string): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  HOME: home,
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@b",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@b",
});

export function git(home: string, at: string, ...args: string[]): string {
  return execFileSync("git", args, { cwd: at, env: envOf(home), encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** The existing files that git lists at and below `dir`, across nested repositories. */
export function asGitLists(home: string, dir: string): string[] {
  const found = new Set<string>();
  const list = (at: string): void => {
    const here = at === "" ? dir : join(dir, at);
    const below = (path: string): string => (at === "" ? path : `${at}/${path}`);
    const parts = (...args: string[]): string[] =>
      git(home, here, "ls-files", "-z", ...args)
        .split("\0")
        .filter((part) => part !== "");
    const links = new Set(
      parts("-s").flatMap((line) => (line.startsWith("160000") ? [line.slice(line.indexOf("\t") + 1)] : [])),
    );
    for (const path of parts("-c", "-o", "--exclude-standard")) {
      if (links.has(path)) {
        const inside = below(path);
        if (isThere(dir, `${inside}/.git/HEAD`) || isThere(dir, `${inside}/.git`)) list(inside);
        else if (isRealFolder(join(dir, inside))) listPlain(inside);
      } else if (path.endsWith("/")) {
        const inside = below(path.slice(0, -1));
        if (commonDir(home, join(dir, inside)) !== commonDir(home, here)) list(inside);
      } else if (isThere(dir, below(path))) found.add(below(path));
    }
  };
  /** A submodule without its repository, as git lists a folder that has just become one. */
  const listPlain = (at: string): void => {
    const empty = join(home, "empty");
    git(home, home, "init", "-q", empty);
    const of = ["--git-dir", join(empty, ".git"), "--work-tree", "."];
    for (const path of git(home, join(dir, at), ...of, "ls-files", "-z", "-o", "--exclude-standard").split("\0"))
      if (path.endsWith("/")) list(`${at}/${path.slice(0, -1)}`);
      else if (path !== "" && isThere(dir, `${at}/${path}`)) found.add(`${at}/${path}`);
  };
  list("");
  return [...found].sort();
}

const isRealFolder = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true && realpathSync(path) === path;

const commonDir = (home: string, at: string): string =>
  realpathSync(resolve(at, git(home, at, "rev-parse", "--git-common-dir").trim()));

/** Whether the path is a file or symlink, without a symlink among the folders above it. */
export function isThere(root: string, path: string): boolean {
  const names = path.split("/");
  for (let i = 1; i <= names.length; i++) {
    const stats = lstatSync(join(root, ...names.slice(0, i)), { throwIfNoEntry: false });
    if (i < names.length ? !stats?.isDirectory() : !stats || stats.isDirectory()) return false;
  }
  return true;
}

export const isPlain = (root: string, path: string): boolean =>
  isThere(root, path) && lstatSync(join(root, path)).isFile() && readFileSync(join(root, path)) !== null;
