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
    { flags: "--since <time>", what: "Only lines since then: 10m (ago), 14:03, 2026-11-26T14:03:00Z" },
    { flags: "--until <time>", what: "Only lines until then, written in the same ways" },
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
  const printer = new LogPrinter(reads, id, options, io);
  const window = logWindow(reads, id, options);
  let offset = window.from;
  const ended = (): boolean => hasEnded(reads.job(id)?.status ?? "succeeded");
  const stored = async (): Promise<void> => {
    for (;;) {
      const part = reads.readLog(id, offset, Math.min(CHUNK_BYTES, (window.to ?? Infinity) - offset));
      if (part.length === 0 || io.interrupted.aborted) return;
      await printer.print(part, offset);
      offset += part.length;
    }
  };
  // The order matters: the log that is read after the run was seen to have ended is complete.
  let over = ended();
  await stored();
  let lostAt: number | null = null;
  let wasFollowed = false;
  while (options.follow && !over && !io.interrupted.aborted) {
    const client = await findClient(io);
    if (!client) {
      over = ended();
      await stored();
      if (over) continue;
      if (!wasFollowed) {
        io.err(`No control plane is running job ${id}; this is the stored log.\n${START_ONE}`);
        break;
      }
      if (lostAt === null) {
        lostAt = performance.now();
        io.err(
          `The control plane of job ${id} has stopped; waiting ${LOST_MS_MAX / 1_000} s for another one.\n${START_ONE}`,
        );
      } else if (performance.now() - lostAt > LOST_MS_MAX) {
        io.err(
          `No control plane started within ${LOST_MS_MAX / 1_000} s. Job ${id} is unfinished; its machine may cost money.`,
        );
        break;
      }
      await sleep(200, io.interrupted);
      continue;
    }
    if (lostAt !== null) io.err(`A control plane is running job ${id} again.`);
    lostAt = null;
    wasFollowed = true;
    try {
      for await (const part of client.followLog(id, offset, io.interrupted)) {
        await printer.print(Buffer.from(part.buffer, part.byteOffset, part.byteLength), offset);
        offset += part.byteLength;
      }
    } catch (e) {
      if (!(e instanceof WireError && e.code === "unreachable")) throw e;
    }
    over = ended();
    if (over) await stored();
    else await sleep(100, io.interrupted);
  }
  await printer.end();
  if (io.interrupted.aborted) return 130;
  const record = reads.job(id);
  if (options.follow && !options.json && record?.error && hasEnded(record.status))
    io.err(safeField(`${id}: ${record.status}. ${record.error.message}`) + `\n${hintFor(id, record.error.hint)}`);
  const isOver = !record || hasEnded(record.status);
  if (!options.exitStatus) return options.follow && !isOver ? NOT_OVER : 0;
  if (!isOver) return NOT_OVER;
  return record?.exit_code ?? (record?.status === "succeeded" ? 0 : 1);
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
