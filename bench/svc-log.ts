// The cost of `svc.log` for a training script, and whether all records of eight ranks arrive that write at once. The
// baseline of a call is the unavoidable part: one `os.write` of a line of the same length.

import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { interpreter, withFolder } from "./lib/home.ts";
import { rowOf, type Bench, type Row } from "./lib/measure.ts";
import { hear } from "./lib/ranks.ts";

const ROUNDS = 7;
const CALLS = 50_000;
const RANKS = 8;
const RECORDS_EACH = 5_000;
const PER_SECOND = 1_000;

const SCRIPT = `import os, sys, time
began = time.perf_counter()
import svc
imported = time.perf_counter() - began
line = b"x" * 119 + b"\\n"
began = time.perf_counter()
for step in range(${CALLS}): svc.log({"loss": 0.123456, "accuracy": 0.97}, step=step)
ours = time.perf_counter() - began
began = time.perf_counter()
for step in range(${CALLS}): os.write(1, line)
bare = time.perf_counter() - began
sys.stderr.write("%r %r %r" % (ours / ${CALLS} * 1e6, bare / ${CALLS} * 1e6, imported * 1e3))
`;

/**
 * Microseconds of one svc.log call and of the bare write, into an append-only file as in a run; milliseconds of the
 * import.
 */
function call(python: string, folder: string): Promise<{ ours: number; bare: number; imported: number }> {
  const [out, err] = ["out", "err"].map((name) => openSync(join(folder, name), name === "err" ? "w" : "a"));
  const env = {
    ...process.env,
    PYTHONPATH: fileURLToPath(new URL("../python", import.meta.url)),
    PYTHONUNBUFFERED: "1",
    SVC_METRICS_MARK: "0123456789abcdef01234567",
  };
  return new Promise((resolve, reject) => {
    const child = spawn(python, ["-c", SCRIPT], { env, stdio: ["ignore", out, err] });
    child.on("error", reject);
    child.on("exit", (code) => {
      for (const fd of [out, err]) closeSync(fd!);
      const words = readFileSync(join(folder, "err"), "latin1");
      const [ours, bare, imported] = words.split(" ").map(Number);
      if (code !== 0 || !ours || !bare || !imported) reject(new Error(`the script ended with ${code}: ${words}`));
      else resolve({ ours, bare, imported });
    });
  });
}

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const python = interpreter();
    const calls: { ours: number; bare: number; imported: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) calls.push(await call(python, folder));
    const heard = [];
    for (const into of ["file", "pipe", "file", "pipe"] as const) {
      const inside = join(folder, `ranks-${heard.length}`);
      mkdirSync(inside);
      heard.push(await hear({ ranks: RANKS, recordsEach: RECORDS_EACH, into, python, folder: inside }));
    }
    return [
      rowOf({
        what: "svc.log: one call of two values",
        unit: "µs",
        values: calls.map((c) => c.ours),
        baseline: calls.map((c) => c.bare),
        target: "< 10 µs",
        met: (f) => f < 10,
      }),
      rowOf({
        what: "import svc, in a script",
        unit: "ms",
        values: calls.map((c) => c.imported),
        target: "< 25 ms",
        met: (f) => f < 25,
      }),
      rowOf({
        what: `${RANKS} ranks with progress bars on one stream`,
        unit: "records/s",
        values: heard.map((h) => (RANKS * RECORDS_EACH) / h.seconds),
        target: `${(RANKS * PER_SECOND).toLocaleString("en")}, as they are told`,
        met: (f) => f > 0.98 * RANKS * PER_SECOND,
      }),
      rowOf({
        what: `of ${(RANKS * RECORDS_EACH).toLocaleString("en")} records: lost or invented, and bytes of text missing`,
        unit: "",
        values: heard.map((h) => h.lost + h.invented + Math.abs(h.textMissing)),
        target: "0",
        met: (f) => f === 0,
      }),
    ];
  });
}

export const svcLog: Bench = {
  name: "svc-log",
  about: "what a call of svc.log costs, and eight ranks at once",
  measure,
};
