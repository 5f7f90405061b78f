// Downloads one file from a machine, in pieces, over a link that may break. Each piece is addressed by its offset and
// compared with a hash that the machine computed of it; pieces that have arrived stay, also for the next call.

import { constants } from "node:fs";
import { open, rename, rm, statfs, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { AgentRefusal, type AgentClient } from "./agent-client.ts";
import { orDiskFull, SvcError, systemCode, UnreadableFile } from "../errors/index.ts";
import type { RemoteFile } from "../providers/host.ts";

export interface FetchOptions {
  machine: string;
  runDir: string;
  file: RemoteFile;
  /** Named after the content, as it was listed: the download resumes a part that an earlier call left next to it. */
  target: string;
  agent: (signal: AbortSignal) => Promise<AgentClient>;
  signal: AbortSignal;
}

const PIECE_MIN = 64 << 10;
const PIECE_FIRST = 512 << 10;
const PIECE_MAX = 4 << 20;
/** Target duration of a piece: long enough to fill the link, short enough not to delay other calls. */
const PIECE_MS = 150;
const IN_FLIGHT = 3;
/** Consecutive failures without a byte of progress. */
const FAILURES_MAX = 5;
/** Flush during the download, or the final sync would wait for everything. */
const FLUSH_EVERY_BYTES = 64 << 20;

const PieceAnswer = z.object({
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  /** This many bytes are all zero and were not sent. */
  zeros: z.int().min(0).default(0),
});
const RangesAnswer = z.object({ ranges: z.array(z.tuple([z.int().min(0), z.int().min(0)])).max(10_000) });

/** The state of one download, which outlives connections. */
interface Progress {
  /** Everything before this offset is here, or is a hole. */
  at: number;
  /** [start, end) of the data between holes. */
  ranges: readonly (readonly [number, number])[];
  piece: number;
  handle: FileHandle;
  /** The sync under way. The system reports a failed write once, and a later sync of the same file would succeed: so the failure stays. */
  flushing: Promise<void> | null;
  unwritten: unknown[];
}

/**
 * Copies one listed file to `target`, which then is complete or absent. Throws `file_not_found` if the file no longer
 * exists as listed, `UnreadableFile` if it cannot be read, `ssh_unreachable` if the link was lost again and again, and
 * `disk_full`, before anything is written, if its data does not fit on this disk. Holes stay holes. After a lost link
 * or an abort, the downloaded part stays at `partOf(target)`.
 */
export async function fetchRemoteFile(options: FetchOptions): Promise<void> {
  const { file, target, signal } = options;
  signal.throwIfAborted();
  const part = partOf(target);
  let progress: Progress | undefined;
  try {
    const handle = await open(part, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    const ranges = [[0, file.size]] as const;
    const at = Math.min((await handle.stat()).size, file.size);
    progress = { at, ranges, piece: PIECE_FIRST, handle, flushing: null, unwritten: [] };
    // Holes take no space, neither there nor here.
    await checkRoom(target, (file.stored ?? file.size) - progress.at);
    await overBrokenLinks(options, progress);
    // The rest is a hole.
    await handle.truncate(file.size);
    await handle.utimes(new Date(), file.mtimeMs / 1000);
    await handle.sync();
    await handle.close();
    progress = undefined;
    await rename(part, target);
  } catch (thrown) {
    const mayGoOn = signal.aborted || isLinkLost(thrown);
    const kept = mayGoOn && progress !== undefined && (await cutOff(progress));
    await progress?.handle.close().catch(() => undefined);
    if (!kept) await rm(part, { force: true });
    throw asOurs(thrown, options);
  }
}

async function checkRoom(target: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(target));
  if (bytes > bavail * bsize) throw new SvcError("disk_full", { path: dirname(target) });
}

/** The path of a file's partial download. */
export const partOf = (target: string): string => `${target}.part`;

/** Truncates to the verified part. Returns whether there is any, and the disk took it. */
async function cutOff(progress: Progress): Promise<boolean> {
  const { handle, at, unwritten } = progress;
  await progress.flushing;
  return (
    at > 0 &&
    unwritten.length === 0 &&
    (await handle.truncate(at).then(
      () => true,
      () => false,
    ))
  );
}

const isLinkLost = (thrown: unknown): boolean => thrown instanceof SvcError && thrown.code === "ssh_unreachable";

/** Repeats until the last byte is here; a lost link costs only the bytes in flight. */
async function overBrokenLinks(options: FetchOptions, progress: Progress): Promise<void> {
  const { agent, signal } = options;
  for (let failures = 0; ;) {
    const before = progress.at;
    try {
      await pull(await agent(signal), options, progress);
      return;
    } catch (thrown) {
      if (!isLinkLost(thrown)) throw thrown;
      await flushed(progress);
      failures = progress.at > before ? 1 : failures + 1;
      if (failures > FAILURES_MAX) throw thrown;
      await pause(Math.min(4_000, 100 * 3 ** (failures - 1)), undefined, { signal });
    }
  }
}

const named = ({ runDir, file }: FetchOptions) => ({
  dir: runDir,
  path: file.leadsTo ?? file.path,
  size: file.size,
  mtime: file.mtimeMs,
  inode: file.inode,
});

/** Asks where a file with holes has its data. */
async function lookForHoles(client: AgentClient, options: FetchOptions, progress: Progress): Promise<void> {
  const { file, signal, machine, target } = options;
  if (file.stored === undefined || file.stored >= file.size) return;
  const { ranges } = (await client.call("data_ranges", named(options), RangesAnswer, { signal })).value;
  let last = 0;
  let bytes = 0;
  for (const [start, end] of ranges) {
    if (start < last || end <= start || end > file.size)
      throw new SvcError("machine_unfit", { machine, why: "its list of the file's data is malformed" });
    last = end;
    bytes += end - Math.min(end, Math.max(start, progress.at));
  }
  await checkRoom(target, bytes);
  progress.ranges = ranges;
}

/** Continues from `progress.at`, a few pieces ahead, and writes them in order. */
async function pull(client: AgentClient, options: FetchOptions, progress: Progress): Promise<void> {
  const { signal, machine } = options;
  await lookForHoles(client, options, progress);
  let flushedAt = progress.at;
  const ask = (offset: number, length: number) => {
    const what = { ...named(options), offset, max: length };
    return client.call("read_file", what, PieceAnswer, { signal, maxBytes: length });
  };
  const end = progress.ranges.at(-1)?.[1] ?? 0;
  // No data to read; but the file must still exist, as listed.
  if (progress.at >= end) await ask(0, 0);
  const flying: { offset: number; length: number; sentAt: number; answer: ReturnType<typeof ask> }[] = [];
  let next = progress.at;
  while (progress.at < end) {
    while (flying.length < IN_FLIGHT && next < end) {
      const range = progress.ranges.find((each) => each[1] > next)!; // `next` is before the end of the last range
      next = Math.max(next, range[0]);
      const length = Math.min(progress.piece, range[1] - next);
      const answer = ask(next, length);
      answer.catch(() => undefined);
      flying.push({ offset: next, length, sentAt: performance.now(), answer });
      next += length;
    }
    const piece = flying.shift()!; // one was just sent if none was in flight
    const waitedFrom = performance.now();
    const { bytes: sent, value } = await piece.answer;
    const isZeros = sent.length === 0 && value.zeros === piece.length;
    const bytes = isZeros ? Buffer.alloc(piece.length) : sent;
    if (bytes.length !== piece.length)
      throw new SvcError("machine_unfit", { machine, why: "a checkpoint is shorter than it was listed" });
    const took = performance.now() - Math.max(piece.sentAt, waitedFrom);
    progress.piece = nextSize(progress.piece, took);
    // Both run in threads while this one receives.
    const written = isZeros ? undefined : writeAt(progress.handle, bytes, piece.offset);
    const [sha256] = await Promise.all([sha256Of(bytes), written]);
    if (sha256 !== value.sha256)
      throw new SvcError("machine_unfit", { machine, why: "a checkpoint arrived with another hash than it has there" });
    progress.at = piece.offset + bytes.length;
    if (progress.unwritten.length > 0) throw progress.unwritten[0];
    if (progress.flushing === null && progress.at - flushedAt >= FLUSH_EVERY_BYTES) {
      flushedAt = progress.at;
      progress.flushing = progress.handle
        .datasync()
        .catch((error: unknown) => void progress.unwritten.push(error))
        .finally(() => (progress.flushing = null));
    }
  }
  await flushed(progress);
}

/** Throws the failure of a write since the beginning of the download. */
async function flushed(progress: Progress): Promise<void> {
  await progress.flushing;
  if (progress.unwritten.length > 0) throw progress.unwritten[0];
}

async function sha256Of(bytes: Buffer): Promise<string> {
  // Never shared memory: the bytes are from a socket.
  return Buffer.from(await crypto.subtle.digest("SHA-256", bytes as Buffer<ArrayBuffer>)).toString("hex");
}

async function writeAt(handle: FileHandle, bytes: Buffer, offset: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, offset + done);
    done += bytesWritten;
  }
}

