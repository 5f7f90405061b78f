// The digest of files, read one after the other without leaving this thread. Used in the hashing workers, and in place for a few.

import { createHash, hash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";

const CHUNK_BYTES = 1024 * 1024;
const TOLD_EVERY_BYTES = 64 * 1024 * 1024;
const TRIES = 3;

/** The size and digest of a file at the time it was read. */
export interface Hashed {
  size: number;
  sha256: string;
  mtimeMs: number;
  ctimeMs: number;
  ino: number;
}
export type HashResult = Hashed | { why: string };

let buffer: Buffer | null = null;

/** Calls `told` with the number of bytes read, for large files more than once. Never throws. */
export function hashFileSync(path: string, told: (bytes: number) => void = () => {}): HashResult {
  for (let tries = 1; ; tries++) {
    const result = once(path, told);
    if (result !== "changing") return result;
    if (tries === TRIES) return { why: "it changes while it is read" };
  }
}

function once(path: string, told: (bytes: number) => void): HashResult | "changing" {
  let fd: number;
  try {
    // NONBLOCK: if a pipe has replaced the file, opening it must not block for ever.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    return { why: systemWords(cause) };
  }
  try {
    const before = fstatSync(fd);
    if (!before.isFile()) return { why: "it is not a plain file" };
    const sha256 = digestOf(fd, told);
    const after = fstatSync(fd);
    if (!sameStats(before, after)) return "changing";
    return { size: after.size, sha256, mtimeMs: after.mtimeMs, ctimeMs: after.ctimeMs, ino: after.ino };
  } catch (cause) {
    return { why: systemWords(cause) };
  } finally {
    closeSync(fd);
  }
}

function digestOf(fd: number, told: (bytes: number) => void): string {
  buffer ??= Buffer.allocUnsafeSlow(CHUNK_BYTES);
  const first = readSync(fd, buffer, 0, CHUNK_BYTES, null);
  if (first < CHUNK_BYTES && readSync(fd, buffer, first, CHUNK_BYTES - first, null) === 0) {
    told(first);
    return hash("sha256", buffer.subarray(0, first), "hex");
  }
  // Starts again from the beginning: a file that arrives in two parts is rare, and does not justify a second code path.
  const sha256 = createHash("sha256");
  let untold = 0;
  for (let at = 0; ;) {
    const length = readSync(fd, buffer, 0, CHUNK_BYTES, at);
    if (length === 0) break;
    sha256.update(buffer.subarray(0, length));
    at += length;
    untold += length;
    if (untold < TOLD_EVERY_BYTES) continue;
    told(untold);
    untold = 0;
  }
  told(untold);
  return sha256.digest("hex");
}

export const sameStats = (a: Pick<Stats, "size" | "mtimeMs" | "ctimeMs" | "ino">, b: typeof a): boolean =>
  a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs && a.ino === b.ino;

/** The system's error, in words that people know. */
export function systemWords(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EIO") return "the disk cannot read it (EIO)";
  return code ?? message;
}
