// Finds the files of a directory that git would choose, without git: outside of any repository, and where the git
// binary is missing or refuses to read a repository that svc can read.

import { closeSync, existsSync, fstatSync, lstatSync, openSync, readdirSync, readFileSync, type Dirent } from "node:fs";
import { constants } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { IgnoreRules } from "../../domain/gitignore.ts";
import { isMissing, messageOf, systemCode } from "../../errors/index.ts";
import type { Tracked } from "./ask-git.ts";
import { ignoreSettings } from "./git-config.ts";
import { IndexUnreadable, readIndex } from "./git-index.ts";
import { isRepository, type GitDirs } from "./git-layout.ts";
import { WHY } from "./protections.ts";
import { Slices } from "./slices.ts";

/** Git reads no larger rule file, either. */
const IGNORE_FILE_BYTES_MAX = 100 * 1024 * 1024;

/** The rules of one ignore file, and the folder that contains it. */
export interface Frame {
  base: string;
  rules: IgnoreRules;
}

/** An ignore file cannot be read, so the set of ignored files is unknown. */
export class RulesUnreadable extends Error {}

export interface Walked {
  tracked: Tracked[];
  /** Paths of files and symlinks. */
  untracked: string[];
  /** Neither files, nor folders, nor symlinks: pipes, sockets and devices. */
  odd: string[];
  repositories: string[];
  unreadable: { path: string; why: string }[];
  /** In git's form: a folder of which everything is ignored counts once, with a slash at its end. */
  ignored: string[];
}

/** The start of a walk, in a repository or outside. */
export interface WalkPlace {
  /** The top of the repository; without one, the directory itself. */
  top: string;
  dirs: GitDirs | null;
}

/**
 * The files that git would choose at and below `dir`. Paths are relative to `dir`. Throws `RulesUnreadable`,
 * `IndexUnreadable`, `ConfigUnreadable`.
 * @param options.ignored an ignored path below `dir`; everything in it is taken that no other rule ignores.
 */
export async function walk(dir: string, place: WalkPlace, options: { ignored?: string } = {}): Promise<Walked> {
  const { top, dirs } = place;
  const { excludesFile, ignoreCase } = ignoreSettings(dirs ? top : null, dirs);
  const prefix = relative(top, dir).split(sep).join("/");
  const index = dirs ? readIndex(join(dirs.gitDir, "index")) : [];
  const tracked = index.flatMap((entry) => {
    const inside =
      prefix === "" ? entry.path : entry.path.startsWith(`${prefix}/`) ? entry.path.slice(prefix.length + 1) : "";
    return inside === "" ? [] : [{ ...entry, path: inside }];
  });
  // If such a file is missing, or a symlink replaces it, git reads the rules from its objects. This walk reads no
  // objects.
  const hidden = index.find(
    ({ path, skipped }) =>
      skipped &&
      /(^|\/)\.gitignore$/.test(path) &&
      existsSync(join(top, dirname(path))) &&
      !isRuleFile(join(top, path)),
  );
  if (hidden) throw new IndexUnreadable(`the sparse checkout leaves out ${hidden.path}, whose rules count`);
  const frames = [
    ...(excludesFile === "" ? [] : [{ base: "", rules: readRules(excludesFile, ignoreCase) }]),
    ...(dirs ? [{ base: "", rules: readRules(join(dirs.commonDir, "info", "exclude"), ignoreCase) }] : []),
  ];
  const above = prefix === "" ? [] : prefix.split("/");
  const walker = new Walker(dir, prefix, ignoreCase, tracked);
  // The surrounding repository does not see files in a submodule that is not checked out: their own rules count.
  const submodule = index.find(({ path, gitlink }) => gitlink && (prefix === path || prefix.startsWith(`${path}/`)));
  if (submodule) return walk(dir, { top: join(top, submodule.path), dirs: null }, options);
  let out = false;
  for (let i = 0; i < above.length; i++) {
    const base = above.slice(0, i).join("/");
    frames.push({ base, rules: readRules(join(top, base, ".gitignore"), ignoreCase, true) });
    out ||= decideBy(frames, above.slice(0, i + 1).join("/"), true) ?? false;
  }
  if (options.ignored !== undefined) await walker.below(options.ignored, frames);
  else if (!out) await walker.folder("", frames);
  return { tracked, ...walker.found };
}

function isRuleFile(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats !== undefined && !stats.isSymbolicLink();
}

class Walker {
  readonly found: Omit<Walked, "tracked"> = { untracked: [], odd: [], repositories: [], unreadable: [], ignored: [] };
  readonly #root: string;
  readonly #prefix: string;
  readonly #ignoreCase: boolean;
  readonly #tracked = new Map<string, Tracked>();
  readonly #folders = new Set<string>();
  readonly #slices = new Slices();

