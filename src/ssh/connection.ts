// One SSH connection to one machine: made when it is first needed, shared by all callers, and made again after a loss.
//
// S1. Nothing is sent before the host key was checked against the machine's pin; a first key is pinned once it let us in.
// S2. Every call has its own deadline. It, or the keepalive, detects a stopped, frozen or cut machine.
// S3. Only our one key is offered. No agent is forwarded; no password prompt or question is answered.
// S4. An unreachable machine throws `ssh_unreachable`; only its provider can say whether it is lost.
// S5. If sshd accepts no further command on a connection that has one (MaxSessions 1), a command gets its own
//     connection.
// S6. A login shell may print a greeting before the command's own output: a caller that parses output must frame it.

import type { Readable } from "node:stream";
import type { ClientChannel } from "ssh2";
import { lastBytes } from "../domain/terminal-text.ts";
import { systemClock, type Clock } from "../domain/clock.ts";
import type { SshEndpoint } from "../domain/endpoint.ts";
import { orAborted } from "../domain/or-aborted.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import type { DialPatience, Link } from "./dial.ts";
import type { HostKeyPins } from "./host-keys.ts";
import type { SshKey } from "./keys.ts";
import { SlotGate } from "./slot-gate.ts";
import { shortLine } from "./words.ts";
import { abortReason } from "../domain/abort-reason.ts";

/** For this long, a failure is reported again to new callers instead of a new attempt. */
const FAILURE_KEPT_MS = 50;
/** sshd allows 10 sessions on a connection. */
const CHANNELS_AT_ONCE = 8;
const EXEC_MS = 30_000;
const EXEC_BYTES_MAX = 64 * 1024 * 1024;
const STDERR_BYTES_KEPT = 64 * 1024;

export interface ConnectionOptions {
  /** Its name, under which its host key is pinned. */
  machine: string;
  /** Endpoints, best first; requested before every connect. */
  endpoints: () => readonly SshEndpoint[];
  /** Throws `ssh_key_unusable`. */
  key: () => Promise<SshKey>;
  pins: HostKeyPins;
  clock?: Clock;
  /** By default 10 s for a login, 15 to 20 s of silence. */
  patience?: DialPatience;
}

export interface ExecOptions {
  stdin?: Buffer | string | AsyncIterable<Buffer>;
  signal: AbortSignal;
  /** Limit for everything, connecting included; 30 s by default. Beyond it: `ssh_unreachable`. */
  timeoutMs?: number;
  /**
   * More than this on stdout ends the command with `runner_failed`; 64 MiB by default. The last 64 KiB of stderr are
   * kept.
   */
  maxBytes?: number;
}

export interface Executed {
  /** Null if a signal ended the command. */
  code: number | null;
  /** Such as `SIGKILL`. */
  signal: string | null;
  stdout: Buffer;
  stderr: Buffer;
}

/** A command that runs on the machine: write to its stdin, and read both its stdout and `stderr`. */
export type SshChannel = ClientChannel & {
  readonly stderr: Readable;
  /**
   * How it ended. Rejects with `ssh_unreachable` if the connection was lost before the end was known; ignoring the
   * rejection is allowed.
   */
  readonly done: Promise<{ code: number | null; signal: string | null }>;
};

export class SshConnection {
  readonly machine: string;
  readonly #options: ConnectionOptions;
  readonly #clock: Clock;
  #link: Link | null = null;
  #dialling: Promise<Link> | null = null;
  #failed: { why: SvcError; atMs: number } | null = null;
  /** The endpoint that worked last is tried first. */
  #worked: SshEndpoint | null = null;
  #gate = new SlotGate(CHANNELS_AT_ONCE);
  /** Commands whose end is not known yet. */
  #running = 0;
  /** Counts the calls of `close`: a connection dialled before one is dropped. */
  #closings = 0;
  readonly #listeners = new Set<(why: SvcError) => void>();
  /** S5. */
  readonly #beside = new Set<Link>();

  constructor(options: ConnectionOptions) {
    this.machine = options.machine;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Runs a command line to its end. `stdin` is its whole input. An abandoned command is sent KILL, if the machine
   * accepts that, and loses its streams.
   */
  async exec(command: string, options: ExecOptions): Promise<Executed> {
    const { stdin, maxBytes = EXEC_BYTES_MAX, timeoutMs = EXEC_MS } = options;
    const deadline = new AbortController();
    const late = this.#clock.setTimer(timeoutMs, () => {
      const why = `no answer within ${Math.ceil(timeoutMs / 1000)} s`;
      deadline.abort(this.#unreachable(why));
    });
    const signal = AbortSignal.any([options.signal, deadline.signal]);
    try {
      const channel = await this.open(command, signal);
      return await collected(channel, stdin, maxBytes);
    } finally {
      late.cancel();
    }
  }

