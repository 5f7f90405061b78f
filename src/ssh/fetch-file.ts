// One file from a machine, in pieces, over a link that may break: each piece is named by its offset and compared with a hash that
// the machine made of what it read there; what has come stays, also for the next call.

import { constants } from "node:fs";
import { open, rename, rm, statfs, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { AgentRefusal, type AgentClient } from "./agent-client.ts";
import { orDiskFull, SvcError, UnreadableFile } from "../errors/index.ts";
import type { RemoteFile } from "../providers/host.ts";

export interface FetchOptions {
  machine: string;
  runDir: string;
  file: RemoteFile;
  /** Named after the content, as it was listed: what an earlier call left beside it is gone on with. */
  target: string;
  agent: (signal: AbortSignal) => Promise<AgentClient>;
  signal: AbortSignal;
}

const PIECE_MIN = 64 << 10;
const PIECE_FIRST = 512 << 10;
const PIECE_MAX = 4 << 20;
/** A piece should take about this long: long enough to fill the link, short enough that other questions are not kept waiting. */
const PIECE_MS = 150;
const IN_FLIGHT = 3;
/** Failures in a row without a byte between them. */
const FAILURES_MAX = 5;
/** Put onto the disk while more comes, or all of it would be waited for at the end. */
const FLUSH_EVERY_BYTES = 64 << 20;

const PieceAnswer = z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/) });

/** The state of one fetch, which outlives connections. */
interface Progress {
  at: number;
  piece: number;
  handle: FileHandle;
}

/**
 * Copies one listed file to `target`, which then is whole or absent. Throws `file_not_found` when it is not there any more as it
 * was listed, `UnreadableFile` where it cannot be read, `ssh_unreachable` when the link was lost again and again, and `disk_full`,
 * before anything is written where it is larger than the room there is: the machine can list any size, as of a file that is nothing
 * but holes. Where the link was lost or nobody waits any more, what had come stays as `partOf(target)`.
 */
export async function fetchRemoteFile(options: FetchOptions): Promise<void> {
  const { file, target, signal } = options;
  signal.throwIfAborted();
  const part = partOf(target);
  let progress: Progress | undefined;
  try {
    const handle = await open(part, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    progress = { at: Math.min((await handle.stat()).size, file.size), piece: PIECE_FIRST, handle };
    const { bavail, bsize } = await statfs(dirname(target));
    if (file.size - progress.at > bavail * bsize) throw new SvcError("disk_full", { path: dirname(target) });
    await overBrokenLinks(options, progress);
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

/** Where that of a file lies which has come so far. */
export const partOf = (target: string): string => `${target}.part`;

/** Leaves what was compared. Whether there is any. */
async function cutOff({ handle, at }: Progress): Promise<boolean> {
  return (
    at > 0 &&
    (await handle.truncate(at).then(
      () => true,
      () => false,
    ))
  );
}

const isLinkLost = (thrown: unknown): boolean => thrown instanceof SvcError && thrown.code === "ssh_unreachable";

/** Until the last byte is here; a lost link costs what was in flight, not what had come. */
async function overBrokenLinks(options: FetchOptions, progress: Progress): Promise<void> {
  const { agent, signal } = options;
  for (let failures = 0; ;) {
    const before = progress.at;
    try {
      await pull(await agent(signal), options, progress);
      return;
    } catch (thrown) {
      if (!isLinkLost(thrown)) throw thrown;
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

/** Reads on from `progress.at`, a few pieces ahead, and writes them in order. */
async function pull(client: AgentClient, options: FetchOptions, progress: Progress): Promise<void> {
  const { file, signal, machine } = options;
  let flushing: Promise<void> | null = null;
  let flushedAt = progress.at;
  const ask = (offset: number, length: number) => {
    const what = { ...named(options), offset, max: length };
    return client.call("read_file", what, PieceAnswer, { signal, maxBytes: length });
  };
  // Nothing to be read; but it must still be there, and as it was listed.
  if (file.size === 0) await ask(0, 0);
  const flying: { offset: number; length: number; sentAt: number; answer: ReturnType<typeof ask> }[] = [];
  let next = progress.at;
  while (progress.at < file.size) {
    while (flying.length < IN_FLIGHT && next < file.size) {
      const length = Math.min(progress.piece, file.size - next);
      const answer = ask(next, length);
      answer.catch(() => undefined);
      flying.push({ offset: next, length, sentAt: performance.now(), answer });
      next += length;
    }
    const piece = flying.shift()!; // one was just sent where none was
    const waitedFrom = performance.now();
    const { bytes, value } = await piece.answer;
    if (bytes.length !== piece.length)
      throw new SvcError("machine_unfit", { machine, why: "a checkpoint is shorter than it was listed" });
    const took = performance.now() - Math.max(piece.sentAt, waitedFrom);
    progress.piece = nextSize(progress.piece, took);
    // Both in threads, while this one takes what comes.
    const [sha256] = await Promise.all([sha256Of(bytes), writeAt(progress.handle, bytes, piece.offset)]);
    if (sha256 !== value.sha256)
      throw new SvcError("machine_unfit", { machine, why: "a checkpoint arrived with another hash than it has there" });
    progress.at = piece.offset + bytes.length;
    if (!flushing && progress.at - flushedAt >= FLUSH_EVERY_BYTES) {
      flushedAt = progress.at;
      // What it cannot do, the last sync says.
      flushing = progress.handle
        .datasync()
        .catch(() => undefined)
        .finally(() => (flushing = null));
    }
  }
}

async function sha256Of(bytes: Buffer): Promise<string> {
  // Never shared memory: it came from a socket.
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
  return orDiskFull(thrown, dirname(target));
}
