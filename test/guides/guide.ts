// Runs a guide exactly as written. Its blocks, from the top:
//
//   ```sh                 is pasted into one bash, `set -eu`, that lives for the whole guide
//   ```text               what the block before printed: its lines, in order, `…` for anything
//   ```python train.py    written to that file of the directory where the guide is read
//   ```python             run by Python, in that directory
//
// `svc`, `python3` with the package, a home of its own and a free port in the place of 8780 are all that a reader has,
// too.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const GUIDES = join(ROOT, "docs/guide");
const MARK = "--8<-- block";

interface Block {
  line: number;
  info: string;
  text: string;
}

export const guides = (): string[] =>
  readdirSync(GUIDES)
    .filter((name) => name.endsWith(".md") && name !== "README.md")
    .toSorted();

export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const info = /^```(\S.*)$/.exec(lines[i] ?? "")?.[1];
    if (info === undefined) continue;
    const end = lines.indexOf("```", i + 1);
    blocks.push({ line: i + 1, info: info.trim(), text: lines.slice(i + 1, end).join("\n") });
    i = end;
  }
  return blocks;
}

/** Whether the expected lines are there, in order. @returns the first that is not, or null. */
export function missingLine(expected: string, printed: string): string | null {
  let rest = printed.split("\n").map((line) => line.trim());
  for (const line of expected.split("\n").map((text) => text.trim())) {
    if (line === "" || line === "…") continue;
    const escaped = line.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/\s+/g, "\\s+"));
    const pattern = new RegExp(`^${escaped.join(".*")}$`);
    const at = rest.findIndex((text) => pattern.test(text));
    if (at < 0) return line;
    rest = rest.slice(at + 1);
  }
  return null;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        address !== null && typeof address === "object" ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}

export interface Ran {
  code: number | null;
  /** Lines that a `text` block promised and that were not printed, with their numbers. */
  wrong: string[];
  output: string;
}

/** Runs one guide from its first line to its last. */
export async function runGuide(name: string, timeoutMs: number): Promise<Ran> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "svc-guide-")));
  const [bin, here] = [join(root, "bin"), join(root, "project")];
  mkdirSync(bin);
  mkdirSync(here);
  symlinkSync(join(ROOT, "bin/svc"), join(bin, "svc"));
  const port = String(await freePort());
  const blocks = blocksOf(readFileSync(join(GUIDES, name), "utf8").replaceAll("8780", port));
  writeFileSync(join(root, "guide.sh"), scriptOf(blocks, here));
  try {
    const { code, output } = await bash(root, bin, here, timeoutMs);
    return { code, output, wrong: judge(blocks, output) };
  } finally {
    rmSync(root, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}

function scriptOf(blocks: readonly Block[], here: string): string {
  const parts = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"];
  blocks.forEach(({ info, text, line }, i) => {
    const [language = "", file] = info.split(/\s+/);
    parts.push(`echo '${MARK} ${i}'`);
    if (language === "sh") parts.push(text);
    else if (language === "python" && file !== undefined) {
      const path = join(here, file);
      parts.push(`mkdir -p "$(dirname '${path}')"`, `cat > '${path}' <<'END OF FILE'\n${text}\nEND OF FILE`);
    } else if (language === "python") parts.push(`python3 - <<'END OF FILE'\n${text}\nEND OF FILE`);
    else if (language !== "text" && language !== "ts" && language !== "json")
      throw new Error(`line ${line}: what is ${info}?`);
  });
  return `${parts.join("\n")}\n`;
}

function bash(
  root: string,
  bin: string,
  here: string,
  timeoutMs: number,
): Promise<{ code: number | null; output: string }> {
  const env = {
    PATH: `${bin}:${process.env["PATH"] ?? ""}`,
    HOME: root,
    LANG: "C.UTF-8",
    SVC_HOME: join(root, "home"),
    PYTHONPATH: join(ROOT, "python"),
    CHECKOUT: ROOT,
    NO_COLOR: "1",
  };
  return new Promise((resolve, reject) => {
    const child = spawn("bash", [join(root, "guide.sh")], {
      cwd: here,
      env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const group = (signal: NodeJS.Signals): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, signal);
      } catch {
        // All of it has ended.
      }
    };
    let output = "";
    const hear = (text: string): void => void (output += text);
    child.on("error", reject);
    if (child.pid === undefined) return;
    child.stdout.setEncoding("utf8").on("data", hear);
    child.stderr.setEncoding("utf8").on("data", hear);
    const timer = setTimeout(() => {
      output += `\nnot at its end after ${timeoutMs / 1000} s\n`;
      group("SIGTERM");
    }, timeoutMs);
    child.on("close", (code) => {
      clearTimeout(timer);
      group("SIGKILL");
      resolve({ code, output });
    });
  });
}

function judge(blocks: readonly Block[], output: string): string[] {
  const printed = new Map<number, string>();
  for (const part of output.split(`${MARK} `).slice(1)) {
    const at = part.indexOf("\n");
    printed.set(Number(part.slice(0, at)), part.slice(at + 1));
  }
  return blocks.flatMap(({ info, text, line }, i) => {
    if (info !== "text") return [];
    const missing = missingLine(text, printed.get(i - 1) ?? "");
    return missing === null ? [] : [`line ${line}: not printed: ${missing}`];
  });
}
