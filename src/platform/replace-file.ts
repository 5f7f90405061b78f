import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Replaces a file as a whole: whoever reads it, at whatever moment and after whatever crash, finds the old content or the new
 * one. It is the owner's alone (600) from its first byte, also where an old one was laxer. Throws what the file system throws;
 * the old file then stands.
 */
export function replaceFile(file: string, content: string | Uint8Array): void {
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

/** The new name is on the disk only when its folder is. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } catch (e) {
    // Some file systems know no such thing of a folder; the rename stands all the same.
    if (!["EINVAL", "EPERM", "ENOTSUP", "EBADF"].includes((e as NodeJS.ErrnoException).code ?? "")) throw e;
  } finally {
    closeSync(fd);
  }
}
