// How the control plane reaches a run on a machine. The same contract serves this computer (files and processes in place)
// and a rented machine (the same runner over SSH).
//
// H1. Every call is idempotent: after a crash between any two of them, calling again repairs the state.
// H2. The runner owns the run: pid, exit code and log live in the run directory, so a new control plane re-attaches.
// H3. Bytes of the log are addressed by their offset in the stream that the script wrote; the same offset is always the
//     same byte.

import type { MachineLimit } from "../domain/budget.ts";
import type { GateLook, ProbeName } from "../schemas/gate.ts";
import type { DiskFault, RunnerSample, RunnerSpec, RunnerStatus } from "../schemas/runner.ts";

export interface LogSlice {
  /** Raw bytes from the requested offset on, or from `dropped` bytes after it; empty when there is nothing new. */
  bytes: Buffer;
  /** How many of the requested bytes the host no longer has. They were acknowledged once, or someone deleted them. */
  dropped?: number;
  /** When bytes were written, by offset, ascending; the first entry covers the first byte. Milliseconds since the epoch. */
  times: { offset: number; atMs: number }[];
  /**
   * By how much the machine's clock is ahead of ours; `times` are already in our time, the script's own time stamps are
   * not.
   */
  clockAheadMs?: number;
}

export interface RemoteFile {
  /**
   * Relative to the checkpoint directory, with `/`. Plain files, and symlinks; anything else is skipped. Bytes of a
   * name that are not UTF-8 appear as in Python's `surrogateescape`: U+DC80 to U+DCFF.
   */
  path: string;
  /** For a symlink: the plain file of the same directory to which it points. Numbers and content are that file's. */
  leadsTo?: string;
  size: number;
  mtimeMs: number;
  inode: number;
  /** Bytes that the file occupies on the disk, if fewer than `size`: the rest is holes. */
  stored?: number;
  /** Its local name differs from the one on its machine. */
  renamed?: true;
  /** Why it cannot be downloaded; it is listed only to be reported. Its numbers then have no meaning. */
  refused?: string;
  /** With `refused`: it is a symlink, which hides no further file. */
  isLink?: true;
  /** With `refused`: it stands for so many further names of its folder. */
  others?: number;
  /** With `refused`: the listing ends here, at its bounds, and leaves out what follows. */
  isLimit?: true;
}

/** A piece of a file that may be growing. */
export interface PieceRequest {
  /** The file as listed; its size and time may have changed since. */
  file: RemoteFile;
  offset: number;
  max: number;
  /** The whole file is requested, as one consistent version: a file that changes while it is read is not returned. */
  whole: boolean;
  /** Ranges that must have these hashes (SHA-256); otherwise the file was rewritten. */
  checks: { start: number; end: number; sha256: string }[];
}

/** `size` and `mtimeMs` are the file's when it was read. Null if it is gone, was rewritten, or cannot be read. */
export type Piece = { bytes: Buffer; size: number; mtimeMs: number } | null;

/** The request for news of a followed run. */
export interface Following {
  /** Offset of the first requested byte of log, and the maximum number of bytes. */
  offset: number;
  max: number;
  /** Known length of the log: return only when it grows past this. */
  seen: number;
  /** Milliseconds; 0 answers at once. */
  waitMs: number;
}

/** The state of a run at one poll. */
export interface RunLook extends RunnerStatus {
  /** Free bytes on the run's disk; absent or null if not requested, or unknown. */
  disk_free?: number | null;
  /** The error with which that disk refused a small new file; absent or null for none. */
  disk_fault?: DiskFault | null;
}

