// Reads the log of a run for `svc logs`: what is stored, and with --follow what the control plane sends until the run ends.
// log-printer.ts prints it.

import { SvcError as WireError } from "../../../../sdk/errors.ts";
import type { Client } from "../../../../sdk/client.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { runsHere } from "../../../providers/descriptors.ts";
import { hasEnded } from "../../../schemas/names.ts";
import { sleep, type Io } from "../../io.ts";
import { logWindow } from "../../log-window.ts";
import type { OpenReads } from "../../store.ts";
import { tellWarnings } from "../../tell-warnings.ts";
import { LogPrinter, type LogsOptions } from "./log-printer.ts";

const CHUNK_BYTES = 256 * 1024;
/** Exit code when the end of the run is unknown. */
const NOT_OVER = 5;
/** How long to wait for a lost control plane. */
const LOST_MS_MAX = 60_000;
const START_ONE = "`svc serve` starts one, which resumes the run.";

/** Prints the log of a run, and returns the command's exit code. */
export async function printLog(reads: OpenReads, id: string, options: LogsOptions, io: Io): Promise<number> {
  const reading = new LogReading(reads, id, options, io);
  // The order matters: the log that is read after the run was seen to have ended is complete.
  const isOver = reading.isOver();
  await reading.printStored();
  if (options.follow && !isOver) await reading.follow();
  await reading.end();
  if (!options.follow && !options.json) tellNeverStarted(reads, id, io);
  return io.interrupted.aborted ? 130 : exitOf(reads, options, id, io);
}

/** An empty log says nothing of a run that ended before its script started. */
function tellNeverStarted(reads: OpenReads, id: string, io: Io): void {
  const record = reads.job(id);
  if (!record || !hasEnded(record.status) || record.started_at !== null || reads.readLog(id, 0, 1).length > 0) return;
  const why = record.error === null ? "." : `: ${record.error.message}`;
  io.err(safeField(`${id} has no log because it ended before its script started${why}`));
}

/** Says how a followed run ended, and returns the command's exit code. */
function exitOf(reads: OpenReads, { follow, json, exitStatus }: LogsOptions, id: string, io: Io): number {
  const record = reads.job(id);
  const isOver = !record || hasEnded(record.status);
  if (follow && !json && isOver && record?.error)
    io.err(safeField(`${id}: ${record.status}. ${record.error.message}`) + `\n${safeField(record.error.hint)}`);
  if (follow && !json && isOver) tellWarnings(reads, id, io);
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
    if (this.#lostAt !== null) this.#io.err(`A control plane is running run ${this.#id} again.`);
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
    const isFree = runsHere(this.#reads.job(id)?.provider ?? "");
    const patience = `${LOST_MS_MAX / 1_000} s`;
    if (!this.#wasFollowed) {
      io.err(
        `No control plane follows run ${id}; this is the stored log. Its script may continue${isFree ? " on this computer, which costs nothing" : ", and its machine may cost money"}.\n${START_ONE}`,
      );
      return false;
    }
    if (this.#lostAt === null) {
      this.#lostAt = performance.now();
      io.err(`The control plane of run ${id} has stopped; waiting ${patience} for another one.\n${START_ONE}`);
      return true;
    }
    if (performance.now() - this.#lostAt <= LOST_MS_MAX) return true;
    io.err(
      `No control plane started within ${patience}. Run ${id} is unfinished${isFree ? ", and costs nothing on this computer" : "; its machine may cost money"}.`,
    );
    return false;
  }

  async #print(part: Buffer): Promise<void> {
    await this.#printer.print(part, this.#offset);
    this.#offset += part.length;
  }
}

async function findClient(io: Io): Promise<Client | null> {
  const { runningClient } = await import("../../control-plane.ts");
  return runningClient(io);
}
