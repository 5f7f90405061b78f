// Writes files as a tar archive, in the form that GNU tar, BusyBox, bsdtar and Python all read: ustar, with GNU's long
// names.

import { constants } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { createHash, hash } from "node:crypto";
import { join } from "node:path";
import { systemCode } from "../errors/index.ts";

const BLOCK = 512;
/** Files up to this size are read at once, several in parallel; larger ones in pieces of this size. */
const CHUNK = 256 * 1024;
const READ_AT_ONCE = 16;
const NAME_MAX = 100;
/** The largest number of eleven octal digits. */
const SIZE_MAX_OCTAL = 8 ** 11 - 1;

export interface TarFile {
  /** Relative, with `/`. */
  path: string;
  size: number;
  executable: boolean;
  /** Milliseconds since the epoch; by default 0. The archive stores whole seconds. */
  mtimeMs?: number;
  /** Archive the target of a symlink instead of the symlink. */
  followLinks?: true;
}

/** Called when all bytes of a file are in the archive. */
export type Packed = (file: TarFile, sha256: string) => void;

/** The file differs from the one that was listed. */
export class FileChanged extends Error {
  readonly path: string;
  readonly why: string;
  constructor(path: string, why: string) {
    super(`${path} ${why}`);
    this.path = path;
    this.why = why;
  }
}

/**
 * The archive, in chunks. Throws `FileChanged` for a file that is missing, is not a plain file, or has another size
 * than listed.
 */
export async function* tarOf(from: string, files: readonly TarFile[], packed: Packed): AsyncGenerator<Buffer, void> {
  for (let at = 0; at < files.length;) {
    const batch: TarFile[] = [];
    for (let next = files[at]; next && next.size <= CHUNK && batch.length < READ_AT_ONCE; next = files[++at]) {
      batch.push(next);
    }
    const parts = await Promise.all(batch.map((file) => whole(from, file)));
    if (parts.length > 0) {
      yield Buffer.concat(parts.flatMap((bytes, i) => [header(batch[i] as TarFile), bytes, padding(bytes.length)]));
      for (const [i, bytes] of parts.entries()) packed(batch[i] as TarFile, hash("sha256", bytes));
    }
    const large = files[at];
    if (large && large.size > CHUNK) {
      at += 1;
      yield* stream(from, large, packed);
    }
  }
  yield Buffer.alloc(2 * BLOCK);
}

/**
 * The archive of files that are opened one by one; each has the size that it has when it is opened. Throws
 * `FileChanged`.
 */
export async function* tarOfOpened(
  members: Iterable<{ open(): Promise<FileHandle>; about(opened: FileHandle): Promise<TarFile> }>,
): AsyncGenerator<Buffer, void> {
  for (const member of members) {
    const handle = await member.open();
    try {
      const file = await member.about(handle);
      yield header(file);
      yield* contents(handle, file);
      yield padding(file.size);
    } finally {
      await handle.close();
    }
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** SHA-256 of a file in hex; null if the file differs from the one that was listed. */
export async function digestOf(from: string, file: TarFile): Promise<string | null> {
  try {
    let digest: string | null = null;
    if (file.size <= CHUNK) return hash("sha256", await whole(from, file));
    for await (const part of stream(from, file, (_, sha256) => (digest = sha256))) void part;
    return digest;
  } catch (e) {
    if (e instanceof FileChanged) return null;
    throw e;
  }
}

async function whole(from: string, file: TarFile): Promise<Buffer> {
  const handle = await openPlain(from, file);
  try {
    const bytes = Buffer.alloc(file.size);
    let length = 0;
    while (length < file.size) {
      const { bytesRead } = await handle.read(bytes, length, file.size - length, length);
      if (bytesRead === 0) throw new FileChanged(file.path, "became shorter while it was read");
      length += bytesRead;
    }
    return bytes;
  } finally {
    await handle.close();
  }
}

async function* stream(from: string, file: TarFile, packed: Packed): AsyncGenerator<Buffer, void> {
  const handle = await openPlain(from, file);
  try {
    yield header(file);
    const sha256 = createHash("sha256");
    for await (const part of contents(handle, file)) {
      sha256.update(part);
      yield part;
    }
    yield padding(file.size);
    packed(file, sha256.digest("hex"));
  } finally {
    await handle.close();
  }
}

async function* contents(handle: FileHandle, file: TarFile): AsyncGenerator<Buffer, void> {
  for (let at = 0; at < file.size;) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(CHUNK), 0, Math.min(CHUNK, file.size - at), at);
    if (bytesRead === 0) throw new FileChanged(file.path, "became shorter while it was read");
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

async function openPlain(from: string, file: TarFile): Promise<FileHandle> {
  let handle: FileHandle;
  try {
    const links = file.followLinks ? 0 : constants.O_NOFOLLOW;
    handle = await open(join(from, file.path), constants.O_RDONLY | links | constants.O_NONBLOCK);
  } catch (e) {
    throw new FileChanged(file.path, `cannot be read (${systemCode(e)})`);
  }
  const stats = await handle.stat();
  if (stats.isFile() && stats.size === file.size) return handle;
  await handle.close();
  throw new FileChanged(file.path, stats.isFile() ? "has changed its size" : "is no longer a plain file");
}

function header(file: TarFile): Buffer {
  const name = Buffer.from(file.path);
  const plain = block(name, file.size, file.executable ? 0o755 : 0o644, "0", file.mtimeMs);
  if (name.length <= NAME_MAX) return plain;
  const long = Buffer.concat([name, Buffer.alloc(1)]);
  return Buffer.concat([
    block(Buffer.from("././@LongLink"), long.length, 0o644, "L"),
    long,
    padding(long.length),
    plain,
  ]);
}

function block(name: Buffer, size: number, mode: number, type: string, mtimeMs = 0): Buffer {
  const bytes = Buffer.alloc(BLOCK);
  name.copy(bytes, 0, 0, NAME_MAX);
  const octal = (value: number, at: number, length: number): number =>
    bytes.write(value.toString(8).padStart(length - 1, "0"), at, "latin1");
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  if (size <= SIZE_MAX_OCTAL) octal(size, 124, 12);
  else {
    bytes[124] = 0x80;
    bytes.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(Math.max(0, Math.floor(mtimeMs / 1_000)), 136, 12);
  bytes.write("        ", 148, "latin1");
  bytes.write(type, 156, "latin1");
  bytes.write("ustar  \0", 257, "latin1");
  octal(
    bytes.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  bytes[154] = 0;
  return bytes;
}

const padding = (length: number): Buffer => Buffer.alloc((BLOCK - (length % BLOCK)) % BLOCK);
