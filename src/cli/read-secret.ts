// Reads a secret for `svc credentials set`, without showing it on the terminal.

import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { sleep, type Io } from "./io.ts";

const BYTES_MAX = 64 * 1024;
/** A paste arrives at once; after this silence it is complete. */
const SILENCE_MS = 100;
const SILENCE_MS_MAX = 2_000;

/**
 * Reads a secret from standard input: typed or pasted without echo on a terminal, else all input without its final line
 * end.
 */
export async function readSecret(prompt: string, io: Io): Promise<string> {
  const { stdin } = process;
  if (stdin.isTTY) return typed(prompt, io);
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stdin as AsyncIterable<Buffer>) {
    parts.push(part);
    bytes += part.length;
    if (bytes > BYTES_MAX) break;
  }
  return Buffer.concat(parts).toString("utf8").trim();
}

/**
 * Reads one line, or all lines of a JSON object. Further input is read and dropped: a shell would echo it and keep it
 * in its history.
 */
async function typed(prompt: string, io: Io): Promise<string> {
  const { stdin } = process;
  const unseen = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: stdin, output: unseen, terminal: true, historySize: 0 });
  let text = "";
  let heardAt = performance.now();
  const heard = (): void => void (heardAt = performance.now());
  stdin.on("data", heard);
  const whole = new Promise<void>((done) => {
    terminal.on("line", (line) => {
      if (isWhole(text)) return;
      text += `${line}\n`;
      if (isWhole(text)) done();
    });
    terminal.once("close", done);
    // In raw mode, Ctrl-C is an ordinary key.
    terminal.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    io.interrupted.addEventListener("abort", () => done(), { once: true });
  });
  // Prompt only now that the terminal no longer echoes.
  process.stderr.write(prompt);
  try {
    await whole;
    for (const end = performance.now() + SILENCE_MS_MAX; performance.now() < end;)
      if (performance.now() - heardAt > SILENCE_MS) break;
      else await sleep(SILENCE_MS / 4, io.interrupted);
    io.interrupted.throwIfAborted();
    return text.trim();
  } finally {
    stdin.off("data", heard);
    terminal.close();
    process.stderr.write("\n");
  }
}

function isWhole(text: string): boolean {
  if (!text.trimStart().startsWith("{") || text.length > BYTES_MAX) return text !== "";
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
