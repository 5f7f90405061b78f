// A checkpoint of many small files, downloaded over a slow line, compared with rsync of the same folder over the same
// line. Both have all files on the disk at the end; svc has also compared each file with a hash from the machine.

import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { HOST_WORD, sshForRsync } from "../../src/ssh/system-ssh.ts";
import { CheckpointCollector } from "../../src/steps/checkpoints/collector.ts";
import { never, TestMachine } from "../../test/ssh/machine.ts";
import { relay } from "../../test/ssh/sshd.ts";
import { rowOf, type Row } from "../lib/measure.ts";

const ROUNDS = 5;
const FILES = 1_000;
const RTT_MS = 80;
const command = promisify(execFile);

export async function measureSmallFiles(folder: string): Promise<Row[]> {
  const machine = await TestMachine.start();
  const line = await relay({ host: machine.sshd.address, port: machine.sshd.port }, Infinity, RTT_MS / 2);
  const ours: number[] = [];
  const bare: number[] = [];
  const seconds = (startMs: number): number => (performance.now() - startMs) / 1000;
  try {
    const checkpoints = join(machine.base, "checkpoints");
    mkdirSync(checkpoints, { recursive: true });
    for (let i = 0; i < FILES; i++) writeFileSync(join(checkpoints, `part-${i}`), `content of ${i}\n`);
    const endpoint = { ...machine.sshd.endpoint, host: "127.0.0.1", port: line.port };
    machine.endpoints = [endpoint];
    const host = machine.host();
    await host.start(machine.spec("sleep 600", { checkpoint_dir: checkpoints }), {}, never);
    const ssh = sshForRsync({ machine: machine.name, endpoint, key: machine.key, pins: machine.pins });
    const targetDir = join(folder, "home");
    const ways = [
      async () => {
        const collector = new CheckpointCollector({ targetDir, now: () => performance.now() });
        const start = performance.now();
        const { saved } = await collector.scan(host, { final: true, announced: new Set() });
        ours.push(seconds(start));
        if (saved.length !== FILES) throw new Error(`${saved.length} of ${FILES} files came home`);
      },
      async () => {
        const start = performance.now();
        // Must not block: the slow line is simulated in this process.
        await command("rsync", ["-rt", "--fsync", "-e", ssh, "--", `${HOST_WORD}:${checkpoints}/`, targetDir]);
        bare.push(seconds(start));
      },
    ];
    for (let round = 0; round < ROUNDS; round++) {
      for (const way of round % 2 === 0 ? ways : ways.toReversed()) {
        await way();
        execFileSync("diff", ["-r", "-x", ".svc-*", checkpoints, targetDir]);
        rmSync(targetDir, { recursive: true });
      }
    }
  } finally {
    await machine.close();
    line.close();
  }
  return [
    rowOf({
      what: `a checkpoint of ${FILES} small files home, over a line of ${RTT_MS} ms, verified`,
      unit: "s",
      values: ours,
      baseline: bare,
      target: "<= 2x of rsync --fsync, which begins with a connection of its own",
      met: (f, b) => f <= 2 * b,
    }),
  ];
}
