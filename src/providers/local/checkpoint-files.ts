// Checkpoint files of a local run: plain files below one folder, inspected with lstat, so that nothing outside is
// listed or copied through a symlink. A symlink to a plain file of that folder is listed with the path of that file,
// which is copied instead.

import { constants, type Dirent, type Stats } from "node:fs";
import { access, chmod, lstat, open, readdir, readlink, realpath, rename, rm, type FileHandle } from "node:fs/promises";
import { dirname, isAbsolute, join, normalize, relative } from "node:path";
import { copyWithHoles } from "../../platform/copy-with-holes.ts";
import { CHECKPOINT_FILES_MAX } from "../../domain/checkpoint-bounds.ts";
import { systemPath, textOfName } from "../../domain/file-names.ts";
import { hashOf } from "../../platform/hash-of.ts";
import { isMissing, SvcError, UnreadableFile, systemCode } from "../../errors/index.ts";
import type { Piece, PieceRequest, RemoteFile } from "../host.ts";

const DEPTH_MAX = 32;
/** In each folder so many names that cannot be downloaded are listed by themselves; one row stands for the others. */
const REFUSED_MAX = 10;
const REFUSED_ROWS_MAX = 100_000;
/** The walk ends after so many names that cannot be downloaded: each costs a look. */
const NAMES_MAX = 500_000;

export interface ListingBounds {
  filesMax?: number;
  namesMax?: number;
  /** Files and folders that the script announced: they come first if the bounds leave anything out. */
  announced?: readonly string[];
}

/**
 * Every plain file below `folder`, and symlinks to one; the files of a folder, in order of name, come before those of
 * its subfolders. Sockets, pipes and devices are skipped. An unreadable file, and a symlink to anything else, is listed
 * with the reason: one such name must not prevent the download of the others, nor take the place of one.
 */
export async function listFiles(
  folder: string,
  signal: AbortSignal,
  { filesMax = CHECKPOINT_FILES_MAX, namesMax = NAMES_MAX, announced = [] }: ListingBounds = {},
): Promise<RemoteFile[]> {
  // A symlink in its place would make this computer's own files look like checkpoints.
  const top = await lstat(folder).catch(() => null);
  if (top?.isSymbolicLink()) return [refusal("(all)", "the checkpoint directory was replaced by a link")];
  const listing = new Listing(folder, signal, filesMax, namesMax);
  await listing.addAll();
  if (!listing.isFull || announced.length === 0) return listing.rows;
  const again = new Listing(folder, signal, filesMax, namesMax);
  await again.addNamed(announced);
  await again.addAll();
  return again.rows;
}

const refusal = (path: string, refused: string): RemoteFile => ({ path, size: 0, mtimeMs: 0, inode: 0, refused });

/** The names of one folder that cannot be downloaded. */
interface Refused {
  rows: number;
  /** The row that stands for the names without a row, and how many more they are. */
  other: RemoteFile | null;
  more: number;
}
const noneRefused = (): Refused => ({ rows: 0, other: null, more: 0 });

/** The same as runner/svc_agent/checkpoints.py lists on a machine. */
class Listing {
  readonly rows: RemoteFile[] = [];
  isFull = false;
  readonly #folder: string;
  /** Its name without symlinks. */
  readonly #real: Promise<string>;
  readonly #signal: AbortSignal;
  readonly #filesMax: number;
  readonly #namesMax: number;
  #files = 0;
  #names = 0;
  #refusedRows = 0;
  /** Announced names that are listed. */
  readonly #listed = new Set<string>();

  constructor(folder: string, signal: AbortSignal, filesMax: number, namesMax: number) {
    this.#folder = folder;
    this.#real = realpath(folder).catch(() => folder);
    this.#signal = signal;
    this.#filesMax = filesMax;
    this.#namesMax = namesMax;
  }

  /** Everything that is not listed yet. */
  async addAll(): Promise<void> {
    if (!this.isFull) await this.#walk("", 0);
  }

