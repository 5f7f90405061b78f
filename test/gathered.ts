// The whole output of a child process, and its exit code.

import type { ChildProcess } from "node:child_process";

export interface Gathered {
  out(): string;
  err(): string;
  /** Resolves with the exit code when both streams have ended; null after a signal. */
  exited: Promise<number | null>;
}

/** Call it at once, for a child whose stdout and stderr are pipes. */
export function gathered(child: ChildProcess): Gathered {
  let [out, err] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (err += text));
  const exited = new Promise<number | null>((done) => child.once("close", (code) => done(code)));
  return { out: () => out, err: () => err, exited };
}