  /** Starts a command line; the signal ends it while it runs. At most 8 run at once, the others wait. */
  async open(command: string, signal: AbortSignal): Promise<SshChannel> {
    signal.throwIfAborted();
    const link = await orAborted(this.#connect(), signal);
    const leave = await this.#gate.enter(signal);
    try {
      const channel = await this.#start(link, command, signal).catch((e: unknown) => {
        if (!isFull(e) || this.#running === 0) throw e;
        return this.#startBeside(command, signal);
      });
      this.#running += 1;
      const over = (): void => {
        this.#running -= 1;
        leave();
      };
      channel.done.then(over, over);
      return channel;
    } catch (e) {
      leave();
      throw e;
    }
  }

  /** S5. */
  async #startBeside(command: string, signal: AbortSignal): Promise<SshChannel> {
    const closings = this.#closings;
    const link = await this.#dialEach();
    const end = (): void => {
      this.#beside.delete(link);
      link.end();
    };
    this.#beside.add(link);
    try {
      if (closings !== this.#closings) throw this.#unreachable("the connection was closed here");
      const channel = await this.#start(link, command, signal);
      channel.done.then(end, end);
      return channel;
    } catch (e) {
      end();
      throw e;
    }
  }

  /** The endpoint in use, or the one that would be tried first. Throws `ssh_unreachable` while none is known. */
  endpoint(): SshEndpoint {
    const [first] = this.#inOrder();
    if (!first) throw this.#unreachable("its address is not known yet");
    return this.#link?.endpoint ?? first;
  }

