// The connection state of one machine in this process: one SSH connection, one agent over it, and the keepalive that
// tells the machine's guard that it is still wanted. All steps share it; it is made when first needed, and again after
// a loss.

import { z } from "zod";
import { firstChars } from "../domain/terminal-text.ts";
import { AGENT_COMMAND, AgentClient, AgentRefusal, READS_STDIN } from "./agent-client.ts";
import { askAgent, type AskedMachine } from "./ask-agent.ts";
import { SshConnection, type ConnectionOptions } from "./connection.ts";
import { pushTree } from "./tree.ts";
import { goesInPieces, pushInPieces } from "./tree-pieces.ts";
import { guardDir, guardScript } from "../domain/guard-script.ts";
import { orAborted } from "../domain/or-aborted.ts";
import { SvcError, type ErrorData } from "../errors/index.ts";
import type { Guard, MachineFacts, TreePush, TreePushed } from "../providers/host.ts";

const HELLO_MS = 30_000;
const GUARD_MS = 40_000;
const REMOVE_MS = 30_000;
/** Shows whether the machine's shell runs a command with an empty stdin. */
const SHELL_PROBE = "exec sh -c 'echo SVC-SHELL runs'";
const SHELL_PROBE_MS = 5_000;
const CONTACT_MS_MAX = 20_000;

const text = (max: number) => z.string().max(max);
const Path = text(1_024).regex(/^\/[^\p{Cc}\p{Cf}]*$/u);
const Hello = z.object({
  facts: z.object({
    home: Path,
    user: text(64).regex(/^[^\p{Cc}\p{Cf}\s/]+$/u),
    python: Path,
    python_version: text(20).regex(/^3\.[0-9]+(?:\.[0-9]+)?$/),
    cpus: z.number().min(0).max(1e6).nullable(),
    memory_bytes: z.int().min(0).nullable(),
    disk_free_bytes: z.int().min(0).nullable(),
    gpus: z
      .array(z.object({ name: text(200), memory_mib: z.int().min(0).nullable() }))
      .max(64)
      .nullable(),
    gpu_driver: text(40).nullable().default(null),
    gpu_fault: z
      .object({ tool: text(20), exit: z.int().nullable(), words: text(300) })
      .nullable()
      .default(null),
    driver_pending: z.boolean().default(false),
    rsync: z.boolean(),
    boot_id: text(100),
    beside: z.array(text(255)).max(1_000).default([]),
  }),
  machine: text(300).nullable(),
  marked: z.boolean(),
});
const Kept = z.object({ lives: z.boolean(), moved: z.boolean() });

export interface MachineLinkOptions extends ConnectionOptions {
  /** The text of the agent. */
  agentSource: () => Buffer;
  /** 20 s by default. */
  agentStartMs?: number;
  /** Whether svc has used the machine before, perhaps in an earlier process. False by default. */
  wasReached?: () => boolean;
}

const SMALL_BYTES = 4 * 1024 * 1024;
const SMALL_FILES = 300;
const STANDING_BYTES = 128 * 1024 * 1024;
const bytesOf = ({ files }: TreePush): number => files.reduce((sum, file) => sum + file.size, 0);
const isSmall = (tree: TreePush): boolean => tree.files.length <= SMALL_FILES && bytesOf(tree) <= SMALL_BYTES;
/** A separate handshake pays only for many bytes, which OpenSSH transfers faster. */
const wayOf = (tree: TreePush): "standing" | "own" => (bytesOf(tree) <= STANDING_BYTES ? "standing" : "own");

export class MachineLink implements AskedMachine {
  readonly name: string;
  readonly connection: SshConnection;
  /** From the last greeting. */
  facts: MachineFacts | null = null;
  readonly #options: MachineLinkOptions;
  #agent: AgentClient | null = null;
  #opening: Promise<AgentClient> | null = null;
  #life = new AbortController();
  #contact: NodeJS.Timeout | null = null;
  #guard: Guard | null = null;

  constructor(options: MachineLinkOptions) {
    this.name = options.machine;
    this.connection = new SshConnection(options);
    this.#options = options;
  }

