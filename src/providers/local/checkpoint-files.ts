// Checkpoint files of a local run: plain files below one folder, looked at with lstat, so that nothing outside is listed
// or copied through a link.

import { constants } from "node:fs";
import { copyFile, lstat, open, readdir, realpath, rename, rm } from "node:fs/promises";
import { isAbsolute, join, normalize } from "node:path";
import { SvcError } from "../../errors/index.ts";
import type { RemoteFile } from "../host.ts";
import { isMissing } from "./spool-reader.ts";

const FILES_MAX = 100_000;
const DEPTH_MAX = 32;

/** Every plain file below `folder`, in order of path. Links, sockets, pipes and devices are left out. */
export async function listFiles(folder: string, signal: AbortSignal): Promise<RemoteFile[]> {
  const files: RemoteFile[] = [];
  const walk = async (relative: string, depth: number): Promise<void> => {
    signal.throwIfAborted();
    let entries;
    try {
      entries = await readdir(join(folder, relative), { withFileTypes: true });
    } catch (thrown) {
      if (isMissing(thrown)) return; // rotated away meanwhile
      throw thrown;
    }
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = relative === "" ? entry.name : `${relative}/${entry.name}`;
      if (entry.isDirectory() && depth < DEPTH_MAX) await walk(path, depth + 1);
      if (!entry.isFile() || files.length >= FILES_MAX) continue;
      const stat = await lstat(join(folder, path)).catch(() => null);
      if (stat?.isFile()) files.push({ path, size: stat.size, mtimeMs: stat.mtimeMs, inode: stat.ino });
    }
  };
  await walk("", 0);
  return files;
}

/**
 * Copies one listed file to `target`, which then is whole or absent. Throws `file_not_found` when it is gone and
 * `runner_failed` when it changed meanwhile; both leave no target behind.
 */
export async function fetchFile(folder: string, file: RemoteFile, target: string): Promise<void> {
  if (isAbsolute(file.path) || normalize(file.path) !== file.path || file.path.split("/").includes("..")) {
    throw new SvcError("file_not_found", { path: file.path });
  }
  const root = await realpath(folder).catch(() => folder);
  const source = join(root, file.path);
  const temporary = `${target}.${process.pid}.part`;
  try {
    // A folder on the way that became a link would lead elsewhere.
    if ((await realpath(source)) !== source) throw new SvcError("file_not_found", { path: file.path });
    await unchanged(source, file);
    await copyFile(source, temporary, constants.COPYFILE_FICLONE);
    await unchanged(source, file);
    const handle = await open(temporary, "r+");
    try {
      await handle.chmod(0o600);
      await handle.utimes(new Date(), file.mtimeMs / 1000);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, target);
  } catch (thrown) {
    await rm(temporary, { force: true });
    if (isMissing(thrown)) throw new SvcError("file_not_found", { path: file.path }, { cause: thrown });
    throw thrown;
  }
}

async function unchanged(source: string, file: RemoteFile): Promise<void> {
  const stat = await lstat(source);
  if (!stat.isFile() || stat.size !== file.size || stat.mtimeMs !== file.mtimeMs || stat.ino !== file.inode) {
    throw new SvcError("runner_failed", { why: `checkpoint ${file.path} changed while it was copied` });
  }
}
