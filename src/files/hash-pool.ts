// Hashes many files on all processors. A few small files are read in place, because starting a thread takes longer.

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { hashFileSync, type HashResult } from "./hash-file.ts";
import type { FromWorker } from "./hash-worker.ts";
import { abortReason } from "../domain/abort-reason.ts";

const IN_PLACE_FILES = 64;
const IN_PLACE_BYTES = 16 * 1024 * 1024;
const BATCH_FILES = 256;
const BATCH_BYTES = 32 * 1024 * 1024;
const WORKERS_MAX = 32;

export interface ToHash {
  /** Absolute. */
  at: string;
  size: number;
}

export interface HashOptions {
  signal: AbortSignal;
  /** Called with the totals read so far. */
  progress?: ((done: { files: number; bytes: number }) => void) | undefined;
}

/** Results in the order of the files; an unreadable file gives a result, too. Throws the signal's reason. */
export async function hashFiles(files: readonly ToHash[], { signal, progress }: HashOptions): Promise<HashResult[]> {
  signal.throwIfAborted();
  const done = { files: 0, bytes: 0 };
  const read = (bytes: number): void => {
    done.bytes += bytes;
    progress?.(done);
  };
  const total = files.reduce((sum, { size }) => sum + size, 0);
  if (files.length <= IN_PLACE_FILES && total <= IN_PLACE_BYTES) {
    return files.map(({ at }) => {
      const result = hashFileSync(at, read);
      done.files += 1;
      return result;
    });
  }
  const batches = batchesOf(files);
  const results: HashResult[] = Array.from({ length: files.length });
  let next = 0;
  const lane = (worker: Worker): Promise<void> =>
    new Promise((resolve, reject) => {
      let current: Batch | undefined;
      const go = (): void => {
        current = batches[next++];
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
        if (current) worker.postMessage(current.files.map(({ at }) => at));
        else resolve();
      };
      worker.on("message", (message: FromWorker) => {
        if ("read" in message) return read(message.read);
        message.results.forEach((result, i) => (results[(current?.first ?? 0) + i] = result));
        done.files += message.results.length;
        progress?.(done);
        go();
      });
      worker.on("error", reject);
      worker.on("exit", (code) => reject(new Error(`a hashing thread ended with ${code}`)));
      go();
    });
  const workers = Array.from(
    { length: Math.min(availableParallelism(), WORKERS_MAX, batches.length) },
    () => new Worker(workerFile()),
  );
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(abortReason(signal));
    signal.addEventListener("abort", abort, { once: true });
  });
  try {
    await Promise.race([Promise.all(workers.map(lane)), aborted]);
    return results;
  } finally {
    signal.removeEventListener("abort", abort);
    await Promise.all(workers.map((worker) => worker.removeAllListeners().terminate()));
  }
}

interface Batch {
  first: number;
  files: ToHash[];
}

function batchesOf(files: readonly ToHash[]): Batch[] {
  const batches: Batch[] = [];
  let bytes = 0;
  files.forEach((file, first) => {
    let last = batches.at(-1);
    if (!last || last.files.length >= BATCH_FILES || bytes + file.size > BATCH_BYTES) {
      batches.push((last = { first, files: [] }));
      bytes = 0;
    }
    last.files.push(file);
    bytes += file.size;
  });
  return batches;
}

/**
 * The worker's file: next to this file in the sources, a chunk of that name in the bundle (scripts/build.ts makes it).
 */
function workerFile(): string {
  if (import.meta.filename.endsWith(".ts")) return join(import.meta.dirname, "hash-worker.ts");
  const chunks = import.meta.dirname.endsWith("chunks") ? import.meta.dirname : join(import.meta.dirname, "chunks");
  return join(chunks, "hash-worker.mjs");
}
