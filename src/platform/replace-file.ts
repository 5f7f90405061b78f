import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isDiskFull, systemCode } from "../errors/index.ts";

/**
 * Replaces a file atomically: a reader finds the old content or the new one at any moment and after any crash. The file
 * is private to its owner (600) from its first byte, even if the old one was not. Throws the file system's errors; the
 * old file then stays.
 */
export function replaceFile(file: string, content: string | Uint8Array): void {
  // Loaded here: commands that only read import this file as well.
  const { randomBytes } = process.getBuiltinModule("node:crypto");
  const temporary = `${file}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: "wx", flush: true });
    renameSync(temporary, file);
  } catch (e) {
    rmSync(temporary, { force: true });
    throw e;
  }
  syncFolder(dirname(file));
}

/**
 * Like `replaceFile`, for a file whose old content says nothing true any more: on a full disk, its space is used for the
 * new one. False if the new file does not fit: then there is none.
 */
export function replaceOutdated(file: string, content: string): boolean {
  for (const isLast of [false, true]) {
    try {
      replaceFile(file, content);
      return true;
    } catch (e) {
      if (!isDiskFull(e)) throw e;
      if (!isLast) rmSync(file, { force: true });
    }
  }
  return false;
}

/** The new name is durable only after its folder is synced. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } catch (e) {
    // Some file systems cannot sync a folder; the rename is done anyway.
    if (!["EINVAL", "EPERM", "ENOTSUP", "EBADF"].includes(systemCode(e))) throw e;
  } finally {
    closeSync(fd);
  }
}
