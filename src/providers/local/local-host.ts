// A run on this computer: the run directory is read and written in place, the runner owns the run. Keeps nothing about
// the run in memory, so a new control plane re-attaches by making another LocalHost for the same folder.

import { randomUUID } from "node:crypto";
import { constants, watch, type FSWatcher } from "node:fs";
import { chmod, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { jsonOf, linesOf } from "../../domain/parsed-lines.ts";
import { startable } from "../../domain/startable.ts";
import { isMissing, orDiskFull, SvcError } from "../../errors/index.ts";
import { RunnerSample, RunnerSpec, RunnerStatus } from "../../schemas/runner.ts";
import type { Following, LogSlice, Piece, PieceRequest, RemoteFile, RunHost } from "../host.ts";
import { fetchFile, hashFile, listFiles, readPieces } from "./checkpoint-files.ts";
import { bootId, isAlive } from "./process-table.ts";
import { openRunFile, readRunFile, readRunFileSync } from "./run-file.ts";
import { callRunner, NoAnswer, type RunnerProgram } from "./runner-process.ts";
import { readSome, SpoolReader } from "./spool-reader.ts";
import { abortReason } from "../../domain/abort-reason.ts";

export interface LocalHostOptions extends RunnerProgram {
  /** Absolute path; created when the run starts. */
  runDir: string;
  /** The environment that the script inherits; by default the control plane's own. */
  env?: NodeJS.ProcessEnv;
}

const START_TIMEOUT_MS = 30_000;
/** How often the files are checked without a report: watching works on every local disk we know of. */
const TICK_MS = 1_000;
const TICK_UNWATCHED_MS = 20;
const SAMPLES_MAX = 1 << 20;

export class LocalHost implements RunHost {
  readonly runDir: string;
  readonly #program: RunnerProgram;
  readonly #env: NodeJS.ProcessEnv;
  readonly #spool: SpoolReader;
  #acked = -1;
  #parsed: { text: string; status: RunnerStatus } | null = null;

  constructor(options: LocalHostOptions) {
    this.runDir = options.runDir;
    this.#program = { runnerPath: options.runnerPath, python: options.python };
    this.#env = options.env ?? process.env;
    this.#spool = new SpoolReader(options.runDir);
  }

  async start(spec: RunnerSpec, secretEnv: Record<string, string>, signal: AbortSignal): Promise<RunnerStatus> {
    signal.throwIfAborted();
    const before = await this.status(signal);
    // A claim without a process: the call that made it will report in a moment, and the runner waits for that.
    const claimed = before?.phase === "running" && before.pid === null;
    if (before?.nonce === spec.nonce && !claimed) return startable(before, spec);
    if (before?.phase === "running" && before.nonce !== spec.nonce)
      throw new SvcError("runner_failed", { why: `another run uses ${this.runDir}` });
    await mkdir(this.runDir, { recursive: true, mode: 0o700 });
    await chmod(this.runDir, 0o700);
    await mkdir(spec.checkpoint_dir, { recursive: true, mode: 0o700 });
    const secrets = this.#path("env.json");
    let answer;
    try {
      // The secrets first: a launcher of an earlier call that is still running must not find the spec without them.
      await replaceUnflushed(secrets, JSON.stringify(secretEnv));
      await replaceUnflushed(this.#path("spec.json"), JSON.stringify(spec));
      answer = await callRunner(this.#program, ["start", this.runDir], {
        env: { ...this.#env, SVC_RUN_DIR: this.runDir, SVC_RUN_NONCE: undefined },
        cwd: this.runDir,
        timeoutMs: START_TIMEOUT_MS,
        untilLine: true,
        signal,
      });
    } catch (thrown) {
      // A launcher that was abandoned may still be about to read them; the runner unlinks them then.
      if (!signal.aborted && !(thrown instanceof NoAnswer)) await rm(secrets, { force: true });
      throw orDiskFull(thrown, this.runDir);
    }
    if (answer.code !== 0 || answer.stdout === "") {
      await rm(secrets, { force: true });
      throw runnerFailure(answer.stderr, answer.code, this.runDir);
    }
    return startable(RunnerStatus.parse(JSON.parse(answer.stdout)), spec);
  }

  async status(signal: AbortSignal): Promise<RunnerStatus | null> {
    signal.throwIfAborted();
    const first = this.#readStatus();
    if (first?.phase !== "running" || runnerLives(first)) return first;
    // It may have written its last status and exited between the two checks.
    const second = this.#readStatus();
    if (second?.phase !== "running") return second;
    const why =
      second.boot_id !== "" && second.boot_id !== bootId()
        ? "the machine was restarted while the script ran"
        : "the runner that supervised the script was killed, and the output and metrics that it had not read yet are lost";
    return { ...second, phase: "failed", error: why, log_bytes: this.#spool.end(), ended_at_ms: Date.now() };
  }

  async readLog(offset: number, max: number, signal: AbortSignal): Promise<LogSlice> {
    signal.throwIfAborted();
    return this.#spool.read(offset, max);
  }

  async readSamples(offset: number, signal: AbortSignal): Promise<{ samples: RunnerSample[]; next: number }> {
    signal.throwIfAborted();
    const bytes = await readSome(this.#path("samples.jsonl"), offset, SAMPLES_MAX);
    const { values, length } = linesOf(bytes, RunnerSample);
    return { samples: values, next: offset + length };
  }

  async ackLog(offset: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (offset <= this.#acked) return;
    // The runner made the file; overwriting it needs no space, which a full disk would not have. It contains the number
    // twice, so that a reader detects a half-written one.
    const number = String(offset).padStart(20, "0");
    const handle = await openRunFile(this.#path("acked"), constants.O_WRONLY);
    try {
      await handle.write(`${number} ${number}\n`, 0);
    } finally {
      await handle.close();
    }
    this.#acked = offset;
  }

  async stop(graceSeconds: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    // `exited` is written only when every process of the run that can be ended is gone; any other status requires a check.
    const status = await this.status(signal).catch(() => null);
    const spec = await this.#readSpec().catch(() => null);
    if (status?.phase === "exited" && status.nonce === spec?.nonce) return;
    if ((await stat(this.runDir).catch(() => null)) === null) return;
    const answer = await callRunner(this.#program, ["stop", this.runDir, "--grace", String(graceSeconds)], {
      env: { ...this.#env, SVC_RUN_DIR: undefined },
      cwd: this.runDir,
      timeoutMs: (graceSeconds + 60) * 1000,
      signal,
    });
    if (answer.code !== 0) throw runnerFailure(answer.stderr || answer.stdout, answer.code, this.runDir);
  }

  async follow({ offset, max, seen, waitMs }: Following, signal: AbortSignal) {
    if (waitMs > 0) await this.#news(seen, waitMs, signal);
    const look = await this.status(signal);
    return { look, slice: await this.readLog(offset, max, signal) };
  }

  /** Resolves once the log is longer than `seen`, the run has ended, or the time is up. */
  async #news(seen: number, maxMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const news = (): boolean => this.#spool.end() > seen;
    if (news()) return;
    // The caller has not seen the end yet; a comparison with an earlier state would miss an end in between.
    const ended = (): boolean => {
      const status = this.#readStatus();
      return status !== null && (status.phase !== "running" || !runnerLives(status));
    };
    const watchers: FSWatcher[] = [];
    let timer: NodeJS.Timeout | undefined;
    let tick: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        // The script may have replaced these files by ones that cannot be read; an error of a watch would end the process.
        const resolveIf = (isOver: () => boolean): void => {
          try {
            if (isOver()) resolve();
          } catch (thrown) {
            reject(thrown);
          }
        };
        const look = (): void => resolveIf(() => news() || ended());
        const listen = (folder: string, onChange: (name: string | null) => void): boolean => {
          try {
            watchers.push(watch(folder, (_, name) => onChange(name)).on("error", () => undefined));
            return true;
          } catch {
            return false; // missing yet, or no watches left: the timer suffices
          }
        };
        const both =
          listen(this.#spool.folder, () => resolveIf(news)) &&
          listen(this.runDir, (name) => (name === null || name === "status.json") && look());
        onAbort = () => reject(abortReason(signal));
        signal.addEventListener("abort", onAbort, { once: true });
        timer = setTimeout(resolve, maxMs);
        tick = setInterval(look, both ? TICK_MS : TICK_UNWATCHED_MS);
        look(); // for changes before the watches were set
      });
    } finally {
      clearTimeout(timer);
      clearInterval(tick);
      for (const watcher of watchers) watcher.close();
      if (onAbort) signal.removeEventListener("abort", onAbort);
    }
  }

  async listCheckpoints(signal: AbortSignal, announced: readonly string[] = []): Promise<RemoteFile[]> {
    const spec = await this.#readSpec();
    return spec === null ? [] : listFiles(spec.checkpoint_dir, signal, { announced });
  }

  async fetchCheckpoint(file: RemoteFile, target: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const spec = await this.#readSpec();
    if (spec === null) throw new SvcError("file_not_found", { path: file.path });
    await fetchFile(spec.checkpoint_dir, file, target).catch((thrown: unknown) => {
      throw orDiskFull(thrown, dirname(target));
    });
  }

  async readPieces(pieces: readonly PieceRequest[]): Promise<Piece[]> {
    const spec = await this.#readSpec();
    return spec === null ? pieces.map(() => null) : readPieces(spec.checkpoint_dir, pieces);
  }

  async hashCheckpoint(file: RemoteFile): Promise<string | null> {
    const spec = await this.#readSpec();
    return spec === null ? null : hashFile(spec.checkpoint_dir, file);
  }

  #path(name: string): string {
    return join(this.runDir, name);
  }

  /**
   * Each run is looked at once a second. A small file in the cache of the system is read in 20 µs; five asynchronous calls, through
   * the four threads that Node reads files with, take ten times as long, and a status that has not changed need not be parsed again.
   */
  #readStatus(): RunnerStatus | null {
    let text: string;
    try {
      text = readRunFileSync(this.#path("status.json"));
    } catch (thrown) {
      if (isMissing(thrown)) return null;
      throw thrown;
    }
    if (text === this.#parsed?.text) return this.#parsed.status;
    const status = RunnerStatus.safeParse(jsonOf(text));
    if (!status.success)
      throw new SvcError("run_damaged", { path: this.#path("status.json") }, { cause: status.error });
    this.#parsed = { text, status: status.data };
    return status.data;
  }

  async #readSpec(): Promise<RunnerSpec | null> {
    try {
      const spec = RunnerSpec.safeParse(jsonOf(await readRunFile(this.#path("spec.json"))));
      return spec.success ? spec.data : null;
    } catch (thrown) {
      if (isMissing(thrown)) return null;
      throw thrown;
    }
  }
}

function runnerLives(status: RunnerStatus): boolean {
  return isAlive({ pid: status.runner_pid, start: status.runner_start, boot_id: status.boot_id });
}

function runnerFailure(stderr: string, code: number | null, path: string): SvcError {
  if (/Errno 28|No space left/.test(stderr)) return new SvcError("disk_full", { path });
  const last = stderr.trim().split("\n").at(-1) ?? "";
  return new SvcError("runner_failed", { why: last === "" ? `it ended with code ${code}` : last });
}

/**
 * Replaces a small file atomically, with mode 600. No sync to disk: a run does not survive a crash of this computer,
 * and an interrupted start is repeated.
 */
async function replaceUnflushed(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    const handle = await open(temporary, "wx", 0o600);
    try {
      await handle.writeFile(text);
    } finally {
      await handle.close();
    }
    await rename(temporary, path);
  } catch (thrown) {
    await rm(temporary, { force: true });
    throw thrown;
  }
}
