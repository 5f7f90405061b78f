// Talks to the agent on a machine (runner/svc_agent) over one channel. docs/internals/agent.md has the protocol. The
// machine is not trusted: every answer is bounded and checked, and a violation closes the channel.

import { randomBytes } from "node:crypto";
import type { Duplex, Readable } from "node:stream";
import { z } from "zod";
import { SvcError } from "../errors/index.ts";
import { lastBytes, lastChars, oneLine } from "../domain/terminal-text.ts";
import { boundedJson } from "../domain/bounded-json.ts";
import { abortReason } from "../domain/abort-reason.ts";

/**
 * The channel of an exec on a machine: its standard streams. Emits `exit` with the code if the command ended by itself.
 */
export type AgentChannel = Duplex & { stderr?: Readable };

export interface CallOptions {
  signal: AbortSignal;
  /** The longest silence within an answer; a slow link that still delivers is awaited. */
  timeoutMs?: number;
  /** Maximum of bytes after the answer's line. */
  maxBytes?: number;
  /** Bytes to send after the request's line. */
  body?: Buffer;
}

/** A refusal by the agent itself: `kind` is for programs. Callers turn it into an error of the catalogue. */
export class AgentRefusal extends Error {
  override readonly name = "AgentRefusal";
  readonly kind: string;

  constructor(kind: string, why: string) {
    super(why);
    this.kind = kind;
  }
}

const PYTHONS = "python3 /opt/conda/bin/python3 /usr/local/bin/python3 /usr/bin/python3 python";
// These two contain no quotes, `$`, `!` or line ends: they must survive every login shell.
const PROBE = "import sys;print(sys.version_info>=(3,8))";
/** Reads a length, then that many bytes of program. */
const BOOT = "import sys;f=sys.stdin.buffer;n=int(f.readline());exec(f.read(n));main(NONCE)";
/**
 * Finds a Python and lets it run the program from stdin. A name alone does not prove a Python: shims of version
 * managers exit, ask, or print something else, and must not consume stdin, which the next candidate needs.
 */
export const AGENT_COMMAND =
  `exec sh -c 'for p in ${PYTHONS}; do command -v "$p" >/dev/null 2>&1 || continue; ` +
  `case "$("$p" -I -S -c "${PROBE}" </dev/null 2>/dev/null)" in True) exec "$p" -I -S -c "${BOOT}";; esac; done; ` +
  `echo SVC-AGENT none; exit 127'`;

/** The message for a machine whose startup files read stdin, with what to do. */
export const READS_STDIN =
  "its shell's startup files (.bashrc, .profile or the like) read the input that is meant for svc's commands, for example with `read` or `cat`; put `case $- in *i*) ;; *) return;; esac` at their top, or choose another image";
/** The message for a machine whose startup files start a second shell, which takes the agent's program for commands. */
const SECOND_SHELL =
  "its shell's startup files (.bashrc, .profile or the like) start another shell, for example with `exec zsh`, which does not run svc's commands; put `case $- in *i*) ;; *) return;; esac` at their top, or choose another image";