export interface RunHost {
  /**
   * Starts the run unless this nonce was started before (then only reports its state). Secrets travel in a file of mode
   * 600 that the runner unlinks, never in argv. Throws `python_missing`, `runner_failed`, `entrypoint_not_runnable`.
   */
  start(spec: RunnerSpec, secretEnv: Record<string, string>, signal: AbortSignal): Promise<RunnerStatus>;
  /**
   * Polls once. Null when nothing was ever started here. A runner that died without a report gives `phase: "failed"`.
   */
  status(signal: AbortSignal): Promise<RunLook | null>;
  /** Up to `max` bytes of log from `offset`. */
  readLog(offset: number, max: number, signal: AbortSignal): Promise<LogSlice>;
  /** Whole samples from byte `offset` of samples.jsonl, and the next offset. */
  readSamples(offset: number, signal: AbortSignal): Promise<{ samples: RunnerSample[]; next: number }>;
  /** Everything before `offset` is durable on this computer: the spool may drop it. */
  ackLog(offset: number, signal: AbortSignal): Promise<void>;
  /**
   * Sends TERM to the run's processes, KILL after the grace; resolves when every process of the run is gone, or is
   * recorded as one that KILL does not end (`left`).
   */
  stop(graceSeconds: number, signal: AbortSignal): Promise<void>;
  /**
   * Waits for news (the log grew beyond `seen`, the run ended) for at most `waitMs`, and then reads what is available.
   * The status is older than the log: when it is final, every byte it counts can be read.
   */
  follow(want: Following, signal: AbortSignal): Promise<{ look: RunLook | null; slice: LogSlice }>;
  /** @param announced names that the script announced, the newest first: if the bounds leave anything out, not these. */
  listCheckpoints(signal: AbortSignal, announced?: readonly string[]): Promise<RemoteFile[]>;
  /**
   * Copies one checkpoint file to `target` (a local path, in a folder that exists). Throws `file_not_found` when the
   * file no longer exists as listed, `UnreadableFile` if it cannot be read.
   */
  fetchCheckpoint(file: RemoteFile, target: string, signal: AbortSignal): Promise<void>;
  /** Pieces of many files in one request, in its order. Absent if files are downloaded only once they rest. */
  readPieces?(pieces: readonly PieceRequest[], signal: AbortSignal): Promise<Piece[]>;
  /** SHA-256 of a listed file, in hexadecimal; null when the file no longer exists as listed. */
  hashCheckpoint?(file: RemoteFile, signal: AbortSignal): Promise<string | null>;
  /**
   * Files like results that the script has saved in the project's folder, where nothing downloads them. Absent where the folder stays. A large
   * folder is not read to its end.
   */
  besideCheckpoints?(named: BesideNames, signal: AbortSignal): Promise<BesideFiles>;
}

/** Names of files like results. */
export interface BesideNames {
  endings: readonly string[];
  /** Parts of a name. */
  parts: readonly string[];
}

/** Paths are below the project's folder, and are the machine's words. */
export interface BesideFiles {
  files: number;
  bytes: number;
  largest: { path: string; bytes: number }[];
}

/** The facts that a machine reports when it is greeted. Unknown is null. */
export interface MachineFacts {
  /** Absolute home directory of the user who runs the runs. */
  home: string;
  user: string;
  /** Absolute path of the Python (3.8 or newer) that supervises runs, and runs scripts unless a better one is found. */
  python: string;
  python_version: string;
  cpus: number | null;
  memory_bytes: number | null;
  disk_free_bytes: number | null;
  gpus: { name: string; memory_mib: number | null }[] | null;
  /** Version of the GPU driver, such as `570.86.15`. */
  gpu_driver?: string | null;
  /** The driver's tool exists and reports a failure. `exit` is null if it did not answer in time. */
  gpu_fault?: { tool: string; exit: number | null; words: string } | null;
  /** The machine has GPUs, but their driver does not answer (yet). */
  driver_pending?: boolean;
  rsync: boolean;
  boot_id: string;
  /** Names of other machines with folders there: a machine that its owner keeps is adopted again and again. */
  beside?: readonly string[];
}

/** Absolute folders of one run on its machine. */
export interface MachineLayout {
  project: string;
  checkpoints: string;
  data: string;
  /** The entry for PYTHONPATH: the package `svc`. */
  packages: string;
  /** The virtual environment that the install step creates. */
  environment: string;
}