  /** The agent on the machine. Throws the errors of connecting. */
  readonly agent = async (signal: AbortSignal): Promise<AgentClient> => {
    signal.throwIfAborted();
    if (this.#agent && !this.#agent.closed) return this.#agent;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    return orAborted(this.#opening, signal);
  };

  async #open(): Promise<AgentClient> {
    const { signal } = this.#life;
    const channel = await this.connection.open(AGENT_COMMAND, signal);
    const { agentStartMs: timeoutMs, agentSource } = this.#options;
    const options = {
      machine: this.name,
      source: agentSource(),
      signal,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    };
    this.#agent = await AgentClient.open(channel, options).catch(async (e: unknown) => {
      throw this.#isKnown ? this.#busy(e) : ((await this.#readsStdin(e)) ?? e);
    });
    return this.#agent;
  }

  get #isKnown(): boolean {
    return this.facts !== null || this.#options.wasReached?.() === true;
  }

  /**
   * A machine that has served svc is fit. If the agent does not start on it now, it may lack memory or processes, which its script uses up:
   * that must not end the run.
   */
  #busy(thrown: unknown): unknown {
    if (!(thrown instanceof SvcError) || thrown.code !== "machine_unfit") return thrown;
    const { why } = thrown.data as ErrorData<"machine_unfit">;
    return new SvcError("ssh_unreachable", { machine: this.name, why }, { cause: thrown });
  }

  /**
   * Detects startup files that read stdin: the agent does not start on a machine that otherwise runs commands. A retry
   * would hang in the same way, so this is reported at once.
   */
  async #readsStdin(thrown: unknown): Promise<SvcError | null> {
    const { signal } = this.#life;
    if (!(thrown instanceof SvcError) || thrown.code !== "ssh_unreachable" || signal.aborted) return null;
    const probe = { signal, timeoutMs: SHELL_PROBE_MS, maxBytes: 1024 * 1024 };
    const answer = await this.connection.exec(SHELL_PROBE, probe).catch(() => null);
    if (answer?.stdout.includes("SVC-SHELL runs") !== true) return null;
    return new SvcError("machine_unfit", { machine: this.name, why: READS_STDIN, image: true }, { cause: thrown });
  }

  /** The facts that the machine reports, after a check that it is the ordered one. */
  async greet(signal: AbortSignal): Promise<MachineFacts> {
    const asked = { signal, timeoutMs: HELLO_MS };
    const { value } = await this.#ask("hello", { name: this.name }, Hello, asked);
    if (value.machine !== null && value.machine !== this.name) {
      // Another machine may have this address now: send nothing more to it.
      this.#agent?.close();
      this.connection.close();
      const other = JSON.stringify(firstChars(value.machine, 80));
      throw new SvcError("machine_unfit", { machine: this.name, why: `it says that it is another one, ${other}` });
    }
    this.facts = value.facts;
    return value.facts;
  }

  async push(tree: TreePush, signal: AbortSignal): Promise<TreePushed> {
    const { key, pins } = this.#options;
    const facts = this.facts ?? (await this.greet(signal));
    await this.connection.ready(signal);
    const endpoint = this.connection.endpoint();
    const rsync = facts.rsync && !endpoint.metered && !isSmall(tree) ? wayOf(tree) : null;
    const { connection, name: machine } = this;
    const options = { connection, machine, endpoint, key: await key(), pins, rsync, mayRsync: facts.rsync, signal };
    const push = (part: TreePush): Promise<TreePushed> => pushTree({ ...options, tree: part });
    return rsync === null && goesInPieces(tree) ? pushInPieces(this, tree, push, signal) : push(tree);
  }

  /** Extends the machine's deadline, starts its guard if none is alive, and from then on repeats both by itself. */
  async keep(guard: Guard, signal: AbortSignal): Promise<void> {
    this.#guard = guard;
    this.#contactLater();
    await this.#keepOnce(guard, signal);
  }

  async #keepOnce(guard: Guard, signal: AbortSignal): Promise<void> {
    const limit = guard.deadline?.();
    const args = {
      folder: guardDir(this.name),
      grace: guard.graceSeconds,
      ...(limit === undefined ? {} : { limit: limit && [limit.stopSeconds, limit.endSeconds] }),
    };
    const { value } = await this.#ask("keep", args, Kept, { signal });
    if (value.lives && value.moved) return;
    const body = Buffer.from(guardScript({ ...guard, name: this.name }));
    const started = await this.#ask("guard", args, Kept, { signal, body, timeoutMs: GUARD_MS });
    if (!started.value.lives || !started.value.moved)
      throw new SvcError("machine_unfit", { machine: this.name, why: "the lease of its watchdog cannot be renewed" });
  }

  /** Removes a folder of this run from a machine that its owner keeps. */
  async remove(path: string, signal: AbortSignal): Promise<void> {
    await this.#ask("remove_tree", { path }, z.object({}), { signal, timeoutMs: REMOVE_MS });
  }

  #contactLater(): void {
    if (this.#contact || !this.#guard || this.#life.signal.aborted) return;
    const everyMs = Math.min(CONTACT_MS_MAX, (this.#guard.graceSeconds * 1000) / 3);
    this.#contact = setTimeout(() => void this.#contactNow(), everyMs);
    this.#contact.unref();
  }

  /** Only over an established connection: after a loss, the next call of the run reconnects. */
  async #contactNow(): Promise<void> {
    const guard = this.#guard;
    try {
      if (guard && this.#agent && !this.#agent.closed) await this.#keepOnce(guard, this.#life.signal);
    } catch {
      // The run's own calls report problems of the machine.
    }
    this.#contact = null;
    this.#contactLater();
  }

  async #ask<T>(op: string, args: Record<string, unknown>, schema: z.ZodType<T>, options: AskOptions) {
    try {
      return await askAgent(this.agent, op, args, schema, options);
    } catch (thrown) {
      if (!(thrown instanceof AgentRefusal)) throw thrown;
      const why = thrown.kind === "guard" ? `its guard cannot be started: ${thrown.message}` : thrown.message;
      throw new SvcError("machine_unfit", { machine: this.name, why }, { cause: thrown });
    }
  }

  /** Ends the connection; the machine and its processes are not affected. */
  close(): void {
    this.#life.abort(new SvcError("ssh_unreachable", { machine: this.name, why: "the connection was closed here" }));
    if (this.#contact) clearTimeout(this.#contact);
    this.#contact = null;
    this.#agent?.close();
    this.connection.close();
  }
}

type AskOptions = Parameters<AgentClient["call"]>[3];
