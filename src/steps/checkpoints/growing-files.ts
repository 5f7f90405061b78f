// Downloads files that keep changing: event files and tables that only grow, and files that are overwritten again and
// again.
//
// G1. A file that grew is read from the end of the local copy, in one request for all files. The machine compares
//     hashes of the local part (all of it up to CHECK_WHOLE, else its beginning and its end): a file that was truncated
//     and rewritten is never appended to old bytes.
// G2. Any other changing file is copied completely once STALE_MS have passed since its last copy, and only as a
//     consistent version: a file that changes while it is read is left for the next scan.
// G3. Such files are in progress until the whole file has been compared by its hash, and the list of their paths is on
//     the disk before their bytes are. A complete file is kept as a set before a possibly torn copy takes its name.
// G4. At most REQUESTS_MAX requests per scan, for any number of files; 500 files that grow slowly cost one.

import { copyFile, open, readFile, rm } from "node:fs/promises";
import { constants } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { hashOf } from "../../platform/hash-of.ts";
import { jsonOf } from "../../domain/parsed-lines.ts";
import { replaceFile } from "../../platform/replace-file.ts";
import { isDiskFull, nullIfMissing } from "../../errors/index.ts";
import type { PieceRequest, RemoteFile } from "../../providers/host.ts";
import type { CheckpointFile } from "../../schemas/job.ts";
import {
  asListed,
  asRecord,
  fetchOne,
  homeStats,
  isCopyOf,
  makeFolders,
  nameBeside,
  placeFile,
  STAGING,
} from "./files.ts";
import type { EarlierFiles } from "./earlier-files.ts";
import type { CheckpointSets } from "./sets.ts";
import type { CheckpointHost } from "./home-names.ts";
import { hadNoRoom, lacksRoom, type NoRoom } from "./room.ts";
import { isProvenWhole, SINGLE } from "./whole-file.ts";

/** Next to the local checkpoints of a node: the paths of files that may be torn. */
const IN_PROGRESS = ".svc-in-progress.json";
export const STALE_MS = 30_000;
/** Files up to this length are compared completely; longer ones at both ends. */
const CHECK_WHOLE = 1 << 20;
const CHECK_ENDS = 64 << 10;
/** A file may have grown by this much since it was listed. */
const GROWN_SINCE = 16 << 10;
/** Files up to this size are copied completely in the common request. */
const SMALL = 4 << 20;
const REQUESTS_MAX = 8;
const FILES_PER_REQUEST = 500;
/** Bytes of one answer: the log waits for it on a slow link. */
const ANSWER_FIRST = 1 << 20;
const ANSWER_MAX = 16 << 20;
const ANSWER_MS = 300;
/** A scan sends further requests for this long. */
const TAKE_MS = 4_000;

const Paths = z.array(z.string());

/** Local files that may be torn. */
export async function readInProgress(targetDir: string): Promise<Set<string>> {
  const text = await readFile(join(targetDir, IN_PROGRESS), "utf8").catch(nullIfMissing);
  const paths = text === null ? null : Paths.safeParse(jsonOf(text));
  return new Set(paths?.success ? paths.data : []);
}

interface Followed {
  inode: number;
  /** When it was last copied completely. */
  copiedAtMs: number;
  /** It has only ever grown. */
  grows: boolean;
}

interface Taken {
  files: CheckpointFile[];
  removed: string[];
  /** Files that do not fit on the disk. */
  noRoom: NoRoom[];
}

export class GrowingFiles {
  readonly #targetDir: string;
  readonly #now: () => number;
  readonly #sets: CheckpointSets;
  readonly #earlier: EarlierFiles;
  readonly #followed = new Map<string, Followed>();
  #inProgress = new Set<string>();
  #answerBytes = ANSWER_FIRST;

  constructor(options: { targetDir: string; now: () => number; sets: CheckpointSets; earlier: EarlierFiles }) {
    this.#targetDir = options.targetDir;
    this.#now = options.now;
    this.#sets = options.sets;
    this.#earlier = options.earlier;
  }

