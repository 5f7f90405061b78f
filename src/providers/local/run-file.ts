// Reads files of a run directory. The script may have replaced them: by a pipe, whose opening would wait for a writer
// and occupy one of the few threads with which this process reads files, or by endless bytes. Anything but a plain file
// counts as missing.

import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { systemCode } from "../../errors/index.ts";

const TEXT_BYTES_MAX = 16 * 1024 * 1024;
const flagsOf = (access: number): number => access | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/** The open file. Throws the system's error; a file that is not plain counts as missing. */
export async function openRunFile(path: string, access: number = constants.O_RDONLY): Promise<FileHandle> {
  const handle = await open(path, flagsOf(access)).catch((cause: unknown) => {
    throw asOdd(path, cause);
  });
  try {
    checkPlain(path, await handle.stat());
    return handle;
  } catch (thrown) {
    await handle.close();
    throw thrown;
  }
}

/** The same, synchronously; the caller closes it. */
export function openRunFileSync(path: string): number {
  let fd: number;
  try {
    fd = openSync(path, flagsOf(constants.O_RDONLY));
  } catch (cause) {
    throw asOdd(path, cause);
  }
  try {
    checkPlain(path, fstatSync(fd));
    return fd;
  } catch (thrown) {
    closeSync(fd);
    throw thrown;
  }
}

/** A small file as text. Throws like `openRunFile`. */
export async function readRunFile(path: string): Promise<string> {
  const handle = await openRunFile(path);
  try {
    const buffer = Buffer.allocUnsafe(checkSmall(path, await handle.stat()));
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** The same, synchronously. */
export function readRunFileSync(path: string): string {
  const fd = openRunFileSync(path);
  try {
    const buffer = Buffer.allocUnsafe(checkSmall(path, fstatSync(fd)));
    return buffer.toString("utf8", 0, readSync(fd, buffer, 0, buffer.length, 0));
  } finally {
    closeSync(fd);
  }
}

const missing = (path: string, what: string, cause?: unknown): Error =>
  Object.assign(new Error(`ENOENT: ${path} ${what}`, { cause }), { code: "ENOENT", path });

/** A symlink is not followed, and a socket cannot be opened. */
function asOdd(path: string, cause: unknown): unknown {
  const code = systemCode(cause);
  return code === "ELOOP" || code === "ENXIO" ? missing(path, "is not a plain file", cause) : cause;
}

function checkPlain(path: string, stats: Stats): void {
  if (!stats.isFile()) throw missing(path, "is not a plain file");
}

function checkSmall(path: string, { size }: Stats): number {
  if (size > TEXT_BYTES_MAX) throw missing(path, "is larger than such a file can be");
  return size;
}
