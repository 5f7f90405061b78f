// Downloads one content from the hub to the disk.
//
// B1. A blob gets its final name only when its size and its hash match the hub's list, and it is synced to the disk.
// B2. Downloaded bytes are kept, whatever ends the connection or the process; the next try requests the rest.
// B3. If a server sends the whole content although only the rest was requested, the download starts over.
// B4. Content that does not match the list is discarded completely: the wrong part cannot be found.

import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { SvcError } from "../errors/index.ts";
import { blobName, type HubFile } from "./client.ts";
import { statsOf, type BlobPlaces } from "./place.ts";
import { persistently, type RetryOptions } from "./retry.ts";
import { Transient, type Reply } from "./transfer.ts";

/** Written in batches: fewer calls, and more bytes arrive meanwhile. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** On a slow line, received bytes are written and reported this often. */
const BATCH_MS = 500;
/** The file is synced after this many bytes during the download, so that the final sync is short. */
const SYNC_BYTES = 32 * 1024 * 1024;
/** Block size for hashing an existing part. */
const READ_BYTES = 1024 * 1024;
/** Wrong content may come from one bad cache; after two times the server itself has it. */
const WRONG_MAX = 2;

export interface BlobFetch extends Omit<RetryOptions, "gained"> {
  open: (file: HubFile, from: number, signal: AbortSignal) => Promise<Reply>;
  /** Reports each gain, and each loss as a negative number. */
  moved: (bytes: number) => void;
}

/** Whether the blob exists; its name states its content, and B1 guarantees it. */
export async function hasBlob(file: HubFile, places: BlobPlaces): Promise<boolean> {
  return (await sizeOf(places.whole)) === file.size;
}

/** Bytes that need not be downloaded again. */
export async function partialBytes(file: HubFile, places: BlobPlaces): Promise<number> {
  const size = await sizeOf(places.partial);
  return size === null || size > file.size ? 0 : size;
}

async function sizeOf(path: string): Promise<number | null> {
  const found = await statsOf(path);
  return found?.isFile() === true ? found.size : null;
}

/** Resolves when the blob is complete and verified. */
export async function fetchBlob(file: HubFile, places: BlobPlaces, options: BlobFetch): Promise<void> {
  await mkdir(dirname(places.partial), { recursive: true });
  const handle = await open(places.partial, "a+", 0o600);
  try {
    const download = new Download(file, handle, options);
    await download.resume(places.partial);
    try {
      await download.run();
    } finally {
      await download.synced();
    }
    await download.sync();
  } finally {
    await handle.close();
  }
  await rename(places.partial, places.whole);
}

class Download {
  readonly #file: HubFile;
  readonly #handle: FileHandle;
  readonly #o: BlobFetch;
  #hash: Hash;
  /** Number of bytes that are hashed, and written or about to be. */
  #at = 0;
  #unsynced = 0;
  #syncing: Promise<void> | null = null;
  #everGained = 0;
  #wrong = 0;

  constructor(file: HubFile, handle: FileHandle, options: BlobFetch) {
    this.#file = file;
    this.#handle = handle;
    this.#o = options;
    this.#hash = freshHash(file);
  }