/** What shells say of the first words of lines of the agent. */
const PYTHON_AS_COMMANDS =
  /(?:not found: |unknown command:? *['"]?)(?:import|from|def|return|try:|NONCE|TYPE_CHECKING)\b|\b(?:import|from|def|return|try:|NONCE|TYPE_CHECKING)['"]?: (?:command )?not found/i;

const TIMEOUT_MS = 20_000;
/** Limit for a whole call, even if bytes keep trickling in. */
const TOTAL_MS = 15 * 60_000;
const LINE_MAX = 1 << 20;
const LINE = { values: 20_000, depth: 16 };
/** The agent sends one every few seconds, and none after its answer; a machine that floods svc with them would keep it busy. */
const KEEPALIVES_MAX = 100;
const GREETING_MAX = 256 << 10;
const STDERR_MAX = 4 << 10;
const LAST_MAX = 300;

const Answer = z.object({
  id: z.int().min(1),
  ok: z.unknown().optional(),
  error: z.object({ kind: z.string().max(40), why: z.string().max(8_192) }).optional(),
  alive: z.boolean().optional(),
  bytes: z.int().min(0).default(0),
});

interface Pending {
  op: string;
  maxBytes: number;
  sentAt: number;
  heardAt: number;
  keepalives: number;
  timeoutMs: number;
  timer: NodeJS.Timeout | undefined;
  resolve: (answer: { value: unknown; bytes: Buffer }) => void;
  /** Absent once the caller has left: the answer is then only read and dropped. */
  reject: ((why: unknown) => void) | undefined;
}

export class AgentClient {
  readonly #channel: AgentChannel;
  readonly #machine: string;
  readonly #pending = new Map<number, Pending>();
  #state: "greeting" | "line" | "body" = "greeting";
  #marker: Buffer;
  /** Bytes that have arrived and are not parsed yet; in state `line` always the beginning of a line. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #body: { to: Pending; value: unknown; bytes: Buffer; at: number } | undefined;
  #bodyAt = 0;
  #stderr: Buffer = Buffer.alloc(0);
  #exit: number | undefined;
  #next = 1;
  #lateKeepalives = 0;
  #failure: SvcError | undefined;
  #ready: { resolve: () => void; reject: (why: unknown) => void } | undefined;
  /** Output of the machine's shell before the agent's; empty if the shell is clean. */
  greeting = "";

  private constructor(channel: AgentChannel, machine: string, nonce: string) {
    this.#channel = channel;
    this.#machine = machine;
    this.#marker = Buffer.from(`SVC-AGENT ${nonce}\n`);
    channel.on("data", (data: Buffer) => this.#take(data));
    channel.on("error", (e: Error) => this.#endSoon(e.message));
    channel.on("exit", (code: unknown) => {
      if (typeof code === "number") this.#exit = code;
    });
    channel.on("close", () => this.#endSoon("the connection ended"));
    channel.on("end", () => this.#endSoon("the agent ended"));
    channel.stderr?.on("data", (data: Buffer) => {
      this.#stderr = lastBytes(Buffer.concat([this.#stderr, data]), STDERR_MAX);
    });
    channel.stderr?.on("error", () => undefined);
  }

  /**
   * Starts the agent over `channel`, on which AGENT_COMMAND is running.
   *
   * @param source the text of the agent.
   */
  static async open(
    channel: AgentChannel,
    options: { machine: string; source: Buffer; signal: AbortSignal; timeoutMs?: number },
  ): Promise<AgentClient> {
    const nonce = randomBytes(16).toString("hex");
    const client = new AgentClient(channel, options.machine, nonce);
    const program = Buffer.concat([options.source, Buffer.from(`NONCE = "${nonce}"\n`)]);
    const { signal } = options;
    let onAbort: (() => void) | undefined;
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        client.#ready = { resolve, reject };
        onAbort = () => reject(abortReason(signal));
        if (signal.aborted) return onAbort();
        signal.addEventListener("abort", onAbort, { once: true });
        timer = setTimeout(() => client.#fail("the agent did not start in time"), options.timeoutMs ?? TIMEOUT_MS);
        channel.write(Buffer.concat([Buffer.from(`${program.length}\n`), program]));
      });
    } catch (thrown) {
      client.close();
      throw thrown;
    } finally {
      clearTimeout(timer);
      if (onAbort) signal.removeEventListener("abort", onAbort);
      client.#ready = undefined;
    }
    return client;
  }

  /** The number of calls so far. */
  get calls(): number {
    return this.#next - 1;
  }

  /** True once no call is possible any more. */
  get closed(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Makes one call. Throws AgentRefusal, `ssh_unreachable` if no answer arrives, `machine_unfit` for a malformed
   * answer.
   *
   * @param schema the shape of the answer.
   */
  async call<T>(
    op: string,
    args: Record<string, unknown>,
    schema: z.ZodType<T>,
    options: CallOptions,
  ): Promise<{ value: T; bytes: Buffer }> {
    const { signal, body } = options;
    signal.throwIfAborted();
    if (this.#failure) throw this.#failure;
    const id = this.#next++;
    const line = JSON.stringify({ ...args, id, op, ...(body ? { bytes: body.length } : {}) });
    let onAbort: (() => void) | undefined;
    let entry: Pending | undefined;
    try {
      const answer = await new Promise<{ value: unknown; bytes: Buffer }>((resolve, reject) => {
        const now = performance.now();
        const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
        const maxBytes = options.maxBytes ?? 0;
        entry = {
          op,
          maxBytes,
          sentAt: now,
          heardAt: now,
          keepalives: 0,
          timeoutMs,
          timer: undefined,
          resolve,
          reject,
        };
        this.#pending.set(id, entry);
        this.#watch(entry, timeoutMs);
        onAbort = () => reject(abortReason(signal));
        signal.addEventListener("abort", onAbort, { once: true });
        this.#channel.write(`${line}\n`);
        if (body) this.#channel.write(body);
      });
      const value = schema.safeParse(answer.value);
      if (!value.success) throw this.#unfit(`its answer to ${op} is not what such an answer is`, value.error);
      return { value: value.data, bytes: answer.bytes };
    } finally {
      if (onAbort) signal.removeEventListener("abort", onAbort);
      if (entry) {
        clearTimeout(entry.timer);
        entry.reject = undefined;
      }
    }
  }

  /** Ends the agent; a run is not affected. */
  close(): void {
    this.#fail("the connection was closed");
  }

  /** Deadlines count from the last byte of an answer, so that a slow link does not look like a dead one. */
  #watch(entry: Pending, afterMs: number): void {
    entry.timer = setTimeout(() => {
      const now = performance.now();
      const quiet = now - Math.max(entry.heardAt, this.#bodyAt);
      const left = Math.min(entry.timeoutMs - quiet, TOTAL_MS + entry.timeoutMs - (now - entry.sentAt));
      if (left > 0) this.#watch(entry, left);
      else this.#fail(`it did not answer \`${entry.op}\` in ${Math.round((now - entry.sentAt) / 1000)} s`);
    }, afterMs);
  }

  #take(data: Buffer): void {
    let rest = data;
    while (rest.length > 0 && !this.#failure) {
      if (this.#state === "greeting") rest = this.#takeGreeting(rest);
      else if (this.#state === "line") rest = this.#takeLine(rest);
      else rest = this.#takeBody(rest);
    }
  }

  #takeGreeting(data: Buffer): Buffer {
    const all = Buffer.concat([...this.#held, data]);
    const at = all.indexOf(this.#marker);
    if (at < 0) {
      this.#held = [all];
      if (all.length > GREETING_MAX) this.#unfit("its shell prints without end and does not run the command");
      return Buffer.alloc(0);
    }
    this.greeting = all.toString("utf8", 0, Math.min(at, 4_096));
    this.#held = [];
    this.#state = "line";
    this.#ready?.resolve();
    return all.subarray(at + this.#marker.length);
  }

  #takeLine(data: Buffer): Buffer {
    const at = data.indexOf(0x0a);
    const part = at < 0 ? data : data.subarray(0, at);
    this.#held.push(part);
    this.#heldBytes += part.length;
    if (this.#heldBytes > LINE_MAX) {
      this.#unfit("the agent's answer is too long");
      return Buffer.alloc(0);
    }
    if (at < 0) return Buffer.alloc(0);
    const line = Buffer.concat(this.#held).toString("utf8");
    this.#held = [];
    this.#heldBytes = 0;
    this.#heard(line);
    return data.subarray(at + 1);
  }

  #heard(line: string): void {
    const parsed = Answer.safeParse(boundedJson(line, LINE));
    if (!parsed.success) return void this.#unfit("the agent's answer cannot be read");
    const { id, ok, error, alive, bytes } = parsed.data;
    const entry = this.#pending.get(id);
    if (!entry) {
      // A keepalive that arrives after its own answer is harmless.
      if (alive && id < this.#next && ++this.#lateKeepalives <= KEEPALIVES_MAX) return;
      return void this.#unfit("the agent answered a request that svc did not send");
    }
    if (alive) {
      entry.heardAt = performance.now();
      const most = KEEPALIVES_MAX + (entry.heardAt - entry.sentAt) / 1_000;
      if (++entry.keepalives > most) this.#unfit("the agent sends keepalives without end");
      return;
    }
    this.#lateKeepalives = 0;
    if (bytes > entry.maxBytes) return void this.#unfit("the agent sent more than svc requested");
    if (error && bytes > 0) return void this.#unfit("the agent sent bytes with a refusal");
    // While its bytes arrive, the call still needs its watchdog.
    if (bytes === 0) this.#pending.delete(id);
    if (error) {
      entry.reject?.(new AgentRefusal(error.kind, error.why));
    } else if (bytes === 0) {
      entry.resolve({ value: ok, bytes: Buffer.alloc(0) });
    } else {
      this.#body = { to: entry, value: ok, bytes: Buffer.allocUnsafe(bytes), at: 0 };
      this.#state = "body";
    }
  }

  #takeBody(data: Buffer): Buffer {
    const body = this.#body!; // a body is always set in this state
    this.#bodyAt = performance.now();
    const count = data.copy(body.bytes, body.at);
    body.at += count;
    if (body.at === body.bytes.length) {
      for (const [id, entry] of this.#pending) if (entry === body.to) this.#pending.delete(id);
      this.#state = "line";
      this.#body = undefined;
      body.to.resolve({ value: body.value, bytes: body.bytes });
    }
    return data.subarray(count);
  }

  /** Its exit code and its last output may still be on the way. */
  #endSoon(why: string): void {
    if (this.#state !== "greeting") return this.#end(why);
    setTimeout(() => this.#end(why), 200).unref();
  }

  #end(why: string): void {
    if (this.#failure) return;
    if (this.#state !== "greeting") return void this.#fail(why);
    const said = Buffer.concat(this.#held);
    if (said.includes("SVC-AGENT none")) {
      this.#imageUnfit(`it has no Python 3.8 or newer (tried ${PYTHONS.replaceAll(" ", ", ")})`);
    } else if (this.#exit !== undefined) {
      // A `read` in a startup file consumed the length of the program, so Python found the program in its place.
      if (this.#stderr.includes("invalid literal for int")) return this.#imageUnfit(READS_STDIN);
      if (PYTHON_AS_COMMANDS.test(this.#stderr.toString("latin1"))) return this.#imageUnfit(SECOND_SHELL);
      const words = printable(said) || printable(this.#stderr);
      this.#unfit(
        words === ""
          ? `its shell ended with code ${this.#exit} before it ran anything, and said nothing: a line in its startup files (.bashrc, .profile or the like) may end it, or the user's shell runs no commands`
          : `its shell ran nothing, ended with code ${this.#exit}, and said: ${words}`,
      );
    } else {
      this.#fail(why);
    }
  }

  #fail(why: string): SvcError {
    const last = printable(this.#stderr);
    const words = last === "" ? why : `${why}; its last words were: ${last}`;
    return this.#finish(new SvcError("ssh_unreachable", { machine: this.#machine, why: words }));
  }

  #imageUnfit(why: string): void {
    this.#finish(new SvcError("machine_unfit", { machine: this.#machine, why, image: true }));
  }

  #unfit(why: string, cause?: unknown): SvcError {
    return this.#finish(new SvcError("machine_unfit", { machine: this.#machine, why }, { cause }));
  }

  #finish(failure: SvcError): SvcError {
    if (this.#failure) return this.#failure;
    this.#failure = failure;
    this.#ready?.reject(failure);
    for (const entry of this.#pending.values()) {
      clearTimeout(entry.timer);
      entry.reject?.(failure);
    }
    this.#pending.clear();
    this.#held = [];
    this.#channel.on("error", () => undefined);
    this.#channel.destroy();
    return failure;
  }
}

/** The end of a machine's output, in one line without control characters. */
const printable = (bytes: Buffer): string => lastChars(oneLine(bytes.toString("utf8")).replace(/\s+/g, " "), LAST_MAX);