  /** Connects, if nothing is connected. Throws `ssh_unreachable`, `ssh_refused`, `host_key_changed`, `ssh_key_unusable`. */
  async ready(signal: AbortSignal): Promise<void> {
    await orAborted(this.#connect(), signal);
  }

  /** Calls `listener` whenever an established connection ends, also by `close`. Returns a function that removes it. */
  on(listener: (why: SvcError) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Ends the connection and every command on it. A later call connects again. */
  close(): void {
    this.#closings += 1;
    this.#dialling = null;
    this.#failed = null;
    this.#link?.end();
    for (const link of this.#beside) link.end();
  }

  #connect(): Promise<Link> {
    if (this.#link) return Promise.resolve(this.#link);
    const failed = this.#failed;
    if (failed && Math.abs(this.#clock.monotonic() - failed.atMs) < FAILURE_KEPT_MS) return Promise.reject(failed.why);
    this.#dialling ??= this.#dial(this.#closings);
    return this.#dialling;
  }

  async #dial(closings: number): Promise<Link> {
    try {
      const link = await this.#dialEach();
      if (closings !== this.#closings) {
        link.end();
        throw this.#unreachable("the connection was closed here");
      }
      this.#keep(link);
      return link;
    } catch (e) {
      const why = asSvcError(e);
      if (closings === this.#closings) this.#failed = { why, atMs: this.#clock.monotonic() };
      throw why;
    } finally {
      if (closings === this.#closings) this.#dialling = null;
    }
  }

  #keep(link: Link): void {
    this.#link = link;
    this.#worked = link.endpoint;
    this.#gate = new SlotGate(CHANNELS_AT_ONCE);
    link.onLost.add((why) => {
      if (this.#link === link) this.#link = null;
      for (const listener of this.#listeners) listener(why);
    });
  }

  /**
   * Tries each endpoint until a login succeeds. A changed host key ends the search: the same impostor may answer
   * elsewhere, too.
   */
  async #dialEach(): Promise<Link> {
    const { key, pins, machine, patience } = this.#options;
    const endpoints = this.#inOrder();
    if (endpoints.length === 0) throw this.#unreachable("its address is not known yet");
    const ours = await key();
    // ssh2 is large: a control plane whose runs need no connection does without it.
    const { dial } = await import("./dial.ts");
    let refused: SvcError | null = null;
    const unreachable: { why: string; closed?: boolean }[] = [];
    for (const endpoint of endpoints) {
      try {
        return await dial({
          machine,
          endpoint,
          key: ours,
          pins,
          clock: this.#clock,
          ...(patience ? { patience } : {}),
        });
      } catch (e) {
        const why = asSvcError(e);
        if (why.code === "ssh_refused") refused ??= why;
        else if (why.code === "ssh_unreachable") unreachable.push(why.data as { why: string; closed?: boolean });
        else throw why;
      }
    }
    const closed = unreachable.every((way) => way.closed);
    const why = unreachable.map((way) => way.why).join("; ");
    throw refused ?? new SvcError("ssh_unreachable", { machine, why, closed });
  }

  #inOrder(): SshEndpoint[] {
    const all = this.#options.endpoints();
    const isWorked = (each: SshEndpoint): boolean =>
      each.host === this.#worked?.host &&
      each.port === this.#worked.port &&
      each.user === this.#worked.user &&
      each.proxyCommand === this.#worked.proxyCommand;
    return [...all.filter(isWorked), ...all.filter((each) => !isWorked(each))];
  }

  #start(link: Link, command: string, signal: AbortSignal): Promise<SshChannel> {
    return new Promise((resolve, reject) => {
      let answered = false;
      const answer = (settle: () => void): void => {
        if (answered) return;
        answered = true;
        signal.removeEventListener("abort", abort);
        link.onLost.delete(lost);
        settle();
      };
      const abort = (): void => answer(() => reject(abortReason(signal)));
      const lost = (why: SvcError): void => answer(() => reject(why));
      if (signal.aborted) return abort();
      signal.addEventListener("abort", abort, { once: true });
      link.onLost.add(lost);
      try {
        link.client.exec(command, (e, channel) => {
          if (e) return answer(() => reject(this.#unreachable(`it starts no command (${shortLine(e.message)})`, e)));
          channel.on("error", () => {});
          channel.stderr.on("error", () => {});
          if (answered) return giveUp(channel);
          answer(() => resolve(Object.assign(channel, { done: this.#ended(link, channel, signal) })));
        });
      } catch (e) {
        answer(() => reject(this.#unreachable("the connection was closed", e)));
      }
    });
  }

  #ended(link: Link, channel: ClientChannel, signal: AbortSignal): SshChannel["done"] {
    const done = new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
      let exit: { code: number | null; signal: string | null } | null = null;
      const over = (): void => {
        signal.removeEventListener("abort", abort);
        link.onLost.delete(lost);
      };
      const abort = (): void => {
        over();
        reject(abortReason(signal));
        giveUp(channel);
      };
      const lost = (why: SvcError): void => {
        over();
        reject(why);
      };
      channel.on("exit", (code: number | null, name?: string | null) => {
        exit = { code: typeof code === "number" ? code : null, signal: name ?? null };
      });
      // Only then is all of its output read.
      channel.on("close", () => {
        over();
        if (exit) resolve(exit);
        else reject(this.#unreachable("the end of the command was not reported"));
      });
      signal.addEventListener("abort", abort, { once: true });
      link.onLost.add(lost);
    });
    done.catch(() => {});
    return done;
  }

  #unreachable(why: string, cause?: unknown): SvcError {
    return new SvcError("ssh_unreachable", { machine: this.machine, why }, { cause });
  }
}

/** Whether sshd refused to start a (further) command on this connection; each server words that differently. */
const isFull = (e: unknown): boolean =>
  e instanceof SvcError && e.cause instanceof Error && /Channel open failure/i.test(e.cause.message);

/** The whole output of a command, and how it ends. */
async function collected(channel: SshChannel, stdin: ExecOptions["stdin"], maxBytes: number): Promise<Executed> {
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  let bytes = 0;
  let errorBytes = 0;
  const flooded = Promise.withResolvers<never>();
  flooded.promise.catch(() => {});
  channel.on("data", (part: Buffer) => {
    bytes += part.length;
    if (bytes <= maxBytes) stdout.push(part);
    else {
      flooded.reject(new SvcError("runner_failed", { why: `the machine answered with more than ${maxBytes} bytes` }));
    }
  });
  channel.stderr.on("data", (part: Buffer) => {
    stderr.push(part);
    errorBytes += part.length;
    while (errorBytes - (stderr[0]?.length ?? 0) > STDERR_BYTES_KEPT) errorBytes -= stderr.shift()?.length ?? 0;
  });
  const fed = feed(channel, stdin);
  try {
    const { code, signal } = await Promise.race([channel.done, flooded.promise, fed.failed]);
    return {
      code,
      signal,
      stdout: Buffer.concat(stdout),
      stderr: lastBytes(Buffer.concat(stderr), STDERR_BYTES_KEPT),
    };
  } catch (e) {
    giveUp(channel);
    throw e;
  }
}

/** Writes the input and ends stdin. A command that ends without reading it all has not failed. */
function feed(channel: SshChannel, stdin: ExecOptions["stdin"]): { failed: Promise<never> } {
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  if (stdin === undefined || typeof stdin === "string" || Buffer.isBuffer(stdin)) {
    channel.end(stdin);
  } else {
    void send(channel, stdin).catch((e: unknown) => failed.reject(e));
  }
  return { failed: failed.promise };
}

/** Writes at the machine's own speed, as long as the command runs. */
async function send(channel: SshChannel, parts: AsyncIterable<Buffer>): Promise<void> {
  let over = false;
  let wake: () => void = () => {};
  const end = (): void => {
    over = true;
    wake();
  };
  channel.done.then(end, end);
  channel.on("drain", () => wake());
  for await (const part of parts) {
    if (over) return;
    const drained = new Promise<void>((resolve) => (wake = resolve));
    if (!channel.write(part)) await drained;
  }
  channel.end();
}

/** No caller waits for this command any more. */
function giveUp(channel: ClientChannel): void {
  channel.resume();
  channel.stderr.resume();
  try {
    channel.signal("KILL");
  } catch {
    // Its connection is gone, and the command's streams with it.
  }
  channel.destroy();
}
