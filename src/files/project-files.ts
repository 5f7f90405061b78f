// Which files of a project directory belong to a run: what git would take, less what is never meant to leave the computer.
//
// P1. `.gitignore` files count as git counts them, nested ones and those above the project in its repository included.
//     `.svcignore` files have the same form and have the last word over them.
// P2. Version control, keys and logins are left out (NEVER and BY_DEFAULT below). Only a `.svcignore` can take back the
//     second kind, with `!name`.
// P3. Plain files only. A link into the project stands for what it leads to; one that leads outside is left out, with a note.
// P4. A directory that holds more than a project is refused: the root, the home of the user or of svc, and all above them;
//     so is what lies in the home of svc.

import {
  closeSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  type Stats,
} from "node:fs";
import { access, constants, realpath, stat, statfs } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, relative, resolve, sep } from "node:path";
import { IgnoreRules } from "../domain/gitignore.ts";
import { messageOf, SvcError } from "../errors/index.ts";

export const PROJECT_FILES_MAX = 200_000;
export const PROJECT_BYTES_MAX = 10 * 1024 ** 3;
/** How long the walk may hold the event loop before it lets others go on. */
const SLICE_MS = 8;
const IGNORE_FILE_BYTES_MAX = 1024 * 1024;

/** Left out whatever any file says. */
export const NEVER = [".git", ".hg", ".svn", ".ssh", ".gnupg", ".aws", ".kube", ".svc"];
/** Left out unless a `.svcignore` takes them back. */
export const BY_DEFAULT = [
  ".env",
  ".env.*",
  "!.env.example",
  "!.env.sample",
  "!.env.template",
  ".envrc",
  ".netrc",
  ".pgpass",
  ".pypirc",
  ".git-credentials",
  ".npmrc",
  ".docker/",
  ".azure/",
  ".boto",
  ".s3cfg",
  ".htpasswd",
  ".vault-token",
  "**/.config/gcloud/",
  "*.tfstate",
  "*.kdbx",
  "id_rsa*",
  "id_dsa*",
  "id_ecdsa*",
  "id_ed25519*",
  "*.pem",
  "*.p12",
  "*.pfx",
  "*.ppk",
  "node_modules/",
  "__pycache__/",
  "*.pyc",
  ".venv/",
  "venv/",
  ".ipynb_checkpoints/",
  ".mypy_cache/",
  ".pytest_cache/",
  ".ruff_cache/",
  ".tox/",
  ".DS_Store",
  "Thumbs.db",
];

/** proc, sysfs, cgroup 1 and 2, debugfs, tracefs. */
const KERNEL_FILE_SYSTEMS = new Set([0x9fa0, 0x62656572, 0x27e0eb, 0x63677270, 0x64626720, 0x74726163]);

const LEFT_OUT = "the link leads to what is left out";
const never = new IgnoreRules(NEVER.join("\n"));
const byDefault = new IgnoreRules(BY_DEFAULT.join("\n"));

export interface ProjectFile {
  /** Relative to the project directory, with `/`. */
  path: string;
  size: number;
  executable: boolean;
}

/** How much a project may hold before it is refused. */
export interface ProjectBounds {
  filesMax: number;
  bytesMax: number;
}

export interface ProjectListing {
  /** In order of path. */
  files: ProjectFile[];
  bytes: number;
  /** What a person might miss: links that lead outside or nowhere, pipes, names that are not UTF-8. */
  skipped: { path: string; why: string }[];
}

/**
 * The real path of a directory that may be sent, or `project_dir_refused` with the reason.
 * @param svcHome the home of this control plane; it and everything above and below it is refused.
 */
export async function checkProjectDir(projectDir: string, svcHome: string): Promise<string> {
  const refuse = (why: string, cause?: unknown) =>
    new SvcError("project_dir_refused", { project_dir: projectDir, why }, { cause });
  let real: string;
  try {
    real = await realpath(projectDir);
    if (!(await stat(real)).isDirectory()) throw refuse("is not a directory");
    await access(real, constants.R_OK | constants.X_OK);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw refuse(whyUnreadable(cause), cause);
  }
  // Their files have no end, or answer differently to every reader; among them are the environments of processes.
  if (KERNEL_FILE_SYSTEMS.has((await statfs(real)).type))
    throw refuse("is no directory of files but a window into the kernel");
  if (real === dirname(real)) throw refuse("is the root of the file system");
  if (isWithin(real, await realOrSame(homedir()))) throw refuse("is or holds your home directory");
  const home = await realOrSame(svcHome);
  if (isWithin(real, home) || isWithin(home, real))
    throw refuse("is, holds or lies in the home of svc, with its credentials");
  return real;
}

