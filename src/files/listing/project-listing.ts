// Decides which files of a project directory belong to a run.
//
// P1. The files that git would choose (repository-files.ts). `.svcignore` files have the form of `.gitignore` and
//     override git: they exclude tracked files, and include ignored ones again (`!name`).
// P2. Folders of keys and of version control never belong to it. Secrets belong to it only if a `.svcignore` includes
//     them again; files that can be rebuilt, and files that svc itself made, if git tracks them (protections.ts).
// P3. Plain files only. A symlink into the project counts as its target, if the target belongs to the run itself; a
//     symlink that leaves the project is excluded.
// P5. Excluded files are reported. Files that a person might miss come first; files that git ignores are only counted.

import { lstatSync, realpathSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { IgnoreRules } from "../../domain/gitignore.ts";
import { isMissing, SvcError, systemCode } from "../../errors/index.ts";
import { unknownSet } from "./ask-git.ts";
import { FolderContents, type EntryKind } from "./folder-contents.ts";
import { gitDirsOf, gitTop, readNow } from "./git-layout.ts";
import { LookAhead } from "./look-ahead.ts";
import { decideBy, walk, type Frame } from "./own-walk.ts";
import { isWithin } from "./project-files.ts";
import { madeAgain, madeBySvc, madeWhole, mayBeProtected, never, secrets, WHY } from "./protections.ts";
import { ignoredAmong, repositoryFiles, type FileSet, type SetOptions } from "./repository-files.ts";
import { Slices } from "./slices.ts";

export const PROJECT_FILES_MAX = 200_000;
/** Linux allows 4,095 bytes; on a machine the path begins with that of the run's own folder. */
const PATH_BYTES_MAX = 3_500;

/** An entry that is excluded from the run. */
export interface LeftOutEntry {
  path: string;
  why: string;
  /** Whether a person might miss it: neither the user nor the kind of file asked for its exclusion. */
  missed: boolean;
}

export interface ProjectListing {
  /** In order of path, relative to the project directory, with `/`. */
  files: string[];
  /** In order of path; a folder counts once. */
  leftOut: LeftOutEntry[];
  /** The files that git ignores; empty if they were not requested. */
  ignored: string[];
}

export interface ListingOptions extends Pick<SetOptions, "ignored" | "own"> {
  filesMax?: number;
  /**
   * What happens with more files than the bound: `refuse` (the default), or `leave-out`: list the files that git tracks
   * first and exclude the rest.
   */
  beyond?: "refuse" | "leave-out";
}

/** @param root a real path, as `checkProjectDir` returns it. Throws `project_dir_refused`. */
export async function listProject(root: string, options: ListingOptions = {}): Promise<ProjectListing> {
  const listing = new Listing(root, options);
  const known = options.ignored ?? listing.takesBack("");
  let set = await listing.find({ ...options, ignored: known });
  if (listing.anyTakesBack && !known)
    set = await repositoryFiles(root, { ...options, ignored: true, each: async () => {} });
  const ignored = await listing.takeBack(set.ignored);
  listing.join();
  await listing.links();
  for (const { path, why } of set.missing) listing.leave(path, why, true);
  await listing.tellOdd(set.byGit);
  const leftOut = [...listing.leftOut.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  return { files: listing.files.sort(), leftOut, ignored: options.ignored ? ignored : [] };
}

interface Folder {
  /** Null if it is not a folder (any more), or cannot be read. */
  contents: FolderContents | null;
  /** The `.svcignore` files at and above it. */
  frames: readonly Frame[];
  /** Why everything in it is excluded. */
  out: LeftOutEntry | null;
  /** Why every untracked file in it is excluded. */
  outUntracked: LeftOutEntry | null;
}
const NOWHERE: Folder = { contents: null, frames: [], out: null, outUntracked: null };

/** The folder of the previous path. */
interface LastFolder {
  /** Its path, with a slash at its end; empty for the project directory. */
  prefix: string;
  folder: Folder | null;
  /** Whether no rule of svc excludes files of the folder: tracked files, and untracked ones. */
  takesAll: { tracked: boolean; untracked: boolean };
}
const takesNone = { tracked: false, untracked: false };

class Listing {
  files: string[] = [];
  readonly leftOut = new Map<string, LeftOutEntry>();
  anyTakesBack = false;
  readonly #root: string;
  readonly #prefix: string;
  readonly #filesMax: number;
  readonly #refuses: boolean;
  readonly #folders = new Map<string, Folder>();
  readonly #links: string[] = [];
  readonly #ahead: LookAhead | null;
  #last: LastFolder = { prefix: "", folder: null, takesAll: takesNone };
  readonly #odd: string[] = [];
  readonly #slices = new Slices();
  /** Files that git does not track, kept until all tracked files are known. */
  #untracked: string[] = [];
  #beyond = 0;
  /** Entries that were found by following symlinks to folders. */
  #followed = 0;

  constructor(root: string, { filesMax, beyond, own }: ListingOptions) {
    this.#root = root;
    this.#filesMax = filesMax ?? PROJECT_FILES_MAX;
    this.#refuses = beyond !== "leave-out";
    const top = gitTop(root);
    this.#ahead = top === null || own ? null : new LookAhead(root);
    const above = top === null ? "" : relative(top, root).split(sep).join("/");
    this.#prefix = above === "" ? "" : `${above}/`;
  }

  /** Whether the `.svcignore` of the folder includes anything again. */
  takesBack(folder: string): boolean {
    return this.#folder(folder).frames.some(({ rules }) => rules.takesBack);
  }

  /** Takes the files that git, or our own walk, chooses. Throws `project_dir_refused`. */
  async find(options: Omit<SetOptions, "each">): Promise<FileSet> {
    if (this.#ahead === null) return repositoryFiles(this.#root, { ...options, each: this.#add });
    const ends = new AbortController();
    // Git is started first: it takes longer.
    const listed = repositoryFiles(this.#root, { ...options, signal: ends.signal, each: this.#add });
    const looking = this.#ahead.run().then((pipe) => {
      if (pipe === null) return;
      const why = `${pipe} is a pipe, and git would wait until something is written into it`;
      ends.abort(unknownSet(this.#root, "", why, undefined));
    });
    try {
      return await listed;
    } finally {
      this.#ahead.stop();
      await looking;
    }
  }

  #add = async (paths: readonly string[], tracked: boolean): Promise<void> => {
    for (const path of paths) {
      if (this.#slices.areLong()) await this.#slices.pause();
      this.#take(path, tracked);
    }
  };

  #take(path: string, tracked: boolean): void {
    const { prefix, folder: last, takesAll } = this.#last;
    if (
      (tracked ? takesAll.tracked : takesAll.untracked) &&
      path.startsWith(prefix) &&
      last?.contents?.isNextFile(path, prefix.length)
    )
      this.#taken(path, tracked);
    else this.#takeUnlike(path, tracked);
  }

  /** Adds a path that is not simply the next file in the folder of the previous path. */
  #takeUnlike(path: string, tracked: boolean): void {
    const slash = path.lastIndexOf("/");
    const folder = this.#folderOf(path, slash);
    if (folder.contents === null) return;
    let kind = folder.contents.kindOf(slash === -1 ? path : path.slice(slash + 1));
    if (kind === undefined && !tracked) {
      // The folder may have been read before git listed it.
      kind = kindAt(join(this.#root, path));
      if (kind === undefined && path.includes("\ufffd")) this.leave(path, WHY.notUtf8, true);
    }
    // A tracked path that is now a folder: its files are listed separately.
    if (kind === undefined || kind === "folder") return;
    const out = this.#why(path, folder, tracked);
    if (out) this.#tell(out);
    else if (kind === "file") this.#taken(path, tracked);
    else if (kind === "symlink") this.#links.push(path);
  }

  /** The folder of the path: usually the same as for the path before. */
  #folderOf(path: string, slash: number): Folder {
    const { prefix, folder: last } = this.#last;
    if (last !== null && prefix.length === slash + 1 && path.startsWith(prefix)) return last;
    const folder = this.#folder(slash === -1 ? "" : path.slice(0, slash));
    const { contents, frames, out, outUntracked } = folder;
    const takes = contents !== null && !contents.anyProtected && frames.length === 0 && out === null;
    this.#last = {
      prefix: path.slice(0, slash + 1),
      folder,
      takesAll: takes ? { tracked: true, untracked: outUntracked === null } : takesNone,
    };
    return folder;
  }

  #taken(path: string, tracked = true): void {
    if (path.includes("\ufffd") && kindAt(join(this.#root, path)) === undefined)
      return this.leave(path, WHY.notUtf8, true);
    if (path.length > PATH_BYTES_MAX / 3 && Buffer.byteLength(path) > PATH_BYTES_MAX)
      return this.leave(path, WHY.tooLong, true);
    if (this.#refuses && this.files.length + this.#untracked.length >= this.#filesMax)
      throw this.#refuse(`holds more than ${this.#filesMax} files`);
    const files = tracked ? this.files : this.#untracked;
    if (files.length < this.#filesMax) files.push(path);
    else this.#beyond++;
  }

  /** Puts what git does not track after what it tracks, as far as there is room. */
  join(): void {
    const room = this.#filesMax - this.files.length;
    this.#beyond += Math.max(0, this.#untracked.length - room);
    this.files = this.files.concat(this.#untracked.slice(0, room));
    this.#untracked = [];
  }

  /** Why the entry at this path is excluded, by the folders above it and by its own name. */
  #why(path: string, folder: Folder, tracked: boolean): LeftOutEntry | null {
    if (folder.out) return folder.out;
    if (!tracked && folder.outUntracked) return folder.outUntracked;
    const { out, outUntracked } = this.#verdict(path, folder.frames, false);
    return out ?? (tracked ? null : outUntracked);
  }

  #verdict(path: string, frames: readonly Frame[], isFolder: boolean): Pick<Folder, "out" | "outUntracked"> {
    if (frames.length === 0 && !mayBeProtected(path)) return NOWHERE;
    const full = this.#prefix + path;
    const entry = (why: string, missed: boolean): LeftOutEntry => ({ path: isFolder ? `${path}/` : path, why, missed });
    if (never.decide(full, isFolder))
      return { out: entry(WHY.never, !/(^|\/)\.(git|hg|svn)$/.test(path)), outUntracked: null };
    const said = frames.length === 0 ? undefined : decideBy(frames, path, isFolder);
    if (said === true) return { out: entry(WHY.svcignore, false), outUntracked: null };
    if (said === false) return { out: null, outUntracked: null };
    if (secrets.decide(full, isFolder)) return { out: entry(WHY.secret, true), outUntracked: null };
    if (madeBySvc.decide(full, isFolder)) return { out: null, outUntracked: entry(WHY.madeBySvc, false) };
    if (madeAgain.decide(full, isFolder)) return { out: null, outUntracked: entry(WHY.madeAgain, false) };
    return { out: null, outUntracked: null };
  }

  /** The folder at this path, read once. */
  #folder(path: string): Folder {
    let folder = this.#folders.get(path);
    if (!folder) this.#folders.set(path, (folder = this.#look(path)));
    return folder;
  }

  #look(path: string): Folder {
    let above: Pick<Folder, "frames" | "out" | "outUntracked"> = NOWHERE;
    if (path !== "") {
      const slash = path.lastIndexOf("/");
      const parent = this.#folder(slash === -1 ? "" : path.slice(0, slash));
      // A symlink in place of a folder leads elsewhere: the tracked files below it are gone.
      if (parent.contents?.kindOf(path.slice(slash + 1)) !== "folder") return NOWHERE;
      const verdict = this.#verdict(path, parent.frames, true);
      above = {
        frames: parent.frames,
        out: parent.out ?? verdict.out,
        outUntracked: parent.outUntracked ?? verdict.outUntracked,
      };
    }
    let contents: FolderContents;
    try {
      contents = this.#ahead?.take(path) ?? new FolderContents(join(this.#root, path));
    } catch (cause) {
      const why = systemCode(cause) === "ENAMETOOLONG" ? WHY.tooLong : isMissing(cause) ? WHY.notUtf8 : WHY.unreadable;
      if (!isMissing(cause) || path.includes("\ufffd")) this.leave(`${path}/`, why, true);
      return NOWHERE;
    }
    const made = path === "" || above.outUntracked ? null : madeWhole(path.slice(path.lastIndexOf("/") + 1), contents);
    if (made && (made.why === WHY.madeBySvc || decideBy(above.frames, path, true) !== false))
      above = { ...above, outUntracked: { path: `${path}/`, ...made } };
    if (above.out === null)
      for (const [name, kind] of contents.others())
        if (kind === "odd") this.#odd.push(path === "" ? name : `${path}/${name}`);
    const rules = contents.find(".svcignore") !== undefined ? this.#rules(path) : null;
    if (rules?.takesBack) this.anyTakesBack = true;
    return { ...above, contents, frames: rules ? [...above.frames, { base: path, rules }] : above.frames };
  }

  /** The folder has a `.svcignore`. One that says nothing is refused: the files that it should exclude would be sent. */
  #rules(folder: string): IgnoreRules {
    const file = join(folder, ".svcignore");
    const unread = (how: string, cause?: unknown) =>
      this.#refuse(`holds ${file}, which cannot be read${how}, so svc cannot know which files it leaves out`, cause);
    let text: string | null;
    try {
      text = statSync(join(this.#root, file)).isFile() ? readNow(join(this.#root, file)) : null;
    } catch (cause) {
      throw unread(isMissing(cause) ? ": it is a symlink that leads nowhere" : "", cause);
    }
    if (text === null) throw unread(": it is not a file");
    if (text.includes("\0")) throw unread(": it is not UTF-8");
    return new IgnoreRules(text);
  }

  /** Takes files that git ignores and a `.svcignore` includes again; returns the rest, which stays ignored. */
  async takeBack(ignored: readonly string[]): Promise<string[]> {
    if (!this.anyTakesBack) return [...ignored];
    const left: string[] = [];
    for (const path of ignored) {
      if (this.#slices.areLong()) await this.#slices.pause();
      const isFolder = path.endsWith("/");
      const at = isFolder ? path.slice(0, -1) : path;
      const slash = at.lastIndexOf("/");
      const parent = slash === -1 ? "" : at.slice(0, slash);
      const { frames, out } = this.#folder(parent);
      if (out || decideBy(frames, at, isFolder) !== false) left.push(path);
      else if (!isFolder) this.#take(path, false);
      else left.push(...(await this.#takeFolderBack(parent, at)));
    }
    return left;
  }

  async #takeFolderBack(parent: string, path: string): Promise<string[]> {
    const dir = join(this.#root, parent);
    const top = gitTop(dir);
    const dirs = top === null ? null : gitDirsOf(top);
    const below = (inside: string): string => (parent === "" ? inside : `${parent}/${inside}`);
    const ignored = parent === "" ? path : path.slice(parent.length + 1);
    const walked = await walk(dir, dirs && top !== null ? { top, dirs } : { top: dir, dirs: null }, { ignored });
    await this.#add(walked.untracked.map(below), false);
    for (const { path: inside, why } of walked.unreadable) this.leave(below(inside), `it cannot be read: ${why}`, true);
    return this.takeBack(walked.ignored.map(below));
  }

  /** Replaces symlinks by their targets (P3). */
  async links(): Promise<void> {
    if (this.#links.length === 0) return;
    const taken = this.files.toSorted();
    const links = this.#links.toSorted();
    for (const link of links) {
      const names = link.split("/");
      const chain = names.map((_, i) => names.slice(0, i).join("/"));
      await this.#follow(link, link, taken, links, chain);
    }
  }

  /**
   * @param path the path under which the symlink is listed; `at` is its real path.
   * @param chain the folders being followed: a symlink back into one of them would never end.
   */
  async #follow(
    path: string,
    at: string,
    taken: readonly string[],
    links: readonly string[],
    chain: readonly string[],
  ): Promise<void> {
    if (this.#slices.areLong()) await this.#slices.pause();
    let target: string;
    try {
      const real = realpathSync(join(this.#root, at));
      if (!isWithin(this.#root, real)) return this.leave(path, outside(real), true);
      target = relative(this.#root, real).split(sep).join("/");
      const stats = statSync(real);
      if (!stats.isDirectory()) {
        if (!stats.isFile()) this.leave(path, WHY.odd, true);
        else if (!holds(taken, target)) this.leave(path, leftOutTarget(target), true);
        else this.#taken(path);
        return;
      }
    } catch {
      return this.leave(path, "the symlink is broken", true);
    }
    if (chain.includes(target)) return this.leave(path, "the symlink leads to a folder that contains it", true);
    const inFolder = target === "" ? "" : `${target}/`;
    const files = range(taken, inFolder);
    const within = range(links, inFolder);
    if (files.length === 0 && within.length === 0) return this.leave(path, leftOutTarget(target), true);
    this.#followed += files.length + within.length;
    // There are more ways through folders that all lead to each other than time to go them.
    if (this.#followed > this.#filesMax) return this.#leaveTangled(path);
    for (const file of files) this.#taken(`${path}/${file.slice(inFolder.length)}`);
    for (const inside of within)
      await this.#follow(`${path}/${inside.slice(inFolder.length)}`, inside, taken, links, [...chain, target]);
  }

  #leaveTangled(path: string): void {
    const why = `symlinks to folders add more than ${this.#filesMax} entries`;
    if (this.#refuses) throw this.#refuse(`is too large: its ${why} (${path}); leave some out with a .svcignore`);
    this.leave(path, why, true);
  }

  leave(path: string, why: string, missed: boolean): void {
    this.#tell({ path, why, missed });
  }

  #tell(entry: LeftOutEntry): void {
    if (!this.leftOut.has(entry.path)) this.leftOut.set(entry.path, entry);
  }

  /** Reports pipes and the like, and files beyond the bound. */
  async tellOdd(byGit: boolean): Promise<void> {
    const ignored = await ignoredAmong(this.#root, this.#odd, byGit);
    for (const path of this.#odd) {
      const slash = path.lastIndexOf("/");
      const folder = this.#folder(slash === -1 ? "" : path.slice(0, slash));
      if (!ignored.has(path) && this.#why(path, folder, false) === null) this.leave(path, WHY.odd, true);
    }
    if (this.#beyond > 0)
      this.leave(`${this.#beyond} further files`, `svc keeps no record of more than ${this.#filesMax} files`, true);
  }

  #refuse(why: string, cause?: unknown): SvcError {
    return new SvcError("project_dir_refused", { project_dir: this.#root, why }, { cause });
  }
}

function kindAt(path: string): EntryKind | undefined {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  return stats.isFile() ? "file" : stats.isDirectory() ? "folder" : stats.isSymbolicLink() ? "symlink" : "odd";
}

const outside = (target: string): string =>
  `the symlink leads out of the project, to ${target}; put a copy in its place, or make a folder that holds both the project_dir`;
const leftOutTarget = (target: string): string => `the symlink leads to ${target || "what"}, which is left out itself`;

function holds(sorted: readonly string[], path: string): boolean {
  return sorted[lowerBound(sorted, path)] === path;
}

/** The entries that begin with `start`. */
function range(sorted: readonly string[], start: string): string[] {
  const found: string[] = [];
  for (let i = lowerBound(sorted, start); i < sorted.length; i++) {
    const item = sorted[i];
    if (item === undefined || !item.startsWith(start)) break;
    found.push(item);
  }
  return found;
}

function lowerBound(sorted: readonly string[], text: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const item = sorted[middle];
    if (item !== undefined && item < text) low = middle + 1;
    else high = middle;
  }
  return low;
}
