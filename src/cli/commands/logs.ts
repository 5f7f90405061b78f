// `svc logs`: the stored log of a run, followed until the run ends if asked.

import { SvcError as WireError } from "../../../sdk/errors.ts";
import type { Client } from "../../../sdk/client.ts";
import { messageOf } from "../../errors/index.ts";
import { foldReturns, rankOf, terminalSafe } from "../../domain/log-lines.ts";
import { usage, value, whole } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { take } from "../columns.ts";
import { sleep, type Io } from "../io.ts";
import { logWindow, type WindowOptions } from "../log-window.ts";
import { momentOf } from "../times.ts";
import { withJob, type OpenReads } from "../store.ts";
import type { JobRecord } from "../../schemas/job.ts";
import { hasEnded } from "../../schemas/names.ts";
import { safeField, toJson } from "../../domain/terminal-text.ts";
import { hintFor } from "../text.ts";

export interface LogsOptions extends WindowOptions {
  follow: boolean;
  timestamps: boolean;
  exitStatus: boolean;
  rank: number | undefined;
  grep: RegExp | undefined;
  raw: boolean;
  json: boolean;
}

const CHUNK_BYTES = 256 * 1024;
/** Exit code when the end of the run is unknown. */
const NOT_OVER = 5;
/** How long to wait for a lost control plane. */
const LOST_MS_MAX = 60_000;
const START_ONE = "`svc serve` starts one, which resumes the run.";
/** Moves to the first column and clears the line. */
const REWRITE = "\r\u001b[2K";
/** Colours, and the sequences by which a progress bar clears its line. */
const UNSHOWN = /\u001b\[(?:[0-9;:]{0,64}m|[0-2]?K|\?25[hl])/g;
const LINE_BYTES_MAX = 64 * 1024;

export const logs: Command = {
  name: "logs",
  args: "<job>",
  summary: "Print the log of a run",
  options: [
    { flags: "-f, --follow", what: "Keep printing until the run ends" },
    { flags: "-n, --tail <n>", what: "Only the last n lines; with --around, n lines on each side (default 10)" },
    { flags: "--since <time>", what: "Only lines since this time: 10m (ago), 14:03, 2026-11-26T14:03:00Z" },
    { flags: "--until <time>", what: "Only lines until this time, in the same formats" },
    { flags: "--around <where>", what: "Only the lines around a time or a line number" },
    { flags: "-t, --timestamps", what: "Prefix each line with its timestamp" },
    { flags: "--rank <n>", what: "Print only the lines of one rank, when a launcher starts several" },
    { flags: "--grep <pattern>", what: "Print only the lines that match a regular expression" },
    { flags: "-i, --ignore-case", what: "Let --grep match upper and lower case alike" },
    { flags: "--exit-status", what: "Exit with the exit code of the run" },
    { flags: "--raw", what: "Print raw bytes, even to a terminal" },
  ],
  exits: [
    ["3", "no such job"],
    ["130", "interrupted; the run continues"],
    [
      "5",
      "with -f: the run is unfinished and no control plane is running it; with --exit-status: the run is unfinished",
    ],
    ["*", "with --exit-status: the exit code of the run, 1 if it has none"],
  ],
  examples: [
    "svc logs -f 4k2m",
    "svc logs 4k2m -n 50 -t",
    "svc logs 4k2m --since 10m --grep 'loss|nan' -i",
    "svc logs 4k2m --around 14:03 -n 30",
    "svc logs -f 4k2m --exit-status",
  ],
  run: (input, io) => {
    const [since, until] = [value(input, "since"), value(input, "until")];
    const options: LogsOptions = {
      follow: input.flags.has("follow"),
      tail: whole(input, "tail", { min: 0, max: 1_000_000_000 }),
      sinceMs: since === undefined ? undefined : momentOf("--since", since),
      untilMs: until === undefined ? undefined : momentOf("--until", until),
      around: value(input, "around"),
      grep: patternOf(input),
      timestamps: input.flags.has("timestamps"),
      exitStatus: input.flags.has("exit-status"),
      rank: whole(input, "rank", { min: 0, max: 1_000_000 }),
      raw: input.flags.has("raw"),
      json: input.json,
    };
    if (options.around !== undefined && (since !== undefined || until !== undefined || options.follow))
      throw usage("--around cannot be combined with --since, --until or --follow.", "Give one of them.");
    if (options.untilMs !== undefined && options.follow)
      throw usage("--until and --follow contradict each other.", "Give one of them.");
    return withJob(io, input.args[0] ?? "", (reads, id) => printLog(reads, id, options, io));
  },
};

function patternOf(input: Input): RegExp | undefined {
  const pattern = value(input, "grep");
  const ignoresCase = input.flags.has("ignore-case");
  if (pattern === undefined) {
    if (ignoresCase) throw usage("--ignore-case has nothing to match.", "Give --grep PATTERN as well.");
    return undefined;
  }
  try {
    return new RegExp(pattern, ignoresCase ? "iu" : "u");
  } catch (cause) {
    throw usage(
      `--grep \`${pattern}\` is not a regular expression: ${messageOf(cause)}.`,
      "Write a backslash before a character that stands for itself, as in `\\[rank3\\]`.",
    );
  }
}

async function printLog(reads: OpenReads, id: string, options: LogsOptions, io: Io): Promise<number> {
  const reading = new LogReading(reads, id, options, io);
  // The order matters: the log that is read after the run was seen to have ended is complete.
  const isOver = reading.isOver();
  await reading.printStored();
  if (options.follow && !isOver) await reading.follow();
  await reading.end();
  return io.interrupted.aborted ? 130 : exitOf(reads.job(id), options, id, io);
}

/** Says how a followed run ended, and returns the command's exit code. */
function exitOf(record: JobRecord | null, { follow, json, exitStatus }: LogsOptions, id: string, io: Io): number {
  const isOver = !record || hasEnded(record.status);
  if (follow && !json && isOver && record?.error)
    io.err(safeField(`${id}: ${record.status}. ${record.error.message}`) + `\n${hintFor(id, record.error.hint)}`);
  if (!exitStatus) return follow && !isOver ? NOT_OVER : 0;
  if (!isOver) return NOT_OVER;
  return record?.exit_code ?? (record?.status === "succeeded" ? 0 : 1);
}

/** Reads a log from the store, and from the control plane while the run continues. */
class LogReading {
  readonly #reads: OpenReads;
  readonly #id: string;
  readonly #io: Io;
  readonly #printer: LogPrinter;
  readonly #to: number;
  #offset: number;
  #wasFollowed = false;
  #lostAt: number | null = null;

  constructor(reads: OpenReads, id: string, options: LogsOptions, io: Io) {
    this.#reads = reads;
    this.#id = id;
    this.#io = io;
    this.#printer = new LogPrinter(reads, id, options, io);
    const { from, to } = logWindow(reads, id, options);
    this.#offset = from;
    this.#to = to ?? Infinity;
  }

  isOver(): boolean {
    return hasEnded(this.#reads.job(this.#id)?.status ?? "succeeded");
  }

  async printStored(): Promise<void> {
    for (;;) {
      const part = this.#reads.readLog(this.#id, this.#offset, Math.min(CHUNK_BYTES, this.#to - this.#offset));
      if (part.length === 0 || this.#io.interrupted.aborted) return;
      await this.#print(part);
    }
  }

  /** Prints until the run has ended, the command is interrupted, or no control plane runs it for long. */
  async follow(): Promise<void> {
    const { interrupted } = this.#io;
    while (!interrupted.aborted) {
      const client = await findClient(this.#io);
      if (client) await this.#printLive(client);
      const isOver = this.isOver();
      if (isOver || !client) await this.printStored();
      if (isOver || (!client && !this.#waitsOn())) return;
      await sleep(client ? 100 : 200, interrupted);
    }
  }

  async end(): Promise<void> {
    await this.#printer.end();
  }

  async #printLive(client: Client): Promise<void> {
    if (this.#lostAt !== null) this.#io.err(`A control plane is running job ${this.#id} again.`);
    this.#lostAt = null;
    this.#wasFollowed = true;
    try {
      for await (const part of client.followLog(this.#id, this.#offset, this.#io.interrupted))
        await this.#print(Buffer.from(part.buffer, part.byteOffset, part.byteLength));
    } catch (e) {
      if (!(e instanceof WireError && e.code === "unreachable")) throw e;
    }
  }

  /** Without a control plane: whether it is worth waiting for one. Says what it decides. */
  #waitsOn(): boolean {
    const [id, io] = [this.#id, this.#io];
    const patience = `${LOST_MS_MAX / 1_000} s`;
    if (!this.#wasFollowed) {
      io.err(`No control plane is running job ${id}; this is the stored log.\n${START_ONE}`);
      return false;
    }
    if (this.#lostAt === null) {
      this.#lostAt = performance.now();
      io.err(`The control plane of job ${id} has stopped; waiting ${patience} for another one.\n${START_ONE}`);
      return true;
    }
    if (performance.now() - this.#lostAt <= LOST_MS_MAX) return true;
    io.err(`No control plane started within ${patience}. Job ${id} is unfinished; its machine may cost money.`);
    return false;
  }

  async #print(part: Buffer): Promise<void> {
    await this.#printer.print(part, this.#offset);
    this.#offset += part.length;
  }
}

async function findClient(io: Io): Promise<Client | null> {
  const { runningClient } = await import("../control-plane.ts");
  return runningClient(io);
}

/** Prints raw bytes, or lines: with times, as JSON, or made harmless for a terminal. */
class LogPrinter {
  readonly #reads: OpenReads;
  readonly #id: string;
  readonly #options: LogsOptions;
  readonly #io: Io;
  #rest: Buffer = Buffer.alloc(0);
  #restOffset = 0;
  #times: { offset: number; at_ms: number }[] = [];
  #timesTo = -1;
  /** Whether an unfinished line is on the terminal and must be overwritten. */
  #unfinished = false;

  constructor(reads: OpenReads, id: string, options: LogsOptions, io: Io) {
    this.#reads = reads;
    this.#id = id;
    this.#options = options;
    this.#io = io;
  }

  async print(part: Buffer, offset: number): Promise<void> {
    const { json, timestamps, raw } = this.#options;
    if (!json && !timestamps && !this.#picks && (raw || !this.#io.tty)) return this.#io.out(part);
    if (json || timestamps) this.#loadTimes(offset, offset + part.length);
    const whole = this.#rest.length > 0 ? Buffer.concat([this.#rest, part]) : part;
    let start = 0;
    const base = this.#rest.length > 0 ? this.#restOffset : offset;
    let shown = "";
    for (;;) {
      let end = whole.indexOf(0x0a, start);
      const cut = end < 0 ? whole.length - start >= LINE_BYTES_MAX : end - start > LINE_BYTES_MAX;
      if (cut) end = start + LINE_BYTES_MAX - 1;
      if (end < 0) break;
      shown += this.#line(whole.subarray(start, cut ? end + 1 : end), base + start);
      start = end + 1;
    }
    this.#rest = Buffer.from(whole.subarray(start));
    this.#restOffset = base + start;
    // A progress bar ends its line only when it is done; a person who follows wants to see it move.
    if (this.#options.follow && this.#io.tty && !json && !timestamps) {
      if (this.#unfinished) shown = `${REWRITE}${shown}`;
      this.#unfinished = this.#rest.length > 0;
      if (this.#unfinished) shown += this.#preview();
    }
    if (shown) await this.#io.out(shown);
  }

  /** Prints the rest without a line end. */
  async end(): Promise<void> {
    if (this.#unfinished) await this.#io.out(REWRITE);
    this.#unfinished = false;
    if (this.#rest.length > 0) await this.#io.out(this.#line(this.#rest, this.#restOffset));
    this.#rest = Buffer.alloc(0);
  }

  #preview(): string {
    const text = foldReturns(this.#rest.subarray(-4096).toString("utf8")).replace(UNSHOWN, "");
    if (!this.#wants(text)) return "";
    return take(safeField(text), this.#io.columns() - 1);
  }

  #line(bytes: Buffer, offset: number): string {
    const { json, timestamps, raw } = this.#options;
    let text = bytes.toString("utf8");
    if (!this.#wants(text)) return "";
    if (json) return `${toJson({ offset, at: this.#at(offset), line: text })}\n`;
    if (this.#io.tty && !raw) {
      text = terminalSafe(foldReturns(text));
      if (text.includes("\u001b[")) text += "\u001b[0m";
    }
    return timestamps ? `${this.#at(offset) ?? "-"} ${text}\n` : `${text}\n`;
  }

  /** Whether some lines are left out. */
  get #picks(): boolean {
    return this.#options.rank !== undefined || this.#options.grep !== undefined;
  }

  #wants(text: string): boolean {
    const { rank, grep } = this.#options;
    if (rank !== undefined && rankOf(text) !== rank) return false;
    return grep === undefined || grep.test(text.replace(UNSHOWN, ""));
  }

  #loadTimes(from: number, to: number): void {
    if (to <= this.#timesTo) return;
    const more = this.#reads.logTimes(this.#id, from);
    this.#times = [...this.#times.filter((t) => t.offset < (more[0]?.offset ?? 0)).slice(-1), ...more];
    this.#timesTo = Math.max(to, more.at(-1)?.offset ?? 0);
  }

  #at(offset: number): string | null {
    let low = 0;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#times[middle]?.offset ?? 0) <= offset) low = middle + 1;
      else high = middle;
    }
    const entry = this.#times[low - 1] ?? this.#times[0];
    return entry ? new Date(entry.at_ms).toISOString() : null;
  }
}
