// How the control plane reaches a run on a machine. The same contract serves this computer (files and processes in place)
// and a rented machine (the same runner over SSH).
//
// H1. Every call may be repeated: a crash between any two of them is repaired by calling again.
// H2. The runner owns the run: pid, exit code and log live in the run directory, so a new control plane re-attaches.
// H3. Bytes of the log are named by their offset in the stream that the script wrote; the same offset is always the same byte.

import type { GateLook, ProbeName } from "../schemas/gate.ts";
import type { RunnerSample, RunnerSpec, RunnerStatus } from "../schemas/runner.ts";

export interface LogSlice {
  /** Raw bytes that start at the offset asked for; empty when there is nothing new. */
  bytes: Buffer;
  /** When bytes were written, by offset, ascending; the first entry covers the first byte. Milliseconds since the epoch. */
  times: { offset: number; atMs: number }[];
  /** By how much the machine's clock is ahead of ours; `times` are by ours already, what the script itself stamped is not. */
  clockAheadMs?: number;
}

export interface RemoteFile {
  /**
   * Relative to the checkpoint directory, with `/`. Plain files, and links; anything else is left out. Bytes of a name that are not
   * UTF-8 appear as in Python's `surrogateescape`: U+DC80 to U+DCFF.
   */
  path: string;
  /** Of a link: the plain file of the same directory that it leads to. Numbers and content are that one's. */
  leadsTo?: string;
  size: number;
  mtimeMs: number;
  inode: number;
  /** Bytes that the disk holds of it, where that is fewer than `size`: the rest is holes. */
  stored?: number;
  /** Its name at home is not the one that it has on its machine. */
  renamed?: true;
  /** Why it cannot be fetched; it is listed only so that it can be named. Its numbers then mean nothing. */
  refused?: string;
  /** With `refused`: it is a symlink, which hides no further file. */
  isLink?: true;
}

/** A piece of a file that may be growing. */
export interface PieceRequest {
  /** As the file was listed; its size and time may be others by now. */
  file: RemoteFile;
  offset: number;
  max: number;
  /** All of the file is wanted, as it was at one moment: one that changes while it is read is not answered. */
  whole: boolean;
  /** Ranges that must have these hashes (SHA-256), or the file was written anew. */
  checks: { start: number; end: number; sha256: string }[];
}

/** `size` and `mtimeMs` are those of the file when it was read. Null where it is gone, was written anew, or cannot be read. */
export type Piece = { bytes: Buffer; size: number; mtimeMs: number } | null;

/** What is wanted of a run that is followed. */
export interface Following {
  /** Of the first byte of log that is wanted, and how many at most. */
  offset: number;
  max: number;
  /** The log's end as far as it is known: only more of it is news. */
  seen: number;
  /** Milliseconds; 0 looks at once. */
  waitMs: number;
}

/** What a look at a run tells. */
export interface RunLook extends RunnerStatus {
  /** Bytes that the run's disk still takes; absent or null where that is not asked for, or not known. */
  disk_free?: number | null;
}

export interface RunHost {
  /**
   * Starts the run unless this nonce was started before (then only reports). Secrets travel in a file of mode 600 that the
   * runner unlinks, never in argv. Throws `python_missing`, `runner_failed`, `entrypoint_not_runnable`.
   */
  start(spec: RunnerSpec, secretEnv: Record<string, string>, signal: AbortSignal): Promise<RunnerStatus>;
  /** One look. Null when nothing was ever started here. A runner that died without a word is `phase: "failed"`. */
  status(signal: AbortSignal): Promise<RunLook | null>;
  /** Up to `max` bytes of log from `offset`. */
  readLog(offset: number, max: number, signal: AbortSignal): Promise<LogSlice>;
  /** Whole samples from byte `offset` of samples.jsonl, and the offset to ask for next. */
  readSamples(offset: number, signal: AbortSignal): Promise<{ samples: RunnerSample[]; next: number }>;
  /** Everything before `offset` is durable at home: the spool may drop it. */
  ackLog(offset: number, signal: AbortSignal): Promise<void>;
  /** TERM to the run's processes, after the grace KILL; resolves when no process of the run is left. */
  stop(graceSeconds: number, signal: AbortSignal): Promise<void>;
  /**
   * Waits for news (the log grew beyond `seen`, the run ended) for at most `waitMs`, and then takes what there is. The status is
   * older than the log: when it says "over", every byte it counts can be read.
   */
  follow(want: Following, signal: AbortSignal): Promise<{ look: RunLook | null; slice: LogSlice }>;
  listCheckpoints(signal: AbortSignal): Promise<RemoteFile[]>;
  /**
   * Copies one checkpoint file to `target` (a path at home, in a folder that exists). Throws `file_not_found` when it is not
   * there any more as it was listed, `UnreadableFile` where it cannot be read.
   */
  fetchCheckpoint(file: RemoteFile, target: string, signal: AbortSignal): Promise<void>;
  /** Pieces of many files in one request, in its order. Absent where files are only fetched once they rest. */
  readPieces?(pieces: readonly PieceRequest[], signal: AbortSignal): Promise<Piece[]>;
  /** SHA-256 of a listed file, in hexadecimal; null when it is not there any more as it was listed. */
  hashCheckpoint?(file: RemoteFile, signal: AbortSignal): Promise<string | null>;
}

