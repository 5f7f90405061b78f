// Controls a run on a rented machine: does through the agent what LocalHost does in place. Keeps nothing about the run
// in memory, so a new control plane re-attaches by making another RemoteHost for the same folder.

import { hash } from "node:crypto";
import { z } from "zod";
import { CHECKPOINT_FILES_MAX } from "../domain/checkpoint-bounds.ts";
import { firstChars } from "../domain/terminal-text.ts";
import { boundedJson } from "../domain/bounded-json.ts";
import { linesOf } from "../domain/parsed-lines.ts";
import { MachineClock } from "../domain/machine-clock.ts";
import { startable } from "../domain/startable.ts";
import { AgentRefusal, type AgentClient, type CallOptions } from "./agent-client.ts";
import { askAgent, diskRefusal } from "./ask-agent.ts";
import { fetchRemoteFile } from "./fetch-file.ts";
import { SvcError } from "../errors/index.ts";
import type {
  BesideFiles,
  BesideNames,
  Following,
  LogSlice,
  Piece,
  PieceRequest,
  RemoteFile,
  RunHost,
  RunLook,
} from "../providers/host.ts";
import { DISK_FAULTS, RunnerSample, RunnerStatus, type RunnerSpec } from "../schemas/runner.ts";

export interface RunnerText {
  /** The text of the runner, and its SHA-256 in hexadecimal. */
  text: Buffer;
  digest: string;
}

export interface RemoteHostOptions {
  /** The machine's name, for messages. */
  machine: string;
  /** Absolute path on the machine. */
  runDir: string;
  runner: RunnerText;
  /** The agent on the machine; connects if necessary. Throws `ssh_unreachable` and related errors. */
  agent: (signal: AbortSignal) => Promise<AgentClient>;
}

/** In addition to the grace: the agent waits for the runner a minute longer than the grace. */
const STOP_ANSWER_SECONDS = 90;
const START_TIMEOUT_MS = 45_000;
const SAMPLES_MAX = 1 << 20;
const LISTING_MAX = 48 << 20;
/** As many files, as many refused names, and the one at which the listing ends. */
const ROWS_MAX = 2 * CHECKPOINT_FILES_MAX + 1;
/** The agent reads requests of up to 8 MiB; escapes make a name longer. */
const NAMES_BYTES_MAX = 1 << 20;
const ERROR_CHARACTERS_MAX = 2_000;
/** One entry of the index of write times: an offset and milliseconds. */
const RECORD = 16;
/** Maximum of index bytes in one answer with a slice of the log. */
const TIMES_MAX = (1 << 18) * RECORD;
const ANSWER_GRACE_MS = 20_000;

const Nothing = z.unknown();
const StatusAnswer = z.object({
  status: z.unknown(),
  disk_free: z.number().min(0).nullish(),
  disk_fault: z.enum(DISK_FAULTS).nullish().catch(null),
});
const Now = { now_ms: z.int().min(0).max(8.64e15) };
const LogAnswer = z.object({ begin: z.int().min(0), log_bytes: z.int().min(0), times: z.int().min(0), ...Now });
const SamplesAnswer = z.object(Now);
const BESIDE_MAX = 1 << 16;
const BesideAnswer = z.object({ files: z.int().min(0), bytes: z.number().min(0) });
const BesideLargest = z.array(z.tuple([z.string(), z.int().min(0)])).max(10);
const FollowAnswer = z.object({ ...StatusAnswer.shape, ...LogAnswer.shape });
const FileRow = z.union([
  z.tuple([z.string(), z.int().min(0), z.number(), z.int()]),
  z.tuple([z.string(), z.int().min(0), z.number(), z.int(), z.string().nullable(), z.int().min(0)]),
]);
const RefusedRow = z.tuple([
  z.string(),
  z.string(),
  z.enum(["link", "limit", ""]).optional(),
  z.int().min(0).optional(),
]);
const ListedFile = z.union([FileRow.transform(fileOf), RefusedRow.transform(refusalOf)]);
const ROW = { values: 8, depth: 1 };
const ListAnswer = z.object({ full: z.boolean() });
function fileOf([path, size, mtimeMs, inode, leadsTo, stored]: z.infer<typeof FileRow>): RemoteFile {
  return {
    path,
    size,
    mtimeMs,
    inode,
    ...(leadsTo && { leadsTo }),
    ...(stored !== undefined && stored < size && { stored }),
  };
}
function refusalOf([path, refused, mark, others]: z.infer<typeof RefusedRow>): RemoteFile {
  const isLink = mark === "link" && { isLink: true as const };
  const isLimit = mark === "limit" && { isLimit: true as const };
  return { path, size: 0, mtimeMs: 0, inode: 0, refused, ...isLink, ...isLimit, ...(others && { others }) };
}
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const HashAnswer = z.object({ sha256: Sha256 });
const PiecesAnswer = z.object({
  pieces: z.array(
    z.union([
      z.object({ why: z.string() }),
      z.object({ bytes: z.int().min(0), sha256: Sha256, size: z.int().min(0), mtime: z.number() }),
    ]),
  ),
});
/** The agent's limit for one answer. */
const PIECES_BYTES_MAX = 16 << 20;