/**
 * The files of a project (see P1 to P3). Throws `project_dir_refused` above the bounds.
 * @param root a real path, as `checkProjectDir` gives it.
 */
export async function listProject(
  root: string,
  bounds: ProjectBounds = { filesMax: PROJECT_FILES_MAX, bytesMax: PROJECT_BYTES_MAX },
): Promise<ProjectListing> {
  const walk = new Walk(root, bounds);
  const { prefix, frames } = rulesAbove(root);
  await walk.folder("", prefix, frames, [], [root]);
  const files = walk.files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { files, bytes: walk.bytes, skipped: walk.skipped };
}

/** The rules of one ignore file, and the folder that it lies in (in paths from the top of the repository). */
interface Frame {
  base: string;
  rules: IgnoreRules;
}

class Walk {
  readonly files: ProjectFile[] = [];
  readonly skipped: { path: string; why: string }[] = [];
  bytes = 0;
  #entries = 0;
  #sliceEnd = performance.now() + SLICE_MS;
  readonly #root: string;
  readonly #bounds: ProjectBounds;

  constructor(root: string, bounds: ProjectBounds) {
    this.#root = root;
    this.#bounds = bounds;
  }

  /**
   * @param path of the folder from the project; `full` is the same from the top of the repository.
   * @param chain the real paths of the folders being walked: a link back into it would never end.
   */
  async folder(path: string, full: string, git: Frame[], svc: Frame[], chain: string[]): Promise<void> {
    if (performance.now() > this.#sliceEnd) {
      await new Promise((resume) => setImmediate(resume));
      this.#sliceEnd = performance.now() + SLICE_MS;
    }
    const folder = join(this.#root, path);
    let entries;
    try {
      entries = readdirSync(folder, { withFileTypes: true });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return;
      throw this.#refuse(`holds the folder ${path}, which ${whyUnreadable(cause)}`, cause);
    }
    const names = new Set(entries.map((entry) => entry.name));
    const gitHere = names.has(".gitignore")
      ? [...git, { base: full, rules: readRules(join(folder, ".gitignore")) }]
      : git;
    const svcHere = names.has(".svcignore")
      ? [...svc, { base: full, rules: readRules(join(folder, ".svcignore")) }]
      : svc;
    for (const { name } of entries) {
      const entryPath = path === "" ? name : `${path}/${name}`;
      const entryFull = full === "" ? name : `${full}/${name}`;
      if (never.decide(name, false)) continue;
      const found = this.#look(entryPath, chain);
      if (found === null || leftOut(entryFull, found.stats.isDirectory(), gitHere, svcHere)) continue;
      if (found.note !== undefined) {
        this.skipped.push({ path: entryPath, why: found.note });
      } else if (found.stats.isDirectory()) {
        this.#count();
        await this.folder(entryPath, entryFull, gitHere, svcHere, [...chain, found.real]);
      } else {
        this.#count(found.stats.size);
        this.files.push({ path: entryPath, size: found.stats.size, executable: (found.stats.mode & 0o111) !== 0 });
      }
    }
  }

  /** What is at `path`, through a link that stays inside; a `note` says why it cannot be taken. Null when it vanished. */
  #look(path: string, chain: string[]): { stats: Stats; real: string; note?: string } | null {
    const absolute = join(this.#root, path);
    let own: Stats;
    try {
      own = lstatSync(absolute);
    } catch {
      if (path.includes("\ufffd")) this.skipped.push({ path, why: "its name is not UTF-8" });
      return null;
    }
    if (own.isFile() || own.isDirectory()) {
      const real = join(chain.at(-1)!, path.slice(path.lastIndexOf("/") + 1));
      // In a folder that a link leads to, it has another name as well.
      const hidden = real !== absolute && byDefault.decide(relative(this.#root, real), own.isDirectory());
      return hidden ? { stats: own, real, note: LEFT_OUT } : { stats: own, real };
    }
    if (!own.isSymbolicLink()) return { stats: own, real: absolute, note: "it is neither a file nor a folder" };
    try {
      const real = realpathSync(absolute);
      const stats = statSync(real);
      const inside = relative(this.#root, real);
      if (!isWithin(this.#root, real)) return { stats: own, real, note: "the link leads outside of the project" };
      const names = inside.split(sep);
      const places = names.map((_, i) => names.slice(0, i + 1).join("/"));
      if (places.some((place) => never.decide(place, true) || byDefault.decide(place, true))) {
        return { stats: own, real, note: LEFT_OUT };
      }
      if (chain.includes(real)) return { stats: own, real, note: "the link leads back to a folder that it lies in" };
      if (!stats.isFile() && !stats.isDirectory())
        return { stats: own, real, note: "it is neither a file nor a folder" };
      return { stats, real };
    } catch {
      return { stats: own, real: absolute, note: "the link leads nowhere" };
    }
  }

  #count(bytes = 0): void {
    this.bytes += bytes;
    if (++this.#entries > this.#bounds.filesMax) throw this.#refuse(`holds more than ${this.#bounds.filesMax} files`);
    if (this.bytes > this.#bounds.bytesMax) {
      throw this.#refuse(
        `holds more than ${(this.#bounds.bytesMax / 1024 ** 3).toPrecision(2)} GiB; leave data out with a .svcignore`,
      );
    }
  }

  #refuse(why: string, cause?: unknown): SvcError {
    return new SvcError("project_dir_refused", { project_dir: this.#root, why }, { cause });
  }
}

/** `.svcignore` decides, then the defaults, then git; within each the deepest file. */
function leftOut(full: string, isFolder: boolean, git: Frame[], svc: Frame[]): boolean {
  return (
    decideBy(svc, full, isFolder) ?? (byDefault.decide(full, isFolder) || (decideBy(git, full, isFolder) ?? false))
  );
}

function decideBy(frames: Frame[], full: string, isFolder: boolean): boolean | undefined {
  for (let i = frames.length - 1; i >= 0; i--) {
    const { base, rules } = frames[i]!;
    const said = rules.decide(base === "" ? full : full.slice(base.length + 1), isFolder);
    if (said !== undefined) return said;
  }
  return undefined;
}

/** The folder that holds `.git`, at or above `dir`; null outside of any repository. */
export function gitTop(dir: string): string | null {
  for (let at = dir; ; at = dirname(at)) {
    if (lstatSync(join(at, ".git"), { throwIfNoEntry: false })) return at;
    if (at === dirname(at)) return null;
  }
}

/** Rules that come from above a project: its repository's exclude file, and `.gitignore`s of the folders above it. */
function rulesAbove(root: string): { prefix: string; frames: Frame[] } {
  const top = gitTop(root);
  if (top === null) return { prefix: "", frames: [] };
  const names = relative(top, root)
    .split(sep)
    .filter((name) => name !== "");
  const frames: Frame[] = [{ base: "", rules: readRules(join(top, ".git", "info", "exclude")) }];
  names.forEach((_, i) => {
    const base = names.slice(0, i).join("/");
    frames.push({ base, rules: readRules(join(top, base, ".gitignore")) });
  });
  return { prefix: names.join("/"), frames };
}

/** A file that is not there, too large, or no plain file has no rules. */
function readRules(path: string): IgnoreRules {
  let fd: number | undefined;
  try {
    // NONBLOCK: a pipe in its place, also one that came since it was looked at, would hold up the whole process.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(fd);
    if (stats.isFile() && stats.size <= IGNORE_FILE_BYTES_MAX) return new IgnoreRules(readFileSync(fd, "utf8"));
  } catch {
    // Not there.
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
  return new IgnoreRules("");
}

/** In words that follow the name of what cannot be read. */
export function whyUnreadable(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException | null)?.code;
  if (code === "ENOENT") return "does not exist";
  if (code === "ENOTDIR") return "lies below a file";
  if (code === "EACCES" || code === "EPERM") return "cannot be read: permission denied";
  if (code === "ELOOP") return "is a link that leads to itself";
  return `cannot be read: ${messageOf(cause)}`;
}

/** Whether `path` is `folder` or lies below it. Both absolute and without `..`. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

export const realOrSame = (path: string): Promise<string> => realpath(path).catch(() => resolve(path));
