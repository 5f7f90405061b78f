// Moves files of checkpoints from a machine to their local place.

import { hash } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { isMissing, nullIfMissing, SvcError } from "../../errors/index.ts";
import type { RemoteFile } from "../../providers/host.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import { DEPTH_MAX } from "./names.ts";
import type { CheckpointHost } from "./home-names.ts";

/** The folder next to the local files for downloads in progress. */
export const STAGING = ".svc-partial";
/** Names of svc's own files, which are never checkpoints. */
export const isOurs = (name: string): boolean => name.startsWith(".svc-");
export const NAME_CHARS = 24;
const BATCH_BYTES = 1024 ** 3;
/**
 * Small files are bound by latency, so this many are downloaded in parallel. On a slow line the log must not wait for
 * more than this many bytes.
 */
const AT_ONCE = 48;
const AT_ONCE_BYTES = 1 << 20;

/** In order, many small files in parallel. Returns how many were begun. @param fetch never throws */
export async function fetchMany(
  files: readonly RemoteFile[],
  mayGoOn: () => boolean,
  fetch: (file: RemoteFile) => Promise<void>,
): Promise<number> {
  const flying = new Set<Promise<void>>();
  let [begun, bytes] = [0, 0];
  for (const file of files) {
    while (flying.size > 0 && (flying.size >= AT_ONCE || bytes + storedBytes(file) > AT_ONCE_BYTES))
      await Promise.race(flying);
    if (!mayGoOn()) break;
    begun++;
    bytes += storedBytes(file);
    const one = fetch(file).then(() => {
      flying.delete(one);
      bytes -= storedBytes(file);
    });
    flying.add(one);
  }
  await Promise.all(flying);
  return begun;
}

/** Small files first, so that none waits for a huge one or is lost with it; each batch costs one more listing. */
export function batches(files: RemoteFile[]): RemoteFile[][] {
  const cut: RemoteFile[][] = [];
  let bytes = Infinity;
  for (const file of files.toSorted((a, b) => storedBytes(a) - storedBytes(b))) {
    if (bytes + storedBytes(file) > BATCH_BYTES) {
      cut.push([]);
      bytes = 0;
    }
    cut.at(-1)?.push(file);
    bytes += storedBytes(file);
  }
  return cut;
}

/** The local checkpoints, in order of path: plain files only, symlinks not followed. */
export async function readCheckpoints(targetDir: string): Promise<CheckpointFile[]> {
  const files: CheckpointFile[] = [];
  const walk = async (path: string, depth: number): Promise<void> => {
    const entries = await readdir(join(targetDir, path), { withFileTypes: true }).catch(unless("ENOENT"));
    for (const entry of entries ?? []) {
      if (isOurs(entry.name)) continue;
      const inside = path === "" ? entry.name : `${path}/${entry.name}`;
      const stats = await lstat(join(targetDir, inside)).catch(nullIfMissing);
      if (stats?.isDirectory() && depth < DEPTH_MAX) await walk(inside, depth + 1);
      else if (stats?.isFile()) files.push(asRecord(inside, stats.size, stats.mtimeMs));
    }
  };
  await walk("", 1);
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Makes the folders of `path`, and adds each to `folders`. A file in the way is older than the file that needs them: it
 * is deleted, and `removed` gets its path.
 */
export async function makeFolders(
  targetDir: string,
  path: string,
  folders: Set<string>,
  removed: string[],
): Promise<void> {
  const names = path.split("/").slice(0, -1);
  let folder = targetDir;
  folders.add(folder);
  for (const [i, name] of names.entries()) {
    folder = join(folder, name);
    await mkdir(folder, { mode: 0o700 }).catch(unless("EEXIST"));
    if (!(await lstat(folder)).isDirectory()) {
      await rm(folder, { force: true });
      removed.push(names.slice(0, i + 1).join("/"));
      await mkdir(folder, { mode: 0o700 });
    }
    folders.add(folder);
  }
}

/**
 * Renames a file into its place. A folder of that name is older, and is deleted; `removed` gets the paths of its files.
 */
export async function placeFile(
  targetDir: string,
  path: string,
  beside: string,
  { folders, removed }: { folders: Set<string>; removed: string[] },
): Promise<void> {
  await makeFolders(targetDir, path, folders, removed);
  const target = join(targetDir, path);
  const there = await lstat(target).catch(nullIfMissing);
  if (there?.isDirectory()) {
    for (const file of await readCheckpoints(target)) removed.push(`${path}/${file.path}`);
    await rm(target, { recursive: true, force: true });
  }
  await rename(beside, target);
}

/** False if the file is gone or differs in length from the listing. */
export async function fetchOne(
  host: CheckpointHost,
  file: RemoteFile,
  beside: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await host.fetchCheckpoint(file, beside, signal);
  } catch (cause) {
    if (isMissing(cause) || (cause instanceof SvcError && cause.code === "file_not_found")) return false;
    throw cause;
  }
  return await asListed(file, beside);
}

