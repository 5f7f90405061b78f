// How the control plane reaches a run on a machine. The same contract serves this computer (files and processes in place)
// and a rented machine (the same runner over SSH).
//
// H1. Every call may be repeated: a crash between any two of them is repaired by calling again.
// H2. The runner owns the run: pid, exit code and log live in the run directory, so a new control plane re-attaches.
// H3. Bytes of the log are named by their offset in the stream that the script wrote; the same offset is always the same byte.

import type { RunnerSample, RunnerSpec, RunnerStatus } from "../schemas/runner.ts";

export interface LogSlice {
  /** Raw bytes that start at the offset asked for; empty when there is nothing new. */
  bytes: Buffer;
  /** When bytes were written, by offset, ascending; the first entry covers the first byte. Milliseconds since the epoch. */
  times: { offset: number; atMs: number }[];
}

export interface RemoteFile {
  /** Relative to the checkpoint directory, with `/`. Plain files only; anything else is left out. */
  path: string;
  size: number;
  mtimeMs: number;
  inode: number;
  /** Why it cannot be fetched; it is listed only so that it can be named. Its numbers then mean nothing. */
  refused?: string;
}

export interface RunHost {
  /**
   * Starts the run unless this nonce was started before (then only reports). Secrets travel in a file of mode 600 that the
   * runner unlinks, never in argv. Throws `python_missing`, `runner_failed`, `entrypoint_not_runnable`.
   */
  start(spec: RunnerSpec, secretEnv: Record<string, string>, signal: AbortSignal): Promise<RunnerStatus>;
  /** One look. Null when nothing was ever started here. A runner that died without a word is `phase: "failed"`. */
  status(signal: AbortSignal): Promise<RunnerStatus | null>;
  /** Up to `max` bytes of log from `offset`. */
  readLog(offset: number, max: number, signal: AbortSignal): Promise<LogSlice>;
  /** Whole samples from byte `offset` of samples.jsonl, and the offset to ask for next. */
  readSamples(offset: number, signal: AbortSignal): Promise<{ samples: RunnerSample[]; next: number }>;
  /** Everything before `offset` is durable at home: the spool may drop it. */
  ackLog(offset: number, signal: AbortSignal): Promise<void>;
  /** TERM to the run's processes, after the grace KILL; resolves when no process of the run is left. */
  stop(graceSeconds: number, signal: AbortSignal): Promise<void>;
  /** Resolves when something may have changed (log grew, run ended) or after `maxMs`; never sooner than useful. */
  changed(seen: { logOffset: number }, maxMs: number, signal: AbortSignal): Promise<void>;
  listCheckpoints(signal: AbortSignal): Promise<RemoteFile[]>;
  /**
   * Copies one checkpoint file to `target` (a path at home, in a folder that exists). Throws `file_not_found` when it is not
   * there any more as it was listed.
   */
  fetchCheckpoint(file: RemoteFile, target: string, signal: AbortSignal): Promise<void>;
}
