// Reads the entries of a git index, without git (gitformat-index(5)): versions 2, 3 and 4.

import { hash } from "node:crypto";
import { constants, readFileSync } from "node:fs";
import { nullIfMissing } from "../../errors/index.ts";
import type { Tracked } from "./ask-git.ts";

const HEADER_BYTES = 12;
/** The part of an entry before its path: times, numbers, mode, size, then the object's name and the flags. */
const STAT_BYTES = 40;
const EXTENDED = 0x4000;
const SKIP_WORKTREE = 0x4000;
const NAME_MASK = 0xfff;
const GITLINK = 0xe000;
const DIRECTORY = 0x4000;
const KIND_MASK = 0xf000;

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
    const kind = bytes.readUInt32BE(at + 24) & KIND_MASK;
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
      // One to eight NULs, so that the entry's length divides by eight.
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