  /** Hashes the part that an earlier try downloaded. */
  async resume(path: string): Promise<void> {
    const { size } = await this.#handle.stat();
    if (size > this.#file.size) return this.#reset();
    if (size === 0) return;
    for await (const chunk of createReadStream(path, { end: size - 1, highWaterMark: READ_BYTES })) {
      this.#o.signal.throwIfAborted();
      this.#hash.update(chunk as Buffer);
      this.#at += (chunk as Buffer).length;
    }
    this.#o.moved(this.#at);
  }

  run(): Promise<void> {
    return persistently(() => this.#once(), { ...this.#o, gained: () => this.#everGained });
  }

  async #once(): Promise<void> {
    const { size, path } = this.#file;
    if (this.#at < size) await this.#receive();
    if (this.#at < size) throw this.#cut();
    const found = this.#hash.copy().digest("hex");
    if (found === blobName(this.#file)) return;
    await this.#reset();
    const why = `its hash is ${found.slice(0, 12)}…, not ${blobName(this.#file).slice(0, 12)}…`;
    const error = new SvcError("hub_file_corrupt", { path, why });
    if (++this.#wrong >= WRONG_MAX || size === 0) throw error;
    throw new Transient(error);
  }

  async #receive(): Promise<void> {
    const { size, path } = this.#file;
    const reply = await this.#o.open(this.#file, this.#at, this.#o.signal);
    try {
      await this.#begin(reply);
      let batch: Buffer[] = [];
      let waiting = 0;
      let flushed = performance.now();
      let writing: Promise<unknown> = Promise.resolve();
      const flush = async (): Promise<void> => {
        await writing;
        const [parts, bytes] = [batch, waiting];
        [batch, waiting, flushed] = [[], 0, performance.now()];
        if (bytes === 0) return;
        // Progress counts bytes in the file, so that a process that is killed here leaves at least as much as it
        // reported.
        writing = this.#write(parts).then(() => this.#o.moved(bytes));
        // The next flush reports a failure; until then it must not count as unhandled.
        writing.catch(() => undefined);
        this.#at += bytes;
        this.#everGained += bytes;
        await this.#syncSoon(bytes);
      };
      try {
        for await (const part of reply.read()) {
          if (this.#at + waiting + part.length > size) throw tooMuch(path, size);
          // Hashed at once, while the bytes are in the processor's cache.
          this.#hash.update(part);
          batch.push(part);
          waiting += part.length;
          if (waiting >= BATCH_BYTES || performance.now() - flushed >= BATCH_MS) await flush();
        }
      } finally {
        await flush();
        await writing;
      }
    } finally {
      reply.discard();
    }
  }

  /** Checks whether the answer continues at our offset (206), starts over (200), or has nothing more (416). */
  async #begin(reply: Reply): Promise<void> {
    const { size, path } = this.#file;
    const encoding = reply.headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity")
      throw new SvcError("hub_file_corrupt", {
        path,
        why: `it comes encoded as ${encoding}, which svc did not request`,
      });
    if (reply.status === 206) {
      const [, from, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(reply.headers["content-range"] ?? "") ?? [];
      if (Number(from) === this.#at && (total === "*" || Number(total) === size)) return;
      await this.#reset();
      throw new Transient(corrupt(path, `the part that came is ${reply.headers["content-range"] ?? "not named"}`));
    }
    if (this.#at > 0) await this.#reset();
    if (reply.status === 416) throw new Transient(corrupt(path, "the hub has less of it than was kept"));
    const length = reply.headers["content-length"];
    if (length !== undefined && Number(length) !== size)
      throw new Transient(corrupt(path, `it is ${length} bytes long, not ${size}`));
  }

  async #write(parts: Buffer[]): Promise<void> {
    let left = parts;
    while (left.length > 0) {
      const { bytesWritten } = await this.#handle.writev(left);
      left = behind(left, bytesWritten);
    }
  }

  async #syncSoon(bytes: number): Promise<void> {
    this.#unsynced += bytes;
    if (this.#unsynced < SYNC_BYTES) return;
    this.#unsynced = 0;
    await this.synced();
    this.#syncing = this.#handle.datasync();
    this.#syncing.catch(() => undefined);
  }

  /** A failed sync must be reported: the system reports it only once, and the next sync would succeed. */
  async synced(): Promise<void> {
    try {
      await this.#syncing;
    } catch (e) {
      // Bytes that the disk lost may still look right for a while: a later try must not resume from them.
      await this.#handle.truncate(0).catch(() => undefined);
      throw e;
    }
  }

  sync(): Promise<void> {
    this.#syncing = this.#handle.datasync();
    return this.synced();
  }

  async #reset(): Promise<void> {
    await this.#handle.truncate(0);
    if (this.#at > 0) this.#o.moved(-this.#at);
    this.#at = 0;
    this.#hash = freshHash(this.#file);
  }

  #cut(): Transient {
    const why = `the connection ended after ${this.#at} of ${this.#file.size} bytes of ${this.#file.path}`;
    return new Transient(new SvcError("hub_unreachable", { host: "The hub", why }));
  }
}

function behind(parts: Buffer[], written: number): Buffer[] {
  let left = written;
  const rest: Buffer[] = [];
  for (const part of parts) {
    if (left >= part.length) left -= part.length;
    else {
      rest.push(left > 0 ? part.subarray(left) : part);
      left = 0;
    }
  }
  return rest;
}

const freshHash = (file: HubFile): Hash =>
  file.sha256 === null ? createHash("sha1").update(`blob ${file.size}\0`) : createHash("sha256");

/** The name that a file's content would have as a blob. */
export async function nameOfContent(path: string, file: HubFile, signal: AbortSignal): Promise<string> {
  const hash = freshHash(file);
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES })) {
    signal.throwIfAborted();
    hash.update(chunk as Buffer);
  }
  return hash.digest("hex");
}

const corrupt = (path: string, why: string): SvcError => new SvcError("hub_file_corrupt", { path, why });
const tooMuch = (path: string, size: number): Transient => new Transient(corrupt(path, `more than ${size} bytes came`));
