// Ranks that write to one stream like those of a run, and the records that the reader finds in it.

import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseLog } from "../../src/domain/log-stream.ts";
import { Redactor } from "../../src/domain/redaction.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const PACKAGE = fileURLToPath(new URL("../../python", import.meta.url));
const MARK = "0123456789abcdef01234567";

export interface Ranks {
  ranks: number;
  recordsEach: number;
  /** `file`: one append-only file, as in a run; `pipe`: one pipe, as when a launcher passes it on. */
  into: "file" | "pipe";
  python: string;
  folder: string;
}

export interface Heard {
  /** Written records that are missing or out of order. */
  lost: number;
  /** Records that were not written, or have other values. */
  invented: number;
  /** Bytes of text that are missing (negative: too many). */
  textMissing: number;
  /** Seconds that the slowest rank took. */
  seconds: number;
}

export async function hear({ ranks, recordsEach, into, python, folder }: Ranks): Promise<Heard> {
  const log = join(folder, "run.log");
  const fd = openSync(log, "a");
  const counts = Array.from({ length: ranks }, (_, rank) => join(folder, `count-${rank}`));
  const command = (rank: number) => [join(HERE, "chatty_rank.py"), String(rank), String(recordsEach), counts[rank]!];
  const env = (rank: number) => ({
    ...process.env,
    PYTHONPATH: PACKAGE,
    PYTHONUNBUFFERED: "1",
    PYTHONIOENCODING: "utf-8",
    PYTHONDONTWRITEBYTECODE: "1",
    SVC_METRICS_MARK: MARK,
    RANK: String(rank),
  });
  // One shell starts all ranks with its own stdout: with `cat` behind it, that is one pipe for all of them.
  const children = [...counts.keys()];
  if (into === "file") {
    await Promise.all(
      children.map((rank) => ended(spawn(python, command(rank), { env: env(rank), stdio: ["ignore", fd, fd] }))),
    );
  } else {
    const each = children.map((rank) => `RANK=${rank} ${[python, ...command(rank)].map(quoted).join(" ")} &`);
    const script = `{ ${each.join("\n")}\nwait; } 2>&1 | cat`;
    await ended(spawn("/bin/sh", ["-c", script], { env: env(0), stdio: ["ignore", fd, "inherit"] }));
  }
  closeSync(fd);
  return judge(readFileSync(log), counts, recordsEach);
}

/** Reads in parts like those of a run, so that records are cut anywhere. */
function judge(bytes: Buffer, counts: string[], recordsEach: number): Heard {
  const opts = { mark: MARK, redactor: new Redactor([MARK]) };
  const next = counts.map(() => 0);
  let [invented, textBytes] = [0, 0];
  for (let at = 0, size = 1; at < bytes.length; size = ((size * 7919) % 50_000) + 20_000) {
    const part = bytes.subarray(at, at + size);
    const { text, records, consumed } = parseLog(part, { ...opts, final: at + part.length >= bytes.length });
    at += consumed;
    textBytes += text.length;
    for (const record of records) {
      const wanted = record.kind === "metrics" ? next[record.rank] : undefined;
      const whole =
        record.kind === "metrics" &&
        record.step === wanted &&
        record.n === wanted + 1 &&
        JSON.stringify(record.values) ===
          JSON.stringify([
            ["loss", 1 / (record.step + 1)],
            ["rank", record.rank],
          ]);
      if (whole) next[record.rank] = wanted + 1;
      else invented += 1;
    }
  }
  const said = counts.map((file) => readFileSync(file, "latin1").split(" ").map(Number));
  return {
    lost: next.reduce((sum, n) => sum + recordsEach - n, 0),
    invented,
    textMissing: said.reduce((sum, [written]) => sum + (written ?? NaN), 0) - textBytes,
    seconds: Math.max(...said.map(([, seconds]) => seconds ?? NaN)),
  };
}

function ended(child: ReturnType<typeof spawn>): Promise<void> {
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`a rank ended with ${code ?? "a signal"}`))));
  });
}

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