/** Sets the mode and time of a download, and syncs it to the disk. False if its length differs from the listing. */
export async function asListed(file: Pick<RemoteFile, "size" | "mtimeMs">, beside: string): Promise<boolean> {
  const stats = await lstat(beside).catch(nullIfMissing);
  if (!stats?.isFile() || stats.size !== file.size) return false;
  const handle = await open(beside, constants.O_RDWR | constants.O_NOFOLLOW);
  try {
    await handle.chmod(0o600);
    await handle.utimes(file.mtimeMs / 1_000, file.mtimeMs / 1_000);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return true;
}

/** The bytes of a file that travel: holes do not. */
const storedBytes = ({ size, stored }: RemoteFile): number => stored ?? size;

/** The bytes that are left to download after an interrupted attempt. */
export async function stillToCome(file: RemoteFile, beside: string): Promise<number> {
  const part = await lstat(`${beside}.part`).catch(nullIfMissing);
  return Math.max(0, storedBytes(file) - (part === null ? 0 : part.blocks * 512));
}

export const isLink = ({ leadsTo }: RemoteFile): boolean => leadsTo !== undefined;

/** Equal for equal content, as far as a listing can tell. */
export const nameBeside = ({ path, size, mtimeMs, inode }: RemoteFile): string =>
  hash("sha256", JSON.stringify([path, size, mtimeMs, inode]), "hex").slice(0, NAME_CHARS);

/** A file gets this name only once it is complete and synced. */
export const isBeside = async (beside: string, file: RemoteFile): Promise<boolean> =>
  isCopyOf(file, await lstat(beside).catch(nullIfMissing));

/** Stats of a local file; null if it does not exist, or is behind a symlink. */
export async function homeStats(targetDir: string, path: string): Promise<Stats | null> {
  const names = path.split("/");
  for (let i = 1; i < names.length; i++) {
    const folder = await lstat(join(targetDir, ...names.slice(0, i))).catch(nullIfMissing);
    if (!folder?.isDirectory()) return null;
  }
  return lstat(join(targetDir, path)).catch(nullIfMissing);
}

/** Half a millisecond is more than times lose in the conversion to a double. */
export const isCopyOf = (file: RemoteFile, stats: Stats | null): boolean =>
  stats?.isFile() === true && stats.size === file.size && Math.abs(stats.mtimeMs - file.mtimeMs) < 0.5;

export const same = (a: RemoteFile, b: RemoteFile): boolean =>
  a.size === b.size && a.mtimeMs === b.mtimeMs && a.inode === b.inode;

export function asRecord(path: string, size: number, mtimeMs: number): CheckpointFile {
  return { path, size, modified_at: new Date(mtimeMs).toISOString() };
}

export async function flushFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function unless(code: string): (cause: NodeJS.ErrnoException) => undefined {
  return (cause) => {
    if (cause.code !== code) throw cause;
    return undefined;
  };
}
