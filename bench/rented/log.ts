// A run on a rented machine that writes 1 GB as fast as the pipe accepts it. Every byte must be in the stored log;
// meanwhile the benchmark calls the API all the time and measures the control plane's memory. The baseline is the same
// script by bare ssh, into a file.

import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  closeSync,
  createReadStream,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { interpreter } from "../lib/home.ts";
import { pause, quantile, rowOf, type Row } from "../lib/measure.ts";
import { RentedWorld } from "../lib/rented-world.ts";

const ROUNDS = 2;
const BYTES = 1_000_000_000;
const ASK_EVERY_MS = 10;
const WITHIN_MS = 240_000;
const MB = 1_000_000;

/**
 * Prints complete lines of 100 bytes: svc does not store the end of an unfinished line if a secret could begin with it.
 * The run waits after them, so that its machine stays for the baseline.
 */
const SCRIPT = `import sys, time
total, line = ${BYTES}, 0
out = sys.stdout.buffer
while total > 0:
    block = b"".join(b"step %010d loss 0.%09d " % (i, i * 7919 % 1000000000) + b"x" * 66 + b"\\n" for i in range(line, line + 2000))
    line += 2000
    out.write(block[:total])
    total -= len(block)
out.flush()
if len(sys.argv) > 1:
    time.sleep(600)
`;

async function digestOf(file: string, start: number): Promise<string> {
  const hash = createHash("sha256");
  for await (const part of createReadStream(file, { start, highWaterMark: 4 << 20 })) hash.update(part as Buffer);
  return hash.digest("hex");
}

/** Bytes of the launcher's lines before the script's own output. */
function preface(log: string): number {
  const head = Buffer.alloc(4_096);
  const fd = openSync(log, "r");
  readSync(fd, head, 0, head.length, 0);
  closeSync(fd);
  return /^(?:svc: [^\n]*\n)*/.exec(head.toString("latin1"))?.[0].length ?? 0;
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

async function bare(args: readonly string[], file: string): Promise<number> {
  const fd = openSync(file, "w");
  const start = performance.now();
  const child = spawn("ssh", args, { stdio: ["ignore", fd, "inherit"] });
  await once(child, "exit");
  fsyncSync(fd);
  closeSync(fd);
  const rate = sizeOf(file) / MB / ((performance.now() - start) / 1000);
  if (sizeOf(file) !== BYTES) throw new Error("ssh did not bring the whole log");
  rmSync(file);
  return rate;
}

export async function measureLog(folder: string): Promise<Row[]> {
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "flood.py"), SCRIPT);
  const whole = execFileSync("sh", ["-c", `'${interpreter()}' flood.py | sha256sum`], { cwd: project });
  const wanted = whole.toString("utf8", 0, 64);
  const rates: number[] = [];
  const plain: number[] = [];
  const peaks: number[] = [];
  const asked: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const place = join(folder, `round-${round}`);
    mkdirSync(place);
    const world = await RentedWorld.start(place, project);
    const { served } = world;
    try {
      const askedMs: number[] = [];
      const id = await world.submit({ entrypoint: "flood.py", args: ["wait"], idle_timeout_minutes: 0 });
      const log = join(world.home, "logs", `${id}.log`);
      const launched = (): boolean =>
        world.events.some((e) => e.type === "step.succeeded" && e.data["step"] === "launch");
      await world.until(launched, 60_000, "a run that is launched");
      const start = performance.now();
      while (sizeOf(log) < BYTES || sizeOf(log) < BYTES + preface(log)) {
        askedMs.push((await served.get("/jobs")).ms);
        if (performance.now() - start > WITHIN_MS) throw new Error(`only ${sizeOf(log)} bytes of log`);
        await pause(ASK_EVERY_MS);
      }
      rates.push(BYTES / MB / ((performance.now() - start) / 1000));
      peaks.push(served.peak() / MB);
      asked.push(askedMs);
      if ((await digestOf(log, preface(log))) !== wanted)
        throw new Error("the stored log is not what the script wrote");
      const machine = await world.machineOf(id);
      const script = `.svc-machine/${machine.name}/project/flood.py`;
      plain.push(await bare([...(await world.ssh(machine)), `python3 ${script}`], join(place, "bare.log")));
      await world.endAll();
    } finally {
      await world.close();
    }
    rmSync(place, { recursive: true, force: true });
  }
  return [
    rowOf({
      what: "1 GB of log from a machine, every byte stored",
      unit: "MB/s",
      values: rates,
      baseline: plain,
      target: "(none)",
      met: () => true,
    }),
    rowOf({
      what: "meanwhile: resident memory, peak",
      unit: "MB",
      values: peaks,
      target: "< 300 MB",
      met: (f) => f < 300,
    }),
    ...[0.5, 0.95].map((q) =>
      rowOf({
        what: `meanwhile: GET /jobs, p${q * 100} of at least ${Math.min(...asked.map((a) => a.length))}`,
        unit: "ms",
        values: asked.map((ms) => quantile(ms, q)),
        target: "< 100 ms",
        met: (f) => f < 100,
      }),
    ),
  ];
}
