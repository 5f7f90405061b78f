// Finds the files that belong to a data set.
//
// D1. Plain files only. Pipes, sockets and devices are excluded and reported; so are names that are not UTF-8.
// D2. A symlink within the added folder counts as its target. A symlink that leaves the folder is excluded unless
//     `followLinks` is set, because it could include any file of the computer.
// D3. A symlink to one of its own parent folders is excluded: following it would never end. Folders whose symlinks lead to
//     each other are refused: a bound limits how many symlinks may lead to one folder.
// D4. Version control and folders of keys (NEVER in protections.ts), the user's home directory and the home of svc are
//     excluded and reported wherever they are and whatever symlink leads to them.
// D5. An unreadable file is reported with the system's error; only "does not exist" counts as absence.

import { readdirSync, realpathSync, statSync, type Dirent, type Stats } from "node:fs";
import { join, resolve, sep } from "node:path";
import type { DataLeftOut } from "../../schemas/data.ts";
import { isMissing, SvcError, systemCode } from "../../errors/index.ts";
import { systemWords } from "../hash-file.ts";
import { NEVER } from "../listing/protections.ts";
import { knownUserHome } from "../../platform/user-home.ts";

/** The scan yields the event loop after this time. */
const SLICE_MS = 8;
const FILES_MAX = 1_000_000;
const LINKS_TO_FOLDER_MAX = 500;

export interface Root {
  /** Real and absolute. */
  path: string;
  /** The path within the data; empty if its files are at the top. */
  into: string;
  folder: boolean;
}

export interface Found {
  /** The path within the data, with `/`. */
  path: string;
  /** Absolute. */
  at: string;
  size: number;
  mtimeMs: number;
  ctimeMs: number;
  ino: number;
}

export interface Scan {
  /** In order of path. */
  files: Found[];
  bytes: number;
  leftOut: DataLeftOut[];
  /** Paths that could not be read. */
  problems: { path: string; why: string }[];
}

export interface ScanOptions {
  /** The home of svc, which is never data. */
  home: string;
  followLinks: boolean;
  signal: AbortSignal;
  progress?: ((done: { files: number; bytes: number }) => void) | undefined;
}

export async function scanRoots(roots: readonly Root[], options: ScanOptions): Promise<Scan> {
  const walk = new Walk(options);
  for (const root of roots) await walk.root(root);
  const { files, bytes, leftOut, problems } = walk;
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { files, bytes, leftOut, problems };
}

class Walk implements Scan {
  readonly files: Found[] = [];
  readonly leftOut: Scan["leftOut"] = [];
  readonly problems: Scan["problems"] = [];
  bytes = 0;
  readonly #linksTo = new Map<string, number>();
  readonly #options: ScanOptions;
  readonly #neverData: (real: string) => string | null;
  #sliceEndsAt = performance.now() + SLICE_MS;

  constructor(options: ScanOptions) {
    this.#options = options;
    this.#neverData = neverDataOf(options.home);
  }

  async root(root: Root): Promise<void> {
    if (root.folder) return this.#folder(root.path, root.into, { top: root.path, chain: [root.path] });
    const stats = this.#statsOf(root.path, root.into);
    if (stats) this.#take(root.path, root.into, stats);
  }

  async #folder(at: string, path: string, within: { top: string; chain: string[] }): Promise<void> {
    let entries: Dirent[];
    try {
      entries = readdirSync(at, { withFileTypes: true });
    } catch (cause) {
      this.problems.push({ path: path === "" ? at : path, why: whyNot(cause) });
      return;
    }
    for (const entry of entries) {
      if (performance.now() > this.#sliceEndsAt) await this.#turn();
      const inside = path === "" ? entry.name : `${path}/${entry.name}`;
      const there = `${at}/${entry.name}`;
      if (entry.name.includes("\uFFFD")) this.leftOut.push({ path: inside, why: "its name is not UTF-8" });
      else if (NEVER.includes(entry.name))
        this.leftOut.push({ path: inside, why: "svc never sends a file of this name" });
      else if (entry.isFile()) {
        const stats = this.#statsOf(there, inside);
        if (stats) this.#take(there, inside, stats);
      } else if (entry.isDirectory()) await this.#folder(there, inside, { ...within, chain: [...within.chain, there] });
      else if (entry.isSymbolicLink()) await this.#link(there, inside, within);
      else this.leftOut.push({ path: inside, why: "it is neither a file nor a folder" });
    }
  }