  /** Announced names: the files first, each of which needs one place. */
  async addNamed(announced: readonly string[]): Promise<void> {
    const folders: string[] = [];
    for (const path of announced) {
      this.#signal.throwIfAborted();
      const names = path.split("/");
      if (names.some((name) => name === "" || name === "." || name === ".." || name.includes("\0"))) continue;
      if (names.length > DEPTH_MAX || this.#isListed(path) || !(await this.#hasFolders(names.slice(0, -1)))) continue;
      const stat = await lstat(systemPath(join(this.#folder, path))).catch(() => null);
      if (stat?.isDirectory()) folders.push(path);
      if (!stat?.isFile() && !stat?.isSymbolicLink()) continue;
      const refused = noneRefused();
      await this.#addFile(path, stat.isSymbolicLink(), refused);
      if (this.isFull) return;
      this.#listed.add(path);
    }
    for (const path of folders) {
      if (this.#isListed(path)) continue;
      await this.#walk(path, path.split("/").length);
      if (this.isFull) return;
      this.#listed.add(path);
    }
  }

  /** Returns why the folder cannot be read. */
  async #walk(below: string, depth: number): Promise<string | null> {
    this.#signal.throwIfAborted();
    let entries: Dirent<Buffer>[];
    try {
      const options = { withFileTypes: true, encoding: "buffer" } as const;
      entries = await readdir(systemPath(join(this.#folder, below)), options);
    } catch (thrown) {
      if (isMissing(thrown)) return null; // rotated away meanwhile
      const why = whyUnreadable(thrown);
      if (below === "" || why === null) throw thrown;
      return why;
    }
    entries.sort((a, b) => Buffer.compare(a.name, b.name));
    const refused = noneRefused();
    const pathOf = (entry: Dirent<Buffer>): string =>
      below === "" ? textOfName(entry.name) : `${below}/${textOfName(entry.name)}`;
    for (const entry of entries) {
      if (this.isFull) break;
      if (!entry.isFile() && !entry.isSymbolicLink()) continue;
      const path = pathOf(entry);
      if (!this.#listed.has(path)) await this.#addFile(path, entry.isSymbolicLink(), refused);
    }
    for (const entry of entries) {
      if (this.isFull) break;
      if (!entry.isDirectory()) continue;
      const path = pathOf(entry);
      if (this.#listed.has(path)) continue;
      const deep = `it is more than ${DEPTH_MAX} folders deep`;
      const why = depth < DEPTH_MAX ? await this.#walk(path, depth + 1) : deep;
      if (why !== null) this.#refuse(path, why, false, refused);
    }
    if (refused.other !== null && refused.more > 0) {
      const names = refused.more === 1 ? "name" : "names";
      refused.other.others = refused.more;
      refused.other.refused += `; ${refused.more} more ${names} of its folder cannot be downloaded either`;
    }
    if (refused.other !== null) this.rows.push(refused.other);
    return null;
  }

  async #addFile(path: string, isLink: boolean, refused: Refused): Promise<void> {
    const found = isLink ? await linked(this.#folder, await this.#real, path) : await this.#plain(path);
    if (found === null) return;
    if (typeof found === "string") return this.#refuse(path, found, isLink, refused);
    if (this.#files >= this.#filesMax) return this.#end(path, `are beyond the first ${this.#files} files`);
    this.#files++;
    this.rows.push(found);
  }

  async #plain(path: string): Promise<RemoteFile | string | null> {
    const full = systemPath(join(this.#folder, path));
    const stat = await lstat(full).catch((thrown: unknown) => whyUnreadable(thrown));
    if (stat === null || typeof stat === "string") return stat;
    if (!stat.isFile()) return null;
    return (await mayRead(full, stat)) ? { path, ...numbersOf(stat) } : "it cannot be read: permission denied";
  }

  #refuse(path: string, why: string, isLink: boolean, refused: Refused): void {
    if (this.#names >= this.#namesMax || this.#refusedRows >= REFUSED_ROWS_MAX)
      return this.#end(path, `come after ${this.#names} names that cannot be downloaded`);
    this.#names++;
    const row: RemoteFile = { ...refusal(path, why), ...(isLink && { isLink }) };
    if (refused.other !== null) {
      refused.more++;
      if (!isLink) delete refused.other.isLink;
      return;
    }
    this.#refusedRows++;
    if (refused.rows++ < REFUSED_MAX) this.rows.push(row);
    else refused.other = row;
  }

  #end(path: string, why: string): void {
    this.isFull = true;
    this.rows.push({ ...refusal(path, `it and what follows it ${why}`), isLimit: true });
  }

  #isListed(path: string): boolean {
    for (let at = path.length; at > 0; at = path.lastIndexOf("/", at - 1))
      if (this.#listed.has(path.slice(0, at))) return true;
    return false;
  }

  async #hasFolders(names: readonly string[]): Promise<boolean> {
    for (let i = 1; i <= names.length; i++) {
      const stat = await lstat(systemPath(join(this.#folder, ...names.slice(0, i)))).catch(() => null);
      if (!stat?.isDirectory()) return false;
    }
    return true;
  }
}

/** The target of a symlink in `folder`; or why it does not count as a file; null if the symlink is gone. */
async function linked(folder: string, real: string, path: string): Promise<RemoteFile | string | null> {
  const target = await readlink(systemPath(join(folder, path)), { encoding: "buffer" }).catch(() => null);
  if (target === null) return null;
  const leadsTo = ledTo([folder, real], path, textOfName(target));
  if (leadsTo === null) return "it is a symlink that leaves the checkpoint directory";
  const names = leadsTo.split("/");
  for (let i = 1; i < names.length; i++) {
    const above = await lstat(systemPath(join(folder, ...names.slice(0, i)))).catch(() => null);
    if (above?.isDirectory() === false) return "it is a link that leads through another link";
  }
  const stat = await lstat(systemPath(join(folder, leadsTo))).catch((thrown: unknown) => whyUnreadable(thrown));
  if (typeof stat === "string") return stat;
  if (stat === null) return "it is a broken symlink";
  if (stat.isDirectory()) return "it is a symlink to a folder; the folder's files are listed under their own names";
  if (stat.isSymbolicLink()) return "it is a link that leads through another link";
  if (!stat.isFile()) return "it is a link to something other than a plain file";
  return { path, ...numbersOf(stat), leadsTo };
}

function numbersOf({ size, mtimeMs, ino, blocks }: Stats): Omit<RemoteFile, "path"> {
  const stored = blocks * 512;
  return { size, mtimeMs, inode: ino, ...(stored < size ? { stored } : {}) };
}

/** The path below the folder to which a symlink points, by its text; null if it leaves the folder. @param tops its names */
function ledTo(tops: readonly string[], path: string, target: string): string | null {
  const isOut = (to: string): boolean => to === ".." || to.startsWith("../");
  // The script may use another name of the folder.
  const tries = isAbsolute(target)
    ? tops.map((top) => relative(top, target) || ".")
    : [normalize(join(dirname(path), target)).replace(/\/+$/, "") || "."];
  return tries.find((to) => !isOut(to)) ?? null;
}

/**
 * Opens the file itself, whatever takes its name later. Throws `file_not_found` if it is gone or its path leads through
 * a symlink, `UnreadableFile` if it cannot be read. The caller closes it.
 */
async function openListed(folder: string, file: RemoteFile): Promise<FileHandle> {
  const path = file.leadsTo ?? file.path;
  const gone = (cause?: unknown): SvcError => new SvcError("file_not_found", { path: file.path }, { cause });
  if (isAbsolute(path) || normalize(path) !== path || path.split("/").includes("..")) throw gone();
  const root = await realpath(folder).catch(() => folder);
  const source = join(root, path);
  try {
    // A folder on the path that became a symlink would lead elsewhere.
    if (textOfName(await realpath(systemPath(source), { encoding: "buffer" })) !== source) throw gone();
    // NONBLOCK: opening a pipe would wait for a writer.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    return await open(systemPath(source), flags);
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    const code = systemCode(cause);
    const why = UNREADABLE[code];
    if (why !== undefined) throw new UnreadableFile("runner_failed", { why: `${file.path}: ${why}` }, { cause });
    throw isMissing(cause) || code === "ELOOP" || code === "ENXIO" ? gone(cause) : cause;
  }
}

/**
 * Copies one listed file to `target`, which then is complete or absent. Throws `file_not_found` when the file no longer
 * exists as listed; then no target is left.
 */
export async function fetchFile(folder: string, file: RemoteFile, target: string): Promise<void> {
  const temporary = `${target}.${process.pid}.part`;
  let opened: FileHandle | undefined;
  try {
    opened = await openListed(folder, file);
    unchanged(await opened.stat(), file);
    const same =
      process.platform === "linux" ? `/proc/${process.pid}/fd/${opened.fd}` : join(folder, file.leadsTo ?? file.path);
    await copyWithHoles({ from: same, to: temporary, size: file.size, stored: file.stored });
    unchanged(await opened.stat(), file);
    // The copy has the mode of the original, which may be read-only for its owner.
    await chmod(temporary, 0o600);
    const handle = await open(temporary, "r+");
    try {
      await handle.utimes(new Date(), file.mtimeMs / 1000);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, target);
  } catch (thrown) {
    await rm(temporary, { force: true });
    throw isMissing(thrown) ? new SvcError("file_not_found", { path: file.path }, { cause: thrown }) : thrown;
  } finally {
    await opened?.close();
  }
}

/** See `RunHost.readPieces`. */
export async function readPieces(folder: string, pieces: readonly PieceRequest[]): Promise<Piece[]> {
  const found: Piece[] = [];
  for (const piece of pieces) found.push(await readPiece(folder, piece).catch(() => null));
  return found;
}

async function readPiece(folder: string, { file, offset, max, checks, whole }: PieceRequest): Promise<Piece> {
  const opened = await openListed(folder, file);
  try {
    const before = await opened.stat();
    if (!before.isFile() || before.ino !== file.inode || before.size < offset) return null;
    for (const { start, end, sha256 } of checks) if ((await hashOf(opened, start, end)) !== sha256) return null;
    const length = Math.max(0, Math.min(max, before.size - offset));
    const { buffer, bytesRead } = await opened.read(Buffer.alloc(length), 0, length, offset);
    const after = await opened.stat();
    const isWritten = after.size !== before.size || after.mtimeMs !== before.mtimeMs;
    if (after.size < offset + bytesRead || (whole && isWritten)) return null;
    return { bytes: buffer.subarray(0, bytesRead), size: before.size, mtimeMs: before.mtimeMs };
  } finally {
    await opened.close();
  }
}

/** See `RunHost.hashCheckpoint`. */
export async function hashFile(folder: string, file: RemoteFile): Promise<string | null> {
  const opened = await openListed(folder, file).catch(() => null);
  if (opened === null) return null;
  try {
    unchanged(await opened.stat(), file);
    const sha256 = await hashOf(opened, 0, file.size);
    unchanged(await opened.stat(), file);
    return sha256;
  } catch (thrown) {
    if (thrown instanceof SvcError && thrown.code === "file_not_found") return null;
    throw thrown;
  } finally {
    await opened.close();
  }
}

const UNREADABLE: Readonly<Record<string, string>> = {
  EACCES: "it cannot be read: permission denied",
  EPERM: "it cannot be read: permission denied",
  EIO: "the disk cannot read it",
};

function unchanged(stat: Stats, file: RemoteFile): void {
  if (!stat.isFile() || stat.size !== file.size || stat.mtimeMs !== file.mtimeMs || stat.ino !== file.inode)
    throw new SvcError("file_not_found", { path: `${file.path} as it was listed` });
}

/** The owner's mode bits answer for nearly every file; the system is asked only for the others. */
async function mayRead(path: string | Buffer, stat: Stats): Promise<boolean> {
  const uid = process.geteuid?.() ?? 0;
  if (uid === 0 || (stat.uid === uid && (stat.mode & 0o400) !== 0)) return true;
  return access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
}

/** Null for a failure that does not concern this one name. */
function whyUnreadable(thrown: unknown): string | null {
  const code = systemCode(thrown);
  if (code === "EACCES" || code === "EPERM") return "it cannot be read: permission denied";
  if (code === "ENAMETOOLONG") return "its path is too long";
  return code === "ELOOP" ? "its path goes through a symlink" : null;
}
