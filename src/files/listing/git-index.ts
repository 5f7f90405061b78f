// Reads the entries of a git index, without git (gitformat-index(5)): versions 2, 3 and 4.

import { hash } from "node:crypto";
import { closeSync, constants, openSync, readFileSync, readSync } from "node:fs";
import { isMissing, nullIfMissing } from "../../errors/index.ts";
import type { Tracked } from "./ask-git.ts";

const HEADER_BYTES = 12;
/** The part of an entry before its path: times, numbers, mode, size, then the object's name and the flags. */
const STAT_BYTES = 40;
const MODE_AT = 24;
const EXTENDED = 0x4000;
const SKIP_WORKTREE = 0x4000;
const NAME_MASK = 0xfff;
const GITLINK = 0xe000;
const DIRECTORY = 0x4000;
const KIND_MASK = 0xf000;
/** The head of the extension that says that other entries are in another file: its name and half of its size. */
const SPLIT = "link\0\0";

/** Read at once where only modes matter, and kept of the previous part: both divide by eight. */
const PART_BYTES = 256 * 1024;
const OVERLAP_BYTES = 8;

/** The index cannot be understood; the message says why. */
export class IndexUnreadable extends Error {}

/** In the order of the index, each path once. A missing file is an empty index. Throws `IndexUnreadable`. */
export function readIndex(file: string): Tracked[] {
  let bytes;
  try {
    bytes = readFileSync(file, { flag: constants.O_RDONLY | constants.O_NONBLOCK });
  } catch (cause) {
    const missing = nullIfMissing(cause);
    return missing ?? [];
  }
  if (bytes.length < HEADER_BYTES + 20 || bytes.toString("latin1", 0, 4) !== "DIRC")
    throw new IndexUnreadable("the index does not begin as one");
  const version = bytes.readUInt32BE(4);
  if (version < 2 || version > 4) throw new IndexUnreadable(`the index has version ${version}`);
  const hashBytes = hashBytesOf(bytes);
  try {
    const { entries, end } = entriesOf(bytes, version, hashBytes);
    // An extension whose name begins in lower case changes the meaning of the index.
    for (let at = end; at + 8 <= bytes.length - hashBytes; at += 8 + bytes.readUInt32BE(at + 4)) {
      const name = bytes.toString("latin1", at, at + 4);
      if (/^[a-z]/.test(name) && name !== "sdir") throw new IndexUnreadable(`the index is split or newer (${name})`);
    }
    return entries;
  } catch (cause) {
    if (cause instanceof IndexUnreadable) throw cause;
    throw new IndexUnreadable("the index ends too early", { cause });
  }
}

/**
 * False where the index certainly has no submodule. Reads only the places where modes can be, which takes a fraction of the
 * time of reading entries: an entry's length is a multiple of eight, so its mode is 24 bytes and a multiple of eight after the header.
 */
export function mayHoldGitlinks(file: string): boolean {
  let fd: number | undefined;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    // The last bytes of the previous part are in front of each part: the extension's head may begin in them.
    const part = Buffer.alloc(OVERLAP_BYTES + PART_BYTES);
    const view = new DataView(part.buffer, part.byteOffset, part.length);
    for (let first = true; ; first = false) {
      const read = readSync(fd, part, OVERLAP_BYTES, PART_BYTES, null);
      const end = OVERLAP_BYTES + read;
      if (first && (read < HEADER_BYTES || view.getUint32(OVERLAP_BYTES + 4) > 3)) return true;
      const modes = first ? OVERLAP_BYTES + HEADER_BYTES + MODE_AT : (HEADER_BYTES + MODE_AT) % 8;
      for (let at = modes; at + 4 <= end; at += 8) if (view.getUint32(at) === GITLINK) return true;
      if (part.subarray(0, end).includes(SPLIT)) return true;
      if (read < PART_BYTES) return false;
      part.copy(part, 0, end - OVERLAP_BYTES, end);
    }
  } catch (cause) {
    return !isMissing(cause);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * The index ends with its own digest, which shows which hash function its digests use; some versions write zeros
 * instead.
 */
function hashBytesOf(bytes: Buffer): 20 | 32 {
  for (const [algorithm, length] of [
    ["sha1", 20],
    ["sha256", 32],
  ] as const) {
    const digest = bytes.subarray(-length);
    if (hash(algorithm, bytes.subarray(0, -length), "buffer").equals(digest)) return length;
  }
  if (bytes.subarray(-20).every((byte) => byte === 0)) return 20;
  throw new IndexUnreadable("the index does not have the digest that it names");
}

function entriesOf(bytes: Buffer, version: number, hashBytes: number): { entries: Tracked[]; end: number } {
  const entries: Tracked[] = [];
  let at = HEADER_BYTES;
  let before: Buffer = Buffer.alloc(0);
  let last = "";
  for (let left = bytes.readUInt32BE(8); left > 0; left--) {
    const start = at;
    const kind = bytes.readUInt32BE(at + MODE_AT) & KIND_MASK;
    const flags = bytes.readUInt16BE(at + STAT_BYTES + hashBytes);
    const extended = (flags & EXTENDED) !== 0;
    at += STAT_BYTES + hashBytes + 2;
    const more = extended ? bytes.readUInt16BE(at) : 0;
    if (extended) at += 2;
    let name: Buffer;
    if (version === 4) {
      const dropped = numberAt(bytes, at);
      const end = endOf(bytes, dropped.end);
      name = Buffer.concat([before.subarray(0, before.length - dropped.value), bytes.subarray(dropped.end, end)]);
      at = end + 1;
    } else {
      const length = flags & NAME_MASK;
      const end = length < NAME_MASK ? at + length : endOf(bytes, at);
      name = bytes.subarray(at, end);
      // One to eight NULs, so that the entry's length is a multiple of eight.
      at = start + ((end - start + 8) & ~7);
    }
    before = name;
    const path = name.toString();
    // A directory of a sparse index stands for files that are not in the work tree.
    if (path === last || kind === DIRECTORY) continue;
    last = path;
    entries.push({ path, gitlink: kind === GITLINK, skipped: (more & SKIP_WORKTREE) !== 0 });
  }
  return { entries, end: at };
}

function endOf(bytes: Buffer, from: number): number {
  const end = bytes.indexOf(0, from);
  if (end === -1) throw new IndexUnreadable("the index ends too early");
  return end;
}

/** A variable-length number as in pack files: seven bits a byte, one added for each byte that follows. */
function numberAt(bytes: Buffer, from: number): { value: number; end: number } {
  let at = from;
  let byte = bytes.readUInt8(at++);
  let value = byte & 127;
  while (byte & 128) {
    byte = bytes.readUInt8(at++);
    value = ((value + 1) << 7) | (byte & 127);
  }
  return { value, end: at };
}
