// Checkpoint files of a local run: plain files below one folder, looked at with lstat, so that nothing outside is listed
// or copied through a link. A link to a plain file of that folder is listed with the path of that file, which is copied in its place.

import { constants, type Dirent, type Stats } from "node:fs";
import {
  access,
  chmod,
  copyFile,
  lstat,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  rm,
  type FileHandle,
} from "node:fs/promises";
import { dirname, isAbsolute, join, normalize, relative } from "node:path";
import { isMissing, SvcError, UnreadableFile } from "../../errors/index.ts";
import type { RemoteFile } from "../host.ts";

const FILES_MAX = 100_000;
const DEPTH_MAX = 32;

/**
 * Every plain file below `folder`, in order of path, and links to one. Sockets, pipes and devices are left out. What cannot be read, and a
 * link to anything else, is listed with the reason: one such name must not keep the others from coming home.
 */
export async function listFiles(
  folder: string,
  signal: AbortSignal,
  bounds: { filesMax: number } = { filesMax: FILES_MAX },
): Promise<RemoteFile[]> {
  const files: RemoteFile[] = [];
  let full = false;
  const refuse = (path: string, refused: string): void => {
    files.push({ path, size: 0, mtimeMs: 0, inode: 0, refused });
  };
  const walk = async (below: string, depth: number): Promise<void> => {
    signal.throwIfAborted();
    let entries: Dirent[];
    try {
      entries = await readdir(join(folder, below), { withFileTypes: true });
    } catch (thrown) {
      if (isMissing(thrown)) return; // rotated away meanwhile
      const why = whyUnreadable(thrown);
      if (below === "" || why === null) throw thrown;
      return refuse(below, why);
    }
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (full) return;
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory()) {
        if (depth < DEPTH_MAX) await walk(path, depth + 1);
        else refuse(path, `it lies more than ${DEPTH_MAX} folders deep`);
      }
      if (!entry.isFile() && !entry.isSymbolicLink()) continue;
      if (files.length >= bounds.filesMax) {
        full = true;
        return refuse(path, `it and what follows it are beyond the first ${bounds.filesMax} files`);
      }
      if (entry.isSymbolicLink()) {
        const found = await linked(folder, path);
        if (typeof found === "string") refuse(path, found);
        else if (found !== null) files.push(found);
        continue;
      }
      // A name that is not UTF-8 cannot be asked for; it can only be named.
      const stat = await lstat(join(folder, path)).catch((thrown: unknown) => whyUnreadable(thrown));
      if (typeof stat === "string") refuse(path, stat);
      else if (stat === null && path.includes("\ufffd")) refuse(path, "its name is not UTF-8");
      else if (stat?.isFile()) {
        const readable = await mayRead(join(folder, path), stat);
        if (readable) files.push({ path, size: stat.size, mtimeMs: stat.mtimeMs, inode: stat.ino });
        else refuse(path, "it cannot be read: permission denied");
      }
    }
  };
  // Whoever put a link in its place would have this computer's files taken for checkpoints.
  const top = await lstat(folder).catch(() => null);
  if (top?.isSymbolicLink()) refuse("(all)", "the checkpoint directory was replaced by a link");
  else await walk("", 0);
  return files;
}

/** What a link in `folder` leads to; why that is not taken for a file; null where the link is gone. */
async function linked(folder: string, path: string): Promise<RemoteFile | string | null> {
  const target = await readlink(join(folder, path)).catch(() => null);
  if (target === null) return path.includes("\ufffd") ? "its name is not UTF-8" : null;
  const leadsTo = await ledTo(folder, path, target);
  if (leadsTo === null) return "it is a link that leads out of the checkpoint directory";
  const names = leadsTo.split("/");
  for (let i = 1; i < names.length; i++) {
    const above = await lstat(join(folder, ...names.slice(0, i))).catch(() => null);
    if (above?.isDirectory() === false) return "it is a link that leads through another link";
  }
  const stat = await lstat(join(folder, leadsTo)).catch((thrown: unknown) => whyUnreadable(thrown));
  if (typeof stat === "string") return stat;
  if (leadsTo.includes("\ufffd")) return "its name is not UTF-8";
  if (stat === null) return "it is a link that leads to nothing";
  if (stat.isDirectory()) return "it is a link to a folder, whose files have their own names";
  if (stat.isSymbolicLink()) return "it is a link that leads through another link";
  if (!stat.isFile()) return "it is a link to what is no plain file";
  return { path, size: stat.size, mtimeMs: stat.mtimeMs, inode: stat.ino, leadsTo };
}

/** The path below `folder` that a link leads to, as its text says; null where it leads out. */
async function ledTo(folder: string, path: string, target: string): Promise<string | null> {
  const isOut = (to: string): boolean => to === ".." || to.startsWith("../");
  // A script may know the folder by another name.
  const tries = isAbsolute(target)
    ? [folder, await realpath(folder).catch(() => folder)].map((top) => relative(top, target) || ".")
    : [normalize(join(dirname(path), target)).replace(/\/+$/, "") || "."];
  return tries.find((to) => !isOut(to)) ?? null;
}

/**
 * Copies one listed file to `target`, which then is whole or absent. Throws `file_not_found` when it is not there any more
 * as it was listed; no target is left behind then.
 */
export async function fetchFile(folder: string, file: RemoteFile, target: string): Promise<void> {
  const path = file.leadsTo ?? file.path;
  if (isAbsolute(path) || normalize(path) !== path || path.split("/").includes("..")) {
    throw new SvcError("file_not_found", { path: file.path });
  }
  const root = await realpath(folder).catch(() => folder);
  const source = join(root, path);
  const temporary = `${target}.${process.pid}.part`;
  let opened: FileHandle | undefined;
  try {
    // A folder on the way that became a link would lead elsewhere.
    if ((await realpath(source)) !== source) throw new SvcError("file_not_found", { path: file.path });
    // From here on the open file is meant, whatever takes its name. NONBLOCK: opening a pipe would wait for a writer.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    opened = await open(source, flags).catch((cause: NodeJS.ErrnoException) => {
      const why = UNREADABLE[cause.code ?? ""];
      throw why === undefined ? cause : new UnreadableFile("runner_failed", { why: `${file.path}: ${why}` }, { cause });
    });
    unchanged(await opened.stat(), file);
    const same = process.platform === "linux" ? `/proc/self/fd/${opened.fd}` : source;
    await copyFile(same, temporary, constants.COPYFILE_FICLONE);
    unchanged(await opened.stat(), file);
    // The copy has the mode of the original, which its owner may not be allowed to write.
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
    const { code } = thrown as NodeJS.ErrnoException;
    if (isMissing(thrown) || code === "ELOOP" || code === "ENXIO")
      throw new SvcError("file_not_found", { path: file.path }, { cause: thrown });
    throw thrown;
  } finally {
    await opened?.close();
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

/** The owner's bits answer for nearly every file; only for the others the system is asked. */
async function mayRead(path: string, stat: Stats): Promise<boolean> {
  const uid = process.geteuid?.() ?? 0;
  if (uid === 0 || (stat.uid === uid && (stat.mode & 0o400) !== 0)) return true;
  return access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
}

/** Null for a failure that is not of this one name. */
function whyUnreadable(thrown: unknown): string | null {
  const { code } = thrown as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return "it cannot be read: permission denied";
  if (code === "ENAMETOOLONG") return "its path is too long";
  return code === "ELOOP" ? "its path leads through a link" : null;
}