function nextSize(size: number, tookMs: number): number {
  if (tookMs < PIECE_MS / 2) return Math.min(PIECE_MAX, size * 2);
  return tookMs > PIECE_MS * 2 ? Math.max(PIECE_MIN, size >> 1) : size;
}

function asOurs(thrown: unknown, { file, target, machine, runDir }: FetchOptions): unknown {
  if (thrown instanceof AgentRefusal) {
    if (thrown.kind === "missing") return new SvcError("file_not_found", { path: file.path }, { cause: thrown });
    if (thrown.kind === "changed")
      return new SvcError("file_not_found", { path: `${file.path} as it was listed` }, { cause: thrown });
    const why = `${file.path} cannot be read in ${runDir} on ${machine}: ${thrown.message}`;
    if (thrown.kind === "unreadable") return new UnreadableFile("runner_failed", { why }, { cause: thrown });
    return new SvcError("runner_failed", { why }, { cause: thrown });
  }
  const code = thrown instanceof SvcError ? "" : systemCode(thrown);
  // Of this computer: the machine's own faults are refusals of its agent.
  if (code === "EIO" || code === "EROFS")
    return new SvcError("store_failing", { file: dirname(target), why: code }, { cause: thrown });
  return orDiskFull(thrown, dirname(target));
}
