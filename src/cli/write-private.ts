import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, unlinkSync, writeSync } from "node:fs";

/** Replaces a file in one go; it is the owner's alone (600) from its first byte, also where an old one was laxer. */
export function writePrivate(path: string, text: string): void {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  const fd = openSync(temporary, "wx", 0o600);
  try {
    writeSync(fd, text);
    fsyncSync(fd);
    closeSync(fd);
    renameSync(temporary, path);
  } catch (e) {
    unlinkSync(temporary);
    throw e;
  }
}
