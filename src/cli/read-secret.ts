import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { Io } from "./io.ts";

const BYTES_MAX = 64 * 1024;

/** A secret from standard input: typed unseen on a terminal, else all that comes, without the line end after it. */
export async function readSecret(prompt: string, io: Io): Promise<string> {
  const { stdin } = process;
  if (stdin.isTTY) {
    const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
    const terminal = createInterface({ input: stdin, output: unseen, terminal: true });
    // Only now does the terminal not show any more what is typed.
    process.stderr.write(prompt);
    try {
      return await terminal.question("", { signal: io.interrupted });
    } finally {
      terminal.close();
      process.stderr.write("\n");
    }
  }
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stdin as AsyncIterable<Buffer>) {
    parts.push(part);
    bytes += part.length;
    if (bytes > BYTES_MAX) break;
  }
  return Buffer.concat(parts).toString("utf8").trim();
}
