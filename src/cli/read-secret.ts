import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { pause, type Io } from "./io.ts";

const BYTES_MAX = 64 * 1024;
/** What is pasted comes at once; after so long a silence it is over. */
const SILENCE_MS = 100;
const SILENCE_MS_MAX = 2_000;

/** A secret from standard input: typed or pasted unseen on a terminal, else all that comes, without the line end after it. */
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

/** One line; of a JSON object all its lines. More than that is taken too, and dropped: a shell would show it, and keep it. */
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
    // On a terminal that is read key by key, Ctrl-C is a key.
    terminal.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    io.interrupted.addEventListener("abort", () => done(), { once: true });
  });
  // Only now does the terminal not show any more what is typed.
  process.stderr.write(prompt);
  try {
    await whole;
    for (const end = performance.now() + SILENCE_MS_MAX; performance.now() < end;)
      if (performance.now() - heardAt > SILENCE_MS) break;
      else await pause(SILENCE_MS / 4, io.interrupted);
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
