// The input and output of a command. Data goes to stdout, messages to stderr; a closed reader (`| head`) ends the
// command quietly.

import { writeSync } from "node:fs";
import { isDiskFull } from "../errors/system.ts";
import { resolveHome } from "../platform/home.ts";
import { take } from "./columns.ts";

export type EndSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

export interface Io {
  /**
   * Resolves once the system accepted the bytes, so that a slow reader slows the command instead of filling its memory.
   */
  out(data: string | Uint8Array): Promise<void>;
  err(text: string): void;
  /**
   * One line on stderr that the next status, or any other output there, replaces. Does nothing if stderr is not a
   * terminal.
   */
  status(text: string): void;
  /** Whether stdout is a terminal: it gets tables and colours, and hostile text is made harmless. */
  readonly tty: boolean;
  readonly color: boolean;
  columns(): number;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** The home for this call. */
  home(): string;
  /** Aborted by Ctrl-C. */
  readonly interrupted: AbortSignal;
  /** Passes INT, TERM and HUP to the command, which then ends by itself. */
  takeSignals(listener: (signal: EndSignal) => void): void;
}

/**
 * As Node and most tools decide it: `NO_COLOR` first, then `FORCE_COLOR`, then whether the output is a terminal with
 * colours.
 */
export function wantsColor(env: NodeJS.ProcessEnv, tty: boolean): boolean {
  if (env["NO_COLOR"]) return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return tty && env["TERM"] !== "dumb";
}

/** The process itself as `Io`. */
export function processIo(): Io {
  const interrupt = new AbortController();
  let serving = false;
  const onInt = (): void => {
    // A second Ctrl-C ends at once.
    if (interrupt.signal.aborted) process.exit(130);
    interrupt.abort();
  };
  process.on("SIGINT", onInt);
  // A control plane in this process must outlive its readers: it still has machines to release.
  const onError = (e: NodeJS.ErrnoException): void => {
    if (serving) return;
    if (e.code === "EPIPE") process.exit(typeof process.exitCode === "number" ? process.exitCode : 0);
    const why = isDiskFull(e) ? "its disk is full" : `the system reports ${e.code ?? e.message}`;
    writeSync(
      2,
      `The output of this command could not be written: ${why}.\nThe output is incomplete. The command may already have changed runs or machines: \`svc jobs\` shows them.\n`,
    );
    process.exit(1);
  };
  process.stdout.on("error", onError);
  process.stderr.on("error", () => {});
  const tty = process.stdout.isTTY;
  let status = "";
  return {
    out: (data) => new Promise((resolve) => process.stdout.write(data, () => resolve())),
    err(text) {
      process.stderr.write(`${status === "" ? "" : "\r\u001b[K"}${text.endsWith("\n") ? text : `${text}\n`}`);
      status = "";
    },
    status(text) {
      if (!process.stderr.isTTY || (text === "" && status === "")) return;
      process.stderr.write(`\r\u001b[K${take(text, (process.stderr.columns || 80) - 1)}`);
      status = text;
    },
    tty,
    color: wantsColor(process.env, tty),
    columns: () => process.stdout.columns || 100,
    env: process.env,
    cwd: process.cwd(),
    home: () => resolveHome(process.env),
    interrupted: interrupt.signal,
    takeSignals(listener) {
      serving = true;
      process.off("SIGINT", onInt);
      for (const s of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(s, () => listener(s));
      // Node's default opens a debugger port on loopback, which every user of this computer could use.
      process.on("SIGUSR1", () => {});
    },
  };
}

/** Waits for `ms`, or until Ctrl-C. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