  async prepare(): Promise<void> {
    this.#inProgress = await readInProgress(this.#targetDir);
  }

  /** Whether the local copy may be torn. */
  has(path: string): boolean {
    return this.#inProgress.has(path);
  }

  /** Whether to follow a changing file: it was seen to change, now or before. */
  moves(file: RemoteFile, before: RemoteFile | undefined): boolean {
    if (file.leadsTo !== undefined) return false;
    const known = this.#followed.get(file.path);
    if (before === undefined) return known !== undefined || this.has(file.path);
    const isSame = before.inode === file.inode && before.size === file.size && before.mtimeMs === file.mtimeMs;
    if (isSame) return known !== undefined || this.has(file.path);
    const grew = before.inode === file.inode && file.size > before.size;
    if (known) known.grows = grew;
    else this.#followed.set(file.path, { inode: file.inode, copiedAtMs: -Infinity, grows: grew });
    return true;
  }

  /** These files are complete now. */
  async rests(paths: readonly string[]): Promise<void> {
    const torn = paths.filter((path) => this.#inProgress.delete(path));
    for (const path of paths) this.#followed.delete(path);
    if (torn.length === 0) return;
    this.#write();
    for (const path of torn) await this.#sets.dropFile(path);
  }

  /** G3. Call it before an unfinished file takes its place. */
  begins(file: RemoteFile): Promise<void> {
    return this.#mark([file]);
  }

  /** G3. Call it before the first byte of files that may be torn. */
  async #mark(files: readonly RemoteFile[]): Promise<void> {
    const fresh = files.filter(({ path }) => !this.#inProgress.has(path));
    for (const file of fresh) {
      const home = await homeStats(this.#targetDir, file.path);
      if (home?.isFile() && (SINGLE.test(file.path) || (await this.#sets.isAnnounced(file.path))))
        await this.#sets.keepFile({ ...file, size: home.size, mtimeMs: home.mtimeMs });
      this.#inProgress.add(file.path);
    }
    if (fresh.length > 0) this.#write();
  }

  #write(): void {
    replaceFile(join(this.#targetDir, IN_PROGRESS), JSON.stringify([...this.#inProgress].toSorted()));
  }

  /** Downloads new bytes of changing files. Throws the errors of the host and the disk. */
  async take(host: CheckpointHost, files: readonly RemoteFile[], signal: AbortSignal): Promise<Taken> {
    const taken: Taken = { files: [], removed: [], noRoom: [] };
    if (host.readPieces === undefined) return taken;
    const waiting: PieceRequest[] = [];
    const whole: RemoteFile[] = [];
    for (const file of files) {
      const request = await this.#requestFor(file);
      const more = request === null || request === "whole" ? undefined : file.size - request.offset;
      const lack = request === null ? null : await lacksRoom(this.#targetDir, file, more);
      if (lack) {
        taken.noRoom.push(lack);
        continue;
      }
      if (request === "whole") whole.push(file);
      else if (request !== null) waiting.push(request);
    }
    const began = this.#now();
    for (let n = 0; n < REQUESTS_MAX && waiting.length > 0 && this.#now() - began < TAKE_MS; n++) {
      signal.throwIfAborted();
      const asked = this.#nextRequest(waiting);
      const sentAt = performance.now();
      const pieces = await host.readPieces(asked, signal);
      const tookMs = performance.now() - sentAt;
      const full = pieces.reduce((sum, piece) => sum + (piece?.bytes.length ?? 0), 0) * 2 > this.#answerBytes;
      if (full && tookMs < ANSWER_MS) this.#answerBytes = Math.min(ANSWER_MAX, this.#answerBytes * 2);
      else if (tookMs > ANSWER_MS * 3) this.#answerBytes = Math.max(ANSWER_FIRST / 4, this.#answerBytes / 2);
      await this.#mark(asked.flatMap(({ file }, i) => (pieces[i] === null ? [] : [file])));
      for (const [i, request] of asked.entries()) {
        const piece = pieces[i];
        if (piece) {
          const wrote = await this.#writePiece(request, piece, taken);
          if (!wrote) continue;
          // The file has more bytes than fit into one answer.
          if (!request.whole && piece.bytes.length > 0 && request.offset + piece.bytes.length < piece.size) {
            const next = await this.#readOn(request.file);
            if (next) waiting.push(next);
          }
        } else if (!request.whole && request.offset > 0) {
          // G1: the file is not the same any more. Copy all of it, if a copy is due.
          const again = this.#copyOf(request.file);
          if (again === "whole") whole.push(request.file);
          else if (again !== null) waiting.push(again);
        }
      }
    }
    for (const file of whole)
      await this.#copyLarge(host, file, taken, signal).catch(async (cause: unknown) => {
        if (!isDiskFull(cause)) throw cause;
        taken.noRoom.push(await hadNoRoom(this.#targetDir, file));
      });
    return { ...taken, files: [...new Map(taken.files.map((file) => [file.path, file])).values()] };
  }

  /**
   * Whether the copy that was downloaded during writing equals the listed file, byte for byte. Missing bytes are read
   * first, so that a large file is not downloaded twice.
   */
  async isWhole(host: CheckpointHost, file: RemoteFile, signal: AbortSignal): Promise<boolean> {
    if (!this.has(file.path) || host.readPieces === undefined || host.hashCheckpoint === undefined) return false;
    const path = join(this.#targetDir, file.path);
    let home = await homeStats(this.#targetDir, file.path);
    while (home?.isFile() && home.size < file.size && home.size > file.size / 2) {
      const request = await this.#readOn(file);
      const [piece] = request ? await host.readPieces([{ ...request, max: SMALL }], signal) : [];
      if (!request || !piece || piece.bytes.length === 0) return false;
      await this.#writePiece(request, piece, { files: [], removed: [], noRoom: [] });
      home = await homeStats(this.#targetDir, file.path);
    }
    if (!home?.isFile() || home.size !== file.size) return false;
    const there = await host.hashCheckpoint(file, signal);
    const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      if (there === null || (await hashOf(handle, 0, home.size)) !== there) return false;
    } finally {
      await handle.close();
    }
    return asListed(file, path);
  }

  async #requestFor(file: RemoteFile): Promise<PieceRequest | "whole" | null> {
    const home = await homeStats(this.#targetDir, file.path);
    if (isCopyOf(file, home)) return null;
    return (await this.#readOn(file)) ?? this.#copyOf(file);
  }

  /** G1; null if the local copy cannot be continued. */
  async #readOn(file: RemoteFile): Promise<PieceRequest | null> {
    const home = await homeStats(this.#targetDir, file.path);
    const known = this.#followed.get(file.path);
    if (home === null || !home.isFile() || home.size === 0) {
      const isNew = home === null || home.isFile();
      return isNew && known?.grows === true && !SINGLE.test(file.path)
        ? { file, offset: 0, max: ANSWER_MAX, checks: [], whole: false }
        : null;
    }
    const mayAppend = this.has(file.path) || !SINGLE.test(file.path);
    if (!mayAppend || home.size > file.size || (known && known.inode !== file.inode)) return null;
    // A change in a long file that has not grown is not at its ends.
    if (home.size === file.size && home.size > CHECK_WHOLE) return null;
    const ends = [
      { start: 0, end: CHECK_ENDS },
      { start: home.size - CHECK_ENDS, end: home.size },
    ];
    const ranges = home.size <= CHECK_WHOLE ? [{ start: 0, end: home.size }] : ends;
    const handle = await open(join(this.#targetDir, file.path), constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const checks: PieceRequest["checks"] = [];
      for (const { start, end } of ranges) checks.push({ start, end, sha256: await hashOf(handle, start, end) });
      return { file, offset: home.size, max: ANSWER_MAX, checks, whole: false };
    } finally {
      await handle.close();
    }
  }

  /** G2; null if it is too early. */
  #copyOf(file: RemoteFile): PieceRequest | "whole" | null {
    const known = this.#followed.get(file.path);
    if (known && this.#now() - known.copiedAtMs < STALE_MS) return null;
    return file.size > SMALL ? "whole" : { file, offset: 0, max: SMALL, checks: [], whole: true };
  }

  /** As many of the waiting requests as one answer has room for. */
  #nextRequest(waiting: PieceRequest[]): PieceRequest[] {
    const asked: PieceRequest[] = [];
    let left = this.#answerBytes;
    while (asked.length < FILES_PER_REQUEST && left > 0) {
      const request = waiting.shift();
      if (request === undefined) break;
      const bytes = request.file.size - request.offset;
      // A copy must be complete; of a growing file, a part is useful.
      if (request.whole && asked.length > 0 && bytes > left) {
        waiting.unshift(request);
        break;
      }
      // The file may have grown since it was listed.
      asked.push({ ...request, max: request.whole ? SMALL : Math.min(left, bytes) + GROWN_SINCE });
      left -= bytes;
    }
    return asked;
  }

  /** Writes the received bytes to their place. */
  async #writePiece(
    { file, offset, whole }: PieceRequest,
    piece: { bytes: Buffer; size: number; mtimeMs: number },
    taken: Taken,
  ): Promise<boolean> {
    const now = { ...file, size: offset + piece.bytes.length, mtimeMs: piece.mtimeMs };
    const path = join(this.#targetDir, file.path);
    const folders = new Set<string>();
    if (whole) {
      if (piece.bytes.length !== piece.size) return false;
      const beside = join(this.#targetDir, STAGING, nameBeside(now));
      const handle = await open(beside, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o600);
      try {
        await handle.writeFile(piece.bytes);
      } finally {
        await handle.close();
      }
      await this.#replace(now, beside, taken);
      return true;
    }
    await makeFolders(this.#targetDir, file.path, folders, taken.removed);
    const home = await homeStats(this.#targetDir, file.path);
    if (home?.isDirectory()) return false;
    // Another hard link to this file must keep its content: it may be part of a set, or the checkpoint of a resumed
    // run.
    if (home && home.nlink > 1) {
      const beside = join(this.#targetDir, STAGING, nameBeside(now));
      await copyFile(path, beside, constants.COPYFILE_FICLONE);
      await placeFile(this.#targetDir, file.path, beside, { folders, removed: taken.removed });
    }
    const handle = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    try {
      if ((await handle.stat()).size !== offset) return false;
      for (let done = 0; done < piece.bytes.length;)
        done += (await handle.write(piece.bytes, done, piece.bytes.length - done, offset + done)).bytesWritten;
      await handle.utimes(piece.mtimeMs / 1_000, piece.mtimeMs / 1_000);
    } finally {
      await handle.close();
    }
    await this.#noted(now, taken, false);
    return true;
  }

  async #copyLarge(host: CheckpointHost, file: RemoteFile, taken: Taken, signal: AbortSignal): Promise<void> {
    const beside = join(this.#targetDir, STAGING, nameBeside(file));
    if (!(await fetchOne(host, file, beside, signal))) {
      await rm(beside, { force: true });
      return;
    }
    await this.#mark([file]);
    await this.#replace(file, beside, taken);
  }

  /** A copy replaces the file. */
  async #replace(file: RemoteFile, beside: string, taken: Taken): Promise<void> {
    await asListed(file, beside);
    const isProven = await isProvenWhole(beside, file.size, file.path);
    taken.files.push(...(await this.#earlier.keep(file.path, beside)));
    await placeFile(this.#targetDir, file.path, beside, { folders: new Set(), removed: taken.removed });
    await this.#noted(file, taken, isProven);
    this.#followed.set(file.path, { inode: file.inode, copiedAtMs: this.#now(), grows: false });
  }

  async #noted(file: RemoteFile, taken: Taken, isProven: boolean): Promise<void> {
    const record = asRecord(file.path, file.size, file.mtimeMs);
    taken.files.push(isProven ? record : { ...record, in_progress: true });
    if (isProven) await this.rests([file.path]);
  }
}