export class RemoteHost implements RunHost {
  readonly runDir: string;
  readonly #o: RemoteHostOptions;
  #acked = -1;
  readonly #clock = new MachineClock();

  constructor(options: RemoteHostOptions) {
    this.runDir = options.runDir;
    this.#o = options;
  }

  async start(spec: RunnerSpec, secretEnv: Record<string, string>, signal: AbortSignal): Promise<RunnerStatus> {
    const args = { spec, secrets: secretEnv };
    const { value } = await this.#withRunner("start", args, StatusAnswer, { signal, timeoutMs: START_TIMEOUT_MS });
    return startable(this.#status(value.status), spec);
  }

  async status(signal: AbortSignal): Promise<RunLook | null> {
    return this.#look((await this.#ask("status", {}, StatusAnswer, { signal })).value);
  }

  async readLog(offset: number, max: number, signal: AbortSignal): Promise<LogSlice> {
    const options = { signal, maxBytes: max + TIMES_MAX };
    return this.#slice(await this.#ask("read_log", { offset, max }, LogAnswer, options), offset, max);
  }

  async follow({ offset, max, seen, waitMs }: Following, signal: AbortSignal) {
    const options = { signal, maxBytes: max + TIMES_MAX, timeoutMs: waitMs + ANSWER_GRACE_MS };
    const answer = await this.#ask("follow", { offset, max, seen, wait_ms: waitMs }, FollowAnswer, options);
    return { look: this.#look(answer.value), slice: this.#slice(answer, offset, max) };
  }

  async readSamples(offset: number, signal: AbortSignal): Promise<{ samples: RunnerSample[]; next: number }> {
    const options = { signal, maxBytes: SAMPLES_MAX };
    const { value, bytes } = await this.#ask("read_samples", { offset }, SamplesAnswer, options);
    const ahead = this.#clock.ahead(value.now_ms);
    const { values, length } = linesOf(bytes, RunnerSample);
    return { samples: values.map((one) => ({ ...one, at_ms: Math.max(0, one.at_ms - ahead) })), next: offset + length };
  }

  async ackLog(offset: number, signal: AbortSignal): Promise<void> {
    if (offset <= this.#acked) return;
    await this.#ask("ack", { offset }, Nothing, { signal });
    this.#acked = offset;
  }

  async stop(graceSeconds: number, signal: AbortSignal): Promise<void> {
    const timeoutMs = (graceSeconds + STOP_ANSWER_SECONDS) * 1_000;
    await this.#withRunner("stop", { grace: graceSeconds }, Nothing, { signal, timeoutMs });
  }

  async listCheckpoints(signal: AbortSignal, announced: readonly string[] = []): Promise<RemoteFile[]> {
    const { isFull, files } = await this.#list({}, signal);
    // Hardly any listing is full: the names are not sent with every request.
    return isFull && announced.length > 0 ? (await this.#list({ names: fitting(announced) }, signal)).files : files;
  }

  async #list(names: { names?: readonly string[] }, signal: AbortSignal) {
    const options = { signal, maxBytes: LISTING_MAX, timeoutMs: 60_000 };
    const { value, bytes } = await this.#ask("list", names, ListAnswer, options);
    const files: RemoteFile[] = [];
    const unfit = (why: string) => new SvcError("machine_unfit", { machine: this.#o.machine, why });
    for (let at = 0, end = 0; at < bytes.length; at = end + 1) {
      end = bytes.indexOf(0x0a, at);
      if (end < 0) end = bytes.length;
      if (end === at) continue;
      if (files.length >= ROWS_MAX) throw unfit("its list of checkpoints is too long");
      const row = ListedFile.safeParse(boundedJson(bytes.toString("utf8", at, end), ROW));
      if (!row.success) throw unfit("it returned an invalid list of checkpoints");
      files.push(row.data);
    }
    return { isFull: value.full, files };
  }

  async besideCheckpoints(named: BesideNames, signal: AbortSignal): Promise<BesideFiles> {
    const { value, bytes } = await this.#ask("beside", { ...named }, BesideAnswer, { signal, maxBytes: BESIDE_MAX });
    const largest = BesideLargest.safeParse(boundedJson(bytes.toString("utf8")));
    return { ...value, largest: largest.success ? largest.data.map(([path, size]) => ({ path, bytes: size })) : [] };
  }

  async fetchCheckpoint(file: RemoteFile, target: string, signal: AbortSignal): Promise<void> {
    const agent = this.#o.agent;
    await fetchRemoteFile({ machine: this.#o.machine, runDir: this.runDir, file, target, agent, signal });
  }

  async readPieces(pieces: readonly PieceRequest[], signal: AbortSignal): Promise<Piece[]> {
    const asked = pieces.map(({ file, offset, max, checks, whole }) => ({
      path: file.leadsTo ?? file.path,
      inode: file.inode,
      offset,
      max,
      whole,
      checks: checks.map(({ start, end, sha256 }) => [start, end, sha256]),
    }));
    const maxBytes = Math.min(
      PIECES_BYTES_MAX,
      pieces.reduce((sum, { max }) => sum + max, 0),
    );
    const answer = await this.#ask("read_pieces", { pieces: asked }, PiecesAnswer, { signal, maxBytes });
    const found = answer.value.pieces;
    const length = found.reduce((sum, piece) => sum + ("why" in piece ? 0 : piece.bytes), 0);
    const isLonger = found.some((piece, i) => !("why" in piece) && piece.bytes > (pieces[i]?.max ?? 0));
    if (found.length !== pieces.length || length !== answer.bytes.length || isLonger)
      throw new SvcError("machine_unfit", {
        machine: this.#o.machine,
        why: "it sent other pieces than svc requested",
      });
    let at = 0;
    return found.map((piece) => {
      if ("why" in piece) return null;
      const bytes = answer.bytes.subarray(at, at + piece.bytes);
      at += piece.bytes;
      if (hash("sha256", bytes) !== piece.sha256)
        throw new SvcError("machine_unfit", {
          machine: this.#o.machine,
          why: "a piece of a file arrived with another hash than it has there",
        });
      return { bytes, size: piece.size, mtimeMs: piece.mtime };
    });
  }

  async hashCheckpoint(file: RemoteFile, signal: AbortSignal): Promise<string | null> {
    const named = { path: file.leadsTo ?? file.path, size: file.size, mtime: file.mtimeMs, inode: file.inode };
    try {
      return (await this.#ask("hash_file", named, HashAnswer, { signal })).value.sha256;
    } catch (thrown) {
      if (thrown instanceof SvcError && thrown.cause instanceof AgentRefusal && thrown.cause.kind !== "failed")
        return null;
      throw thrown;
    }
  }

  #look(answer: z.infer<typeof StatusAnswer>): RunLook | null {
    const { disk_free = null, disk_fault = null } = answer;
    return answer.status === null ? null : { ...this.#status(answer.status), disk_free, disk_fault };
  }

  #slice(answer: { value: z.infer<typeof LogAnswer>; bytes: Buffer }, offset: number, max: number): LogSlice {
    const { begin, log_bytes, times: count } = answer.value;
    if (begin < offset)
      throw new SvcError("machine_unfit", {
        machine: this.#o.machine,
        why: "its log begins before the requested byte",
      });
    if (log_bytes > max || log_bytes + count * RECORD !== answer.bytes.length)
      throw new SvcError("machine_unfit", { machine: this.#o.machine, why: "its log is not as long as it says" });
    const bytes = answer.bytes.subarray(0, log_bytes);
    const clockAheadMs = this.#clock.ahead(answer.value.now_ms);
    const times = bytes.length === 0 ? [] : timesOf(answer.bytes.subarray(log_bytes), begin, log_bytes, clockAheadMs);
    return { bytes, dropped: begin - offset, times, clockAheadMs };
  }

  #status(value: unknown): RunnerStatus {
    const status = RunnerStatus.safeParse(value);
    if (status.success) {
      const { error } = status.data;
      return { ...status.data, error: error && firstChars(error, ERROR_CHARACTERS_MAX) };
    }
    throw new SvcError("run_damaged", { path: `${this.runDir}/status.json` }, { cause: status.error });
  }

  /** `start` and `stop` need the runner on the machine; it is sent if missing. */
  async #withRunner<T>(op: string, args: Record<string, unknown>, schema: z.ZodType<T>, options: CallOptions) {
    const { digest, text } = this.#o.runner;
    const ask = () => this.#ask(op, { ...args, runner: digest }, schema, options);
    try {
      return await ask();
    } catch (thrown) {
      if (!(thrown instanceof SvcError && thrown.cause instanceof AgentRefusal)) throw thrown;
      if (thrown.cause.kind !== "runner_missing") throw thrown;
      await this.#ask("runner", { digest }, Nothing, { signal: options.signal, body: text });
      return ask();
    }
  }

  async #ask<T>(op: string, args: Record<string, unknown>, schema: z.ZodType<T>, options: CallOptions) {
    try {
      return await askAgent(this.#o.agent, op, { ...args, dir: this.runDir }, schema, options);
    } catch (thrown) {
      throw thrown instanceof AgentRefusal ? this.#refused(thrown) : thrown;
    }
  }

  #refused(refusal: AgentRefusal): SvcError {
    const disk = diskRefusal(this.#o.machine, refusal, `nothing can be written in ${this.runDir}`);
    if (disk) return disk;
    if (refusal.kind === "damaged")
      return new SvcError("run_damaged", { path: `${this.runDir}/status.json` }, { cause: refusal });
    return new SvcError("runner_failed", { why: refusal.message }, { cause: refusal });
  }
}

/** The first of these names, as many as one request may have. */
function fitting(names: readonly string[]): string[] {
  let left = NAMES_BYTES_MAX;
  return names.filter((name) => (left -= Buffer.byteLength(name) + 3) >= 0);
}

/** Entries for the bytes from `offset` on. A time from the machine counts only if it is possible. */
function timesOf(packed: Buffer, offset: number, length: number, aheadMs: number): LogSlice["times"] {
  const times: LogSlice["times"] = [];
  for (let at = 0; at < packed.length; at += RECORD) {
    const from = Number(packed.readBigUInt64LE(at));
    const atMs = Number(packed.readBigUInt64LE(at + 8));
    const after = times.at(-1)?.offset ?? offset;
    if (from < after || from >= offset + length || atMs > 8.64e15) return [{ offset, atMs: Date.now() }];
    times.push({ offset: from, atMs: Math.max(0, atMs - aheadMs) });
  }
  return times[0]?.offset === offset ? times : [{ offset, atMs: Date.now() }];
}
