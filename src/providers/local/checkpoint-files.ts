// Checkpoint files of a local run: plain files below one folder, inspected with lstat, so that nothing outside is
// listed or copied through a symlink. A symlink to a plain file of that folder is listed with the path of that file,
// which is copied instead.

import { constants, type Dirent, type Stats } from "node:fs";
import { access, chmod, lstat, open, readdir, readlink, realpath, rename, rm, type FileHandle } from "node:fs/promises";
import { dirname, isAbsolute, join, normalize, relative } from "node:path";
import { copyWithHoles } from "../../platform/copy-with-holes.ts";
import { systemPath, textOfName } from "../../domain/file-names.ts";
import { hashOf } from "../../platform/hash-of.ts";
import { isMissing, SvcError, UnreadableFile, systemCode } from "../../errors/index.ts";
import type { Piece, PieceRequest, RemoteFile } from "../host.ts";

const FILES_MAX = 100_000;
const DEPTH_MAX = 32;

/**
 * Every plain file below `folder`, in order of path, and symlinks to one. Sockets, pipes and devices are skipped. An
 * unreadable file, and a symlink to anything else, is listed with the reason: one such name must not prevent the
 * download of the others.
 */
export async function listFiles(
  folder: string,
  signal: AbortSignal,
  bounds: { filesMax: number } = { filesMax: FILES_MAX },
): Promise<RemoteFile[]> {
  const files: RemoteFile[] = [];
  let full = false;
  const refuse = (path: string, refused: string, more: { isLink?: true } = {}): void => {
    files.push({ path, size: 0, mtimeMs: 0, inode: 0, refused, ...more });
  };
  const walk = async (below: string, depth: number): Promise<void> => {
    signal.throwIfAborted();
    let entries: Dirent<Buffer>[];
    try {
      entries = await readdir(systemPath(join(folder, below)), { withFileTypes: true, encoding: "buffer" });
    } catch (thrown) {
      if (isMissing(thrown)) return; // rotated away meanwhile
      const why = whyUnreadable(thrown);
      if (below === "" || why === null) throw thrown;
      return refuse(below, why);
    }
    for (const entry of entries.sort((a, b) => Buffer.compare(a.name, b.name))) {
      if (full) return;
      const name = textOfName(entry.name);
      const path = below === "" ? name : `${below}/${name}`;
      if (entry.isDirectory()) {
        if (depth < DEPTH_MAX) await walk(path, depth + 1);
        else refuse(path, `it is more than ${DEPTH_MAX} folders deep`);
      }
      if (!entry.isFile() && !entry.isSymbolicLink()) continue;
      if (files.length >= bounds.filesMax) {
        full = true;
        return refuse(path, `it and what follows it are beyond the first ${bounds.filesMax} files`);
      }
      if (entry.isSymbolicLink()) {
        const found = await linked(folder, path);
        if (typeof found === "string") refuse(path, found, { isLink: true });
        else if (found !== null) files.push(found);
        continue;
      }
      const stat = await lstat(systemPath(join(folder, path))).catch((thrown: unknown) => whyUnreadable(thrown));
      if (typeof stat === "string") refuse(path, stat);
      else if (stat?.isFile()) {
        const readable = await mayRead(systemPath(join(folder, path)), stat);
        if (readable) files.push({ path, ...numbersOf(stat) });
        else refuse(path, "it cannot be read: permission denied");
      }
    }
  };
  // A symlink in its place would make this computer's own files look like checkpoints.
  const top = await lstat(folder).catch(() => null);
  if (top?.isSymbolicLink()) refuse("(all)", "the checkpoint directory was replaced by a link");
  else await walk("", 0);
  return files;
}

/** The target of a symlink in `folder`; or why it does not count as a file; null if the symlink is gone. */
async function linked(folder: string, path: string): Promise<RemoteFile | string | null> {
  const target = await readlink(systemPath(join(folder, path)), { encoding: "buffer" }).catch(() => null);
  if (target === null) return null;
  const leadsTo = await ledTo(folder, path, textOfName(target));
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

/** The path below `folder` to which a symlink points, by its text; null if it leaves the folder. */
async function ledTo(folder: string, path: string, target: string): Promise<string | null> {
  const isOut = (to: string): boolean => to === ".." || to.startsWith("../");
  // The script may use another name of the folder.
  const tries = isAbsolute(target)
    ? [folder, await realpath(folder).catch(() => folder)].map((top) => relative(top, target) || ".")
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