/** A local tree of plain files to place on the machine. */
export interface TreePush {
  /** Absolute local folder. */
  from: string;
  /** Absolute folder on the machine; created if missing. */
  to: string;
  /** Relative to `from`, with `/`. Only these are sent. */
  files: readonly {
    path: string;
    size: number;
    executable: boolean;
    /** Set if the file must keep its time there, to the second. */
    mtimeMs?: number;
  }[];
  /** `from` contains exactly these files: then they need not be listed one by one. */
  whole?: true;
  /** A symlink among `files` is sent as its target; otherwise only plain files can be sent. */
  followLinks?: true;
  /** Without rsync, large files are sent separately and in pieces; never together with `mirror`. */
  inPieces?: true;
  /** Whether files of an earlier push that are no longer in `files` are removed from `to`. */
  mirror: boolean;
  progress?: (done: { files: number; bytes: number; bytes_per_second: number }) => void;
}

export interface TreePushed {
  files: number;
  /** Size of all files; fewer bytes are sent if some exist already. */
  bytes: number;
  sent_bytes: number | null;
  how: string;
}

/** A file to place on the machine. */
export interface TreeFile {
  /** Relative, with `/`. */
  path: string;
  size: number;
  /** In hexadecimal. */
  sha256: string;
}

/** A tree on the machine, and the files to compare it with. */
export interface TreeCompare {
  /** Absolute folder there, below the machine's own. */
  root: string;
  files: readonly TreeFile[];
  /** Whether contents are read; otherwise only sizes count. */
  digests: boolean;
  /** Removes existing files that differ. */
  drop: boolean;
  progress?: (done: { files: number; bytes: number }) => void;
}

/** The guard that ends the machine when no control plane contacts it any more. docs/internals/guard.md describes it. */
export interface Guard {
  /** Counted from the last contact, or from the last sign of work of the run. */
  graceSeconds: number;
  /** See `Provider.selfEnd`. */
  selfEnd: string;
  /** How long a run may take to end if it is still alive when its time is over. */
  stopSeconds: number;
  /** The budget's deadlines, calculated for every contact; null for none. */
  deadline?: () => MachineLimit | null;
}

/** The order to the gate: which probes to run, and their limits. */
export interface GateAsk {
  /** Limit of the whole gate. */
  seconds: number;
  /** Absolute path of the Python that scripts get. */
  python: string;
  probes: readonly ProbeName[];
  /** Address of the package index to download from; the machine's own where absent. */
  index?: string;
}

/** The test of a machine (docs/internals/gate.md). Its processes end by themselves. */
export interface MachineGate {
  /** Starts the gate. If it is already running, it continues. */
  start(ask: GateAsk, signal: AbortSignal): Promise<void>;
  /**
   * Returns the results so far, once all of `need` have answered, the gate has ended, or `waitMs` have passed. `end`
   * then ends the gate. `clockAheadMs`: by how many milliseconds the machine's clock is ahead of ours.
   */
  look(
    how: { need: readonly ProbeName[]; waitMs: number; end: boolean },
    signal: AbortSignal,
  ): Promise<GateLook & { clockAheadMs: number }>;
}

/**
 * Access to one machine. No method decides that a machine is lost: an unreachable machine throws `ssh_unreachable`, and
 * the provider is asked. All methods are idempotent.
 */
export interface MachineAccess {
  /** True if steps work in place: nothing is copied, nothing is guarded. */
  readonly inPlace: boolean;
  /** Known once the machine was greeted (the handle keeps `home`); throws `ssh_unreachable` before. */
  layout(): MachineLayout;
  /**
   * Connects, verifies that it is the ordered machine, and reads its facts. Throws `ssh_unreachable`, `ssh_refused`,
   * `host_key_changed`, `machine_unfit`.
   */
  greet(signal: AbortSignal): Promise<MachineFacts>;
  push(tree: TreePush, signal: AbortSignal): Promise<TreePushed>;
  /** The files that are missing or differ. Other files there are not read. */
  compare(tree: TreeCompare, signal: AbortSignal): Promise<{ path: string; why: string }[]>;
  /** Moves the machine's own deadline to `graceSeconds` from now, and starts its guard if none is running. */
  keep(guard: Guard, signal: AbortSignal): Promise<void>;
  /** `run` for the script, `install` for the installation before it. */
  host(purpose: "run" | "install"): RunHost;
  /** Tests the machine while files are sent to it; absent where steps work in place. Throws as `layout` does. */
  readonly gate?: MachineGate;
  /** Takes everything of the run off a machine that stays with its owner; absent where nothing was put there. */
  leave?(signal: AbortSignal): Promise<void>;
}
