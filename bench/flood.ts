// A run that writes 1 GB as fast as the pipe accepts it. Every byte must be in the stored log; meanwhile the benchmark
// calls the API all the time and measures the control plane's memory. The baseline is the same script writing into a
// file.

import { createHash } from "node:crypto";
import { spawn } from "node:child_process";
import {
  closeSync,
  createReadStream,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { interpreter, withFolder } from "./lib/home.ts";
import { pause, quantile, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const ROUNDS = 3;
const BYTES = 1_000_000_000;
const ASK_EVERY_MS = 10;
const MB = 1_000_000;

/** Prints lines of 100 bytes, each with its number, and leaves the digest of all lines next to the script. */
const SCRIPT = `import hashlib, os, sys
total, line, digest = ${BYTES}, 0, hashlib.sha256()
out = sys.stdout.buffer
while total > 0:
    block = b"".join(b"step %010d loss 0.%09d " % (i, i * 7919 % 1000000000) + b"x" * 67 + b"\\n" for i in range(line, line + 2000))
    line += 2000
    block = block[:total]
    digest.update(block)
    out.write(block)
    total -= len(block)
out.flush()
open(sys.argv[1], "w").write(digest.hexdigest())
`;

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of createReadStream(file, { highWaterMark: 4 << 20 })) hash.update(part as Buffer);
  return hash.digest("hex");
}

/** Writes into a file and syncs it to the disk, as svc does. */
function bare(python: string, project: string): Promise<number> {
  const file = join(project, "bare.log");
  const fd = openSync(file, "w");
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(python, ["-u", "flood.py", join(project, "bare.sha")], {
      cwd: project,
      stdio: ["ignore", fd, "inherit"],
    });
    child.on("error", reject);
    child.on("exit", () => {
      fsyncSync(fd);
      const seconds = (performance.now() - start) / 1000;
      closeSync(fd);
      rmSync(file);
      resolve(seconds);
    });
  });
}

interface Flood {
  seconds: number;
  peak: number;
  askedMs: number[];
}

async function flood(folder: string, project: string, round: number): Promise<Flood> {
  const home = join(folder, `home-${round}`);
  const served = await Served.start(home, project);
  const askedMs: number[] = [];
  try {
    const sha = join(folder, `${round}.sha`);
    const start = performance.now();
    const id = await served.submit({ entrypoint: "flood.py", args: [sha] });
    const over = new AbortController();
    const asking = (async () => {
      while (!over.signal.aborted) {
        askedMs.push((await served.get("/jobs")).ms);
        await pause(ASK_EVERY_MS);
      }
    })();
    const status = await served.ended(id, 100);
    const seconds = (performance.now() - start) / 1000;
    over.abort();
    await asking;
    const peak = served.peak() / MB;
    if (status !== "succeeded") throw new Error(`the run is ${status}`);
    const [stored, written] = [await digestOf(join(home, "logs", `${id}.log`)), readFileSync(sha, "latin1")];
    if (stored !== written) throw new Error("the stored log is not what the script wrote");
    return { seconds, peak, askedMs };
  } finally {
    await served.stop();
    rmSync(home, { recursive: true, force: true });
  }
}

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const project = join(folder, "project");
    mkdirSync(project);
    writeFileSync(join(project, "flood.py"), SCRIPT);
    const python = interpreter();
    const floods: Flood[] = [];
    const plain: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      plain.push(await bare(python, project));
      floods.push(await flood(folder, project, round));
    }
    const least = Math.min(...floods.map((f) => f.askedMs.length));
    return [
      rowOf({
        what: "1 GB of log, every byte stored",
        unit: "s",
        values: floods.map((f) => f.seconds),
        baseline: plain,
        target: "< 60 s",
        met: (f) => f < 60,
      }),
      rowOf({
        what: "meanwhile: resident memory, peak",
        unit: "MB",
        values: floods.map((f) => f.peak),
        target: "< 300 MB",
        met: (f) => f < 300,
      }),
      rowOf({
        what: `meanwhile: GET /jobs, p99 of at least ${least}`,
        unit: "ms",
        values: floods.map((f) => quantile(f.askedMs, 0.99)),
        target: "< 100 ms",
        met: (f) => f < 100,
      }),
      rowOf({
        what: "meanwhile: GET /jobs, slowest",
        unit: "ms",
        values: floods.map((f) => Math.max(...f.askedMs)),
        target: "< 100 ms",
        met: (f) => f < 100,
      }),
    ];
  });
}

export const flooding: Bench = { name: "flood", about: "1 GB of log", measure };
