// Restores a snapshot's files into a folder of the user.
//
// R1. A file that differs is overwritten only with `force`. Everything is checked first: a refused restore has changed
//     nothing.
// R2. No symlink below the folder is followed. A symlink in place of a file counts as different; with `force` the
//     symlink itself is replaced. A symlink in place of a folder is always refused.
// R3. A file appears whole, with its mode, or not at all: it is written under a temporary name and moved there
//     atomically.
// R4. Only "does not exist" counts as absence. Every other error of the system is reported.

import { givenUmask } from "../../platform/own-umask.ts";
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { chmod, copyFile, link, lstat, mkdir, open, realpath, rename, rm } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { isInside } from "../../domain/relative-path.ts";
import { isDiskFull, SvcError, systemCode } from "../../errors/index.ts";
import type { CodeFile, CodeSnapshot } from "../../schemas/job.ts";
import { blobPath, damaged, hashFile, isKept, type KeptFile } from "./contents.ts";

export interface RestoreRequest {
  codeDir: string;
  snapshot: CodeSnapshot;
  /** Created if missing; may itself be a symlink. */
  directory: string;
  /** Files that differ are replaced. */
  force: boolean;
}

export interface Restored {
  directory: string;
  /** The files that were written. */
  written: string[];
  /** Restored files that replaced an existing file. */
  replaced: string[];
  /** How many files already existed unchanged. */
  same: number;
  /** Files whose content was not kept: they are not restored, and existing files at their paths stay untouched. */
  not_kept: string[];
}

type Found = "absent" | "same" | "different";
const NAMED_MAX = 10;

/** Throws `restore_refused` (nothing was changed), `code_snapshot_damaged`, `disk_full`. */
export async function restoreInto(request: RestoreRequest): Promise<Restored> {
  const { snapshot, codeDir, force } = request;
  const odd = snapshot.files.find((file) => !isInside(file.path));
  if (odd) throw damaged(snapshot.id, odd, "leads out of the project");
  const root = await rootOf(request.directory);
  const found = new Map<KeptFile, Found>();
  const kept = snapshot.files.filter(isKept);
  for (const file of kept) {
    // Checked before anything is written, so that a missing content is found while nothing has changed.
    if ((await hashFile(blobPath(codeDir, file.sha256)).catch(absent)) !== file.sha256)
      throw damaged(snapshot.id, file, "is missing or has changed");
    found.set(file, await look(root, file));
  }
  const different = [...found].filter(([, state]) => state === "different").map(([file]) => file.path);
  if (different.length > 0 && !force)
    throw new SvcError("restore_refused", {
      directory: root,
      why: `${counted(different)} ${different.length === 1 ? "differs" : "differ"}`,
      remedy: "Nothing was changed. Restore into another folder, or replace them with --force.",
    });
  const written: string[] = [];
  try {
    for (const [file, state] of found) {
      if (state === "same") continue;
      await put(root, file, blobPath(codeDir, file.sha256), force);
      written.push(file.path);
    }
  } catch (cause) {
    throw afterSome(cause, root, written.length);
  }
  return {
    directory: root,
    written,
    replaced: different,
    same: kept.length - written.length,
    not_kept: snapshot.files.filter((file) => !isKept(file)).map(({ path }) => path),
  };
}

/** The real path of the folder, which is created if missing. */
async function rootOf(directory: string): Promise<string> {
  try {
    await mkdir(directory, { recursive: true });
    return await realpath(directory);
  } catch (cause) {
    throw refuse(directory, `the folder cannot be made or read (${systemCode(cause)})`, cause);
  }
}

/** The state of the file's path. Throws if no file can be there. */
async function look(root: string, file: CodeFile): Promise<Found> {
  const names = file.path.split("/");
  for (let i = 1; i < names.length; i++) {
    const folder = names.slice(0, i).join("/");
    const stats = await statsOf(root, folder);
    if (stats === null) return "absent";
    if (stats.isSymbolicLink()) throw refuse(root, `${folder} is a link, where a folder of the code belongs`);
    if (!stats.isDirectory()) throw refuse(root, `${folder} is not a folder, but the code has a folder there`);
  }
  const stats = await statsOf(root, file.path);
  if (stats === null) return "absent";
  if (stats.isDirectory()) throw refuse(root, `${file.path} is a folder, where a file of the code belongs`);
  if (!stats.isFile() || stats.size !== file.size || isExecutable(stats) !== (file.mode === "executable"))
    return "different";
  try {
    return (await hashFile(join(root, file.path))) === file.sha256 ? "same" : "different";
  } catch (cause) {
    throw refuse(root, `${file.path} cannot be read (${systemCode(cause)})`, cause);
  }
}

const isExecutable = (stats: Stats): boolean => (stats.mode & 0o100) !== 0;

async function statsOf(root: string, path: string): Promise<Stats | null> {
  try {
    return await lstat(join(root, path));
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return null;
    throw refuse(root, `${path} cannot be looked at (${systemCode(cause)})`, cause);
  }
}

async function put(root: string, file: CodeFile, blob: string, force: boolean): Promise<void> {
  const path = join(root, file.path);
  const folder = dirname(path);
  await mkdir(folder, { recursive: true });
  // A folder may have become a symlink since it was checked.
  const inside = relative(root, await realpath(folder));
  if (inside !== relative(root, folder) || inside.split(sep).includes(".."))
    throw refuse(root, `${file.path} would be written behind a link`);
  const beside = join(folder, `.svc-restore-${randomBytes(6).toString("hex")}`);
  try {
    await copyFile(blob, beside, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    await chmod(beside, (file.mode === "executable" ? 0o777 : 0o666) & ~givenUmask());
    if (force) await rename(beside, path);
    else await appear(root, file.path, beside, path);
  } finally {
    await rm(beside, { force: true });
  }
}

/** Moves the file into place only if nothing has appeared there meanwhile. */
async function appear(root: string, name: string, beside: string, path: string): Promise<void> {
  try {
    return await link(beside, path);
  } catch (cause) {
    if (systemCode(cause) === "EEXIST") throw refuse(root, `${name} appeared during the restore`, cause);
  }
  // On a file system without hard links: reserve the name first, then fill it in one write.
  try {
    await (await open(path, "wx")).close();
  } catch (cause) {
    throw systemCode(cause) === "EEXIST" ? refuse(root, `${name} appeared during the restore`, cause) : cause;
  }
  await rename(beside, path);
}

function absent(cause: unknown): null {
  if (systemCode(cause) === "ENOENT") return null;
  throw cause;
}

function counted(paths: string[]): string {
  const more = paths.length - NAMED_MAX;
  return `${paths.slice(0, NAMED_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function refuse(directory: string, why: string, cause?: unknown): SvcError {
  const remedy = "svc did not touch the files that differ. Restore into another folder, or move them away.";
  return new SvcError("restore_refused", { directory, why, remedy }, { cause });
}

/** The error of a disk that failed midway, with how far the restore came. */
function afterSome(cause: unknown, directory: string, written: number): unknown {
  if (cause instanceof SvcError) return cause;
  if (isDiskFull(cause)) return new SvcError("disk_full", { path: directory }, { cause });
  const remedy = `${written} files were written before, each completely. Remove the cause and run it again: existing files stay.`;
  return new SvcError(
    "restore_refused",
    { directory, why: `a file cannot be written (${systemCode(cause)})`, remedy },
    { cause },
  );
}