/** What a machine says of itself when it is greeted. Unknown is null. */
export interface MachineFacts {
  /** Absolute home directory of the user that runs are started as. */
  home: string;
  user: string;
  /** Absolute path of the Python (3.8 or newer) that supervises runs, and runs scripts unless something better is found. */
  python: string;
  python_version: string;
  cpus: number | null;
  memory_bytes: number | null;
  disk_free_bytes: number | null;
  gpus: { name: string; memory_mib: number | null }[] | null;
  /** Version of the GPU driver, such as `570.86.15`. */
  gpu_driver?: string | null;
  /** The tool of the driver is there and reports a failure. `exit` is null where it did not answer in time. */
  gpu_fault?: { tool: string; exit: number | null; words: string } | null;
  /** GPUs are in the machine, and their driver does not answer (yet). */
  driver_pending?: boolean;
  rsync: boolean;
  boot_id: string;
  /** Names of other machines whose folders lie there: a machine that stays with its owner is adopted again and again. */
  beside?: readonly string[];
}

/** Absolute folders of one run on its machine. */
export interface MachineLayout {
  project: string;
  checkpoints: string;
  data: string;
  /** What goes on PYTHONPATH: the package `svc`. */
  packages: string;
  /** The virtual environment that the install step makes. */
  environment: string;
}

/** A tree of plain files at home that is to lie on the machine. */
export interface TreePush {
  /** Absolute folder at home. */
  from: string;
  /** Absolute folder on the machine; made where missing. */
  to: string;
  /** Relative to `from`, with `/`. Only these are sent. */
  files: readonly {
    path: string;
    size: number;
    executable: boolean;
    /** Where it matters that the file keeps its time there, to the second. */
    mtimeMs?: number;
  }[];
  /** That `from` holds these files and nothing else: then it need not be told file by file. */
  whole?: true;
  /** A link among `files` is sent as what it leads to; else what is no plain file cannot be sent. */
  followLinks?: true;
  /** Large files are sent by themselves and in pieces where rsync is not to be had; never together with `mirror`. */
  inPieces?: true;
  /** Whether files of an earlier push that are not in `files` any more are removed from `to`. */
  mirror: boolean;
  progress?: (done: { files: number; bytes: number; bytes_per_second: number }) => void;
}

export interface TreePushed {
  files: number;
  /** Of all files; what travelled is less when some were there already. */
  bytes: number;
  sent_bytes: number | null;
  how: string;
}

/** A file that is to lie on the machine. */
export interface TreeFile {
  /** Relative, with `/`. */
  path: string;
  size: number;
  /** In hexadecimal. */
  sha256: string;
}

/** What a tree on the machine is compared with. */
export interface TreeCompare {
  /** Absolute folder there, below the machine's own. */
  root: string;
  files: readonly TreeFile[];
  /** Whether contents are read; else sizes alone count. */
  digests: boolean;
  /** Files that are there and are not what they must be are removed. */
  drop: boolean;
  progress?: (done: { files: number; bytes: number }) => void;
}

/** What ends the machine when nobody comes for it any more. docs/internals/guard.md tells how. */
export interface Guard {
  /** From the last contact, or from the last sign of work of the run. */
  graceSeconds: number;
  /** See `Provider.selfEnd`. */
  selfEnd: string;
  /** How long a run that still lives then may take to end. */
  stopSeconds: number;
}

/** What the gate is to test. */
export interface GateAsk {
  /** For all of it. */
  seconds: number;
  /** Absolute path of the Python that scripts get. */
  python: string;
  probes: readonly ProbeName[];
  /** Address of the package index to download from; the machine's own where absent. */
  index?: string;
}

/** The test of a machine (docs/internals/gate.md). Its processes end by themselves. */
export interface MachineGate {
  /** One that was started before goes on. */
  start(ask: GateAsk, signal: AbortSignal): Promise<void>;
  /**
   * What it has found, once all of `need` have answered, nothing more is to come, or `waitMs` are over. `end` ends it then.
   * `clockAheadMs`: by how much the machine's clock is ahead of ours.
   */
  look(
    how: { need: readonly ProbeName[]; waitMs: number; end: boolean },
    signal: AbortSignal,
  ): Promise<GateLook & { clockAheadMs: number }>;
}

/**
 * The way to one machine. Nothing here decides that a machine is lost: what cannot be reached throws `ssh_unreachable`, and the
 * provider is asked. Repeatable, all of it.
 */
export interface MachineAccess {
  /** True where steps work in place: nothing is copied, nothing is guarded. */
  readonly inPlace: boolean;
  /** Known once the machine was greeted (the handle keeps `home`); throws `ssh_unreachable` before. */
  layout(): MachineLayout;
  /**
   * Connects, makes sure that it is the machine that was ordered, and asks what it is. Throws `ssh_unreachable`, `ssh_refused`,
   * `host_key_changed`, `machine_unfit`.
   */
  greet(signal: AbortSignal): Promise<MachineFacts>;
  push(tree: TreePush, signal: AbortSignal): Promise<TreePushed>;
  /** The files that are missing, or are not what they must be. Other files there are not looked at. */
  compare(tree: TreeCompare, signal: AbortSignal): Promise<{ path: string; why: string }[]>;
  /** Moves the machine's own deadline to `graceSeconds` from now, and starts its guard where none runs. */
  keep(guard: Guard, signal: AbortSignal): Promise<void>;
  /** `run` for the script, `install` for what comes before it. */
  host(purpose: "run" | "install"): RunHost;
  /** Tests the machine while files are sent to it; absent where steps work in place. Throws as `layout` does. */
  readonly gate?: MachineGate;
  /** Takes everything of the run off a machine that stays with its owner; absent where nothing was put there. */
  leave?(signal: AbortSignal): Promise<void>;
}
