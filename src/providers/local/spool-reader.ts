// Reads the runner's spool in place. Segments are files named by the offset of their first byte; `spool.idx` holds 16-byte
// records (offset, milliseconds; both unsigned 64-bit little-endian) that say when bytes were written.

import { closeSync, fstatSync, readdirSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { isMissing } from "../../errors/index.ts";
import type { LogSlice } from "../host.ts";
import { openRunFile, openRunFileSync } from "./run-file.ts";

const RECORD = 16;
const BLOCK_RECORDS = 4_096;
/** Limit for one slice of the log; more entries add little. */
const TIMES_MAX = 1 << 18;
/** These are surely in the cache of the system, and reading them holds the event loop for less than 0.1 ms. */
const FEW_BYTES = 64 * 1024;
/** The last instant that a date can represent. */
const TIME_MS_MAX = 8.64e15;

export class SpoolReader {
  readonly #folder: string;
  readonly #index: string;
  /** A record at or before every requested position so far: reading on needs no search. */
  #hint = 0;

  constructor(runDir: string) {
    this.#folder = join(runDir, "spool");
    this.#index = join(runDir, "spool.idx");
  }

  get folder(): string {
    return this.#folder;
  }

  /** Start offsets of the existing segments, ascending. */
  #segments(): number[] {
    try {
      return readdirSync(this.#folder)
        .filter((name) => /^[0-9]+$/.test(name))
        .map(Number)
        .sort((a, b) => a - b);
    } catch (thrown) {
      if (isMissing(thrown)) return [];
      throw thrown;
    }
  }

  #path(start: number): string {
    return join(this.#folder, String(start).padStart(12, "0"));
  }

  /** Number of bytes of log that the script has written so far. */
  end(): number {
    for (const start of this.#segments().reverse()) {
      const stat = statSync(this.#path(start), { throwIfNoEntry: false });
      if (stat) return start + stat.size;
    }
    return 0;
  }

  /** Up to `max` bytes from `wanted`, or from the first byte that is still there. */
  async read(wanted: number, max: number): Promise<LogSlice> {
    const parts: Buffer[] = [];
    const starts = this.#segments();
    const offset = Math.max(wanted, starts[0] ?? 0);
    let at = offset;
    for (let i = starts.findLastIndex((s) => s <= at); i >= 0 && i < starts.length && at - offset < max; i++) {
      const start = starts[i] as number; // i is within bounds
      if (start > at) break; // a predecessor that is shorter than its name promised: do not skip bytes
      const bytes = await readSome(this.#path(start), at - start, max - (at - offset));
      if (bytes.length === 0 && starts[i + 1] !== at) break;
      parts.push(bytes);
      at += bytes.length;
    }
    const bytes = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    return { bytes, dropped: offset - wanted, times: bytes.length > 0 ? this.#times(offset, at) : [] };
  }

  /**
   * Entries for the bytes in [from, to): first the one that covers `from`. Without a valid index, everything counts as
   * written now.
   */
  #times(from: number, to: number): LogSlice["times"] {
    let fd: number;
    try {
      fd = openRunFileSync(this.#index);
    } catch (thrown) {
      if (isMissing(thrown)) return [{ offset: from, atMs: Date.now() }];
      throw thrown;
    }
    try {
      const count = Math.floor(fstatSync(fd).size / RECORD);
      let at = this.#find(fd, count, from);
      this.#hint = at;
      const times: LogSlice["times"] = [];
      const block = Buffer.allocUnsafe(BLOCK_RECORDS * RECORD);
      while (at < count) {
        const got = Math.floor(readSync(fd, block, 0, block.length, at * RECORD) / RECORD);
        if (got === 0) break;
        for (let i = 0; i < got; i++) {
          const offset = Number(block.readBigUInt64LE(i * RECORD));
          if (offset >= to || times.length >= TIMES_MAX)
            return times.length > 0 ? times : [{ offset: from, atMs: Date.now() }];
          const entry = { offset: Math.max(offset, from), atMs: Number(block.readBigUInt64LE(i * RECORD + 8)) };
          if (entry.offset < (times.at(-1)?.offset ?? from) || entry.atMs > TIME_MS_MAX)
            return [{ offset: from, atMs: Date.now() }];
          times.push(entry);
        }
        at += got;
      }
      return times.length > 0 ? times : [{ offset: from, atMs: Date.now() }];
    } finally {
      closeSync(fd);
    }
  }

  /** The last record whose offset is not after `offset`, or the first of all. */
  #find(fd: number, count: number, offset: number): number {
    const record = Buffer.allocUnsafe(8);
    const offsetAt = (i: number): number => {
      readSync(fd, record, 0, 8, i * RECORD);
      return Number(record.readBigUInt64LE(0));
    };
    let low = this.#hint < count && offsetAt(this.#hint) <= offset ? this.#hint : 0;
    // When reading on, the answer is near: double the stride until it is passed.
    let high = low + 1;
    for (let stride = 1; high < count && offsetAt(high) <= offset; stride *= 2) {
      low = high;
      high += stride;
    }
    high = Math.min(high, count);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (offsetAt(middle) <= offset) low = middle;
      else high = middle;
    }
    return low;
  }
}

/**
 * Bytes of a growing file; empty when it ends before `position` or is gone. Few bytes, as those of a line that was written a moment ago, are read
 * synchronously: with a thousand runs, four asynchronous calls for each line were a third of this process's work.
 */
export async function readSome(path: string, position: number, max: number): Promise<Buffer> {
  try {
    return readFew(path, position, max) ?? (await readMany(path, position, max));
  } catch (thrown) {
    if (isMissing(thrown)) return Buffer.alloc(0);
    throw thrown;
  }
}

/** Null if there are many bytes. */
function readFew(path: string, position: number, max: number): Buffer | null {
  const fd = openRunFileSync(path);
  try {
    const size = Math.min(max, fstatSync(fd).size - position);
    if (size > FEW_BYTES) return null;
    if (size <= 0) return Buffer.alloc(0);
    const buffer = Buffer.allocUnsafeSlow(size);
    return buffer.subarray(0, readSync(fd, buffer, 0, size, position));
  } finally {
    closeSync(fd);
  }
}

async function readMany(path: string, position: number, max: number): Promise<Buffer> {
  const handle = await openRunFile(path);
  try {
    const size = Math.min(max, (await handle.stat()).size - position);
    if (size <= 0) return Buffer.alloc(0);
    const buffer = Buffer.allocUnsafeSlow(size);
    const { bytesRead } = await handle.read(buffer, 0, size, position);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