  constructor(root: string, prefix: string, ignoreCase: boolean, tracked: readonly Tracked[]) {
    this.#root = root;
    this.#prefix = prefix;
    this.#ignoreCase = ignoreCase;
    for (const entry of tracked) {
      const path = this.#key(entry.path);
      this.#tracked.set(path, entry);
      for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
        const folder = path.slice(0, at);
        if (this.#folders.has(folder)) break;
        this.#folders.add(folder);
      }
    }
  }

  /** Like `folder`, for a folder that its own rules ignore: the rule files above still apply to its entries. */
  async below(path: string, frames: readonly Frame[]): Promise<void> {
    const names = path.split("/");
    const all = [...frames];
    for (let i = 0; i < names.length; i++) {
      const folder = names.slice(0, i).join("/");
      all.push(this.#frame(folder, true));
    }
    await this.folder(path, all);
  }

  async folder(path: string, frames: readonly Frame[]): Promise<boolean> {
    if (this.#slices.areLong()) await this.#slices.pause();
    let entries: Dirent[];
    try {
      entries = readdirSync(join(this.#root, path), { withFileTypes: true });
    } catch (cause) {
      if (path.includes("\ufffd")) this.found.unreadable.push({ path, why: WHY.notUtf8 });
      else if (!isMissing(cause)) this.found.unreadable.push({ path, why: whyUnreadable(cause) });
      return false;
    }
    const here = entries.some(({ name }) => name === ".gitignore") ? [...frames, this.#frame(path, false)] : frames;
    let any = false;
    const ignored: string[] = [];
    for (const entry of entries) {
      const { name } = entry;
      if (name === ".git") continue;
      const at = path === "" ? name : `${path}/${name}`;
      const isFolder = entry.isDirectory();
      const key = this.#key(at);
      const known = this.#tracked.get(key);
      if (known && (known.gitlink || !isFolder)) {
        any = true;
        continue;
      }
      if (decideBy(here, this.#full(at), isFolder)) {
        const holdsTracked = this.#folders.has(key);
        any ||= holdsTracked;
        if (!isFolder) ignored.push(at);
        else ignored.push(`${at}/`);
      } else if (!isFolder) {
        any = true;
        if (entry.isFile() || entry.isSymbolicLink()) this.found.untracked.push(at);
        else this.found.odd.push(at);
      } else if (!this.#folders.has(key) && isRepository(join(this.#root, at))) {
        any = true;
        // For git, a symlink in place of a tracked file is that file, changed.
        if (!known) this.found.repositories.push(at);
      } else if (await this.folder(at, here)) any = true;
    }
    this.found.ignored.push(...ignored);
    return any;
  }

  /** The key in the index. */
  #key(path: string): string {
    return this.#ignoreCase ? path.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()) : path;
  }

  #full(path: string): string {
    if (this.#prefix === "") return path;
    return path === "" ? this.#prefix : `${this.#prefix}/${path}`;
  }

  #frame(folder: string, mayLack: boolean): Frame {
    const file = join(this.#root, folder, ".gitignore");
    return { base: this.#full(folder), rules: readRules(file, this.#ignoreCase, true, mayLack) };
  }
}

/** The decision of the last matching rule, in the deepest file. */
export function decideBy(frames: readonly Frame[], path: string, isFolder: boolean): boolean | undefined {
  for (let i = frames.length - 1; i >= 0; i--) {
    const frame = frames[i];
    if (!frame || frame.rules.empty) continue;
    const { base, rules } = frame;
    const said = rules.decide(base === "" ? path : path.slice(base.length + 1), isFolder);
    if (said !== undefined) return said;
  }
  return undefined;
}

/**
 * The rules of a file; empty if the file does not exist. Throws `RulesUnreadable` if it exists and cannot be read.
 * @param inTree git follows no symlink in place of a `.gitignore`.
 */
export function readRules(path: string, ignoreCase = false, inTree = false, mayLack = true): IgnoreRules {
  let fd: number | undefined;
  try {
    // NONBLOCK: opening a pipe, even one that replaced the file just now, would block the whole process.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | (inTree ? constants.O_NOFOLLOW : 0));
    const stats = fstatSync(fd);
    // Like git, reads /dev/null as an empty file; does not wait for a pipe.
    if (!stats.isFile()) return new IgnoreRules("");
    if (stats.size > IGNORE_FILE_BYTES_MAX) throw new RulesUnreadable(`${path} has more than 100 MB`);
    return new IgnoreRules(readFileSync(fd, "utf8"), ignoreCase);
  } catch (cause) {
    const code = systemCode(cause);
    if ((mayLack && isMissing(cause)) || (inTree && code === "ELOOP")) return new IgnoreRules("");
    if (isMissing(cause)) return new IgnoreRules("");
    if (cause instanceof RulesUnreadable) throw cause;
    throw new RulesUnreadable(`${path} cannot be read: ${messageOf(cause)}`, { cause });
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** As text that follows the name of the unreadable file. */
function whyUnreadable(cause: unknown): string {
  const code = systemCode(cause);
  if (code === "ENAMETOOLONG") return WHY.tooLong;
  return code === "EACCES" || code === "EPERM" ? "permission denied" : messageOf(cause);
}