  async #link(at: string, path: string, within: { top: string; chain: string[] }): Promise<void> {
    let real: string;
    let stats: Stats;
    try {
      real = realpathSync(at);
      stats = statSync(real);
    } catch (cause) {
      const code = systemCode(cause);
      if (code === "ENOENT" || code === "ELOOP") this.leftOut.push({ path, why: "the symlink is broken" });
      else this.problems.push({ path, why: whyNot(cause) });
      return;
    }
    const inside = real === within.top || real.startsWith(within.top + sep);
    const never = this.#neverData(real);
    if (never !== null) this.leftOut.push({ path, why: `the symlink leads to a file that svc never sends: ${never}` });
    else if (!inside && !this.#options.followLinks)
      this.leftOut.push({ path, why: "the symlink leaves the folder", leaves: true });
    else if (stats.isFile()) this.#take(at, path, stats);
    else if (!stats.isDirectory()) this.leftOut.push({ path, why: "the symlink leads to neither a file nor a folder" });
    else if (within.chain.some((folder) => folder === real || folder.startsWith(real + sep)))
      this.leftOut.push({ path, why: "the symlink leads to a folder that contains it" });
    else {
      const links = (this.#linksTo.get(real) ?? 0) + 1;
      this.#linksTo.set(real, links);
      if (links > LINKS_TO_FOLDER_MAX)
        throw new SvcError("data_path_refused", {
          path: real,
          why: `more than ${LINKS_TO_FOLDER_MAX} symlinks lead to this folder, each by another way`,
        });
      await this.#folder(real, path, { ...within, chain: [...within.chain, real] });
    }
  }

  #statsOf(at: string, path: string): Stats | null {
    try {
      const stats = statSync(at, { throwIfNoEntry: false });
      if (!stats) return null; // it vanished since it was listed
      if (stats.isFile()) return stats;
      this.leftOut.push({ path, why: "it is not a plain file" });
    } catch (cause) {
      this.problems.push({ path, why: whyNot(cause) });
    }
    return null;
  }

  #take(at: string, path: string, { size, mtimeMs, ctimeMs, ino }: Stats): void {
    if (this.files.length >= FILES_MAX)
      throw new SvcError("data_path_refused", {
        path: at,
        why: `data may hold at most ${FILES_MAX} files; use archives`,
      });
    this.files.push({ path, at, size, mtimeMs, ctimeMs, ino });
    this.bytes += size;
  }

  async #turn(): Promise<void> {
    this.#options.progress?.({ files: this.files.length, bytes: this.bytes });
    await new Promise((resolve) => setImmediate(resolve));
    this.#options.signal.throwIfAborted();
    this.#sliceEndsAt = performance.now() + SLICE_MS;
  }
}

const whyNot = (cause: unknown): string => (isMissing(cause) ? "it is not there" : systemWords(cause));

/** The folder in which git-annex keeps the files of a set; the files themselves are symlinks into it. */
const ANNEX = `${sep}.git${sep}annex${sep}objects${sep}`;

/** Returns a function that says why a real path is never data, or null if it may be. */
export function neverDataOf(svcHome: string): (real: string) => string | null {
  const home = realOr(svcHome);
  const named = knownUserHome();
  const user = named === null ? null : realOr(named);
  return (real) => {
    if (holds(real, sep) || (user !== null && holds(real, user))) return "it is or holds your home directory";
    if (holds(real, home) || holds(home, real)) return "it is, contains or is below the home of svc";
    const names = real.replace(ANNEX, sep).split(sep);
    const name = names.find((each) => NEVER.includes(each));
    return name === undefined ? null : `it is or is below a folder called ${name}`;
  };
}

const holds = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

function realOr(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

/** The path on this computer of a file of the data; null if none of its roots can contain it. */
export function placeBelow(roots: readonly Root[], path: string): string | null {
  for (const { path: at, into, folder } of roots) {
    if (!folder && path === into) return at;
    if (folder && into === "") return join(at, path);
    if (folder && path.startsWith(`${into}/`)) return join(at, path.slice(into.length + 1));
  }
  return null;
}
