// One large checkpoint download, compared with rsync of the same file over the same ssh. svc compares the file with a
// hash that the machine computed, and syncs it to the disk at the end. So rsync must sync the file, too; and a download
// that proves equality is rsync followed by a hash of each side, both at once.

import { execFile, execFileSync } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { HOST_WORD, sshArguments, sshForRsync } from "../../src/ssh/system-ssh.ts";
import { never, TestMachine } from "../../test/ssh/machine.ts";
import { rowOf, type Row } from "../lib/measure.ts";

const ROUNDS = 5;
const BYTES = 1_000_000_000;
const MB = 1_000_000;
const output = promisify(execFile);

export async function measurePull(folder: string): Promise<Row[]> {
  const machine = await TestMachine.start();
  const ours: number[] = [];
  const bare: number[] = [];
  const verified: number[] = [];
  const rate = (startMs: number): number => BYTES / MB / ((performance.now() - startMs) / 1000);
  try {
    const checkpoints = join(machine.base, "checkpoints");
    mkdirSync(checkpoints, { recursive: true });
    const source = join(checkpoints, "weights.bin");
    const fd = openSync(source, "w");
    for (let i = 0; i < 10; i++) writeSync(fd, randomFillSync(Buffer.allocUnsafe(BYTES / 10)));
    closeSync(fd);
    const host = machine.host();
    await host.start(machine.spec("sleep 600", { checkpoint_dir: checkpoints }), {}, never);
    const [file] = await host.listCheckpoints(never);
    if (file?.size !== BYTES) throw new Error("the machine does not list its checkpoint");
    const { name, sshd, key, pins } = machine;
    const way = { machine: name, endpoint: sshd.endpoint, key, pins };
    const ssh = sshForRsync(way);
    const target = join(folder, "weights.bin");
    const pulls = [
      async () => {
        const start = performance.now();
        await host.fetchCheckpoint(file, target, never);
        ours.push(rate(start));
      },
      async () => {
        const start = performance.now();
        execFileSync("rsync", ["-t", "--fsync", "-e", ssh, "--", `${HOST_WORD}:${source}`, target]);
        bare.push(rate(start));
        const there = output("ssh", [...sshArguments(way), `sha256sum ${source}`]);
        const sums = await Promise.all([there, output("sha256sum", [target])]);
        const [one, other] = sums.map(({ stdout }) => stdout.split(" ")[0]);
        if (one !== other) throw new Error("rsync brought another file");
        verified.push(rate(start));
      },
    ];
    for (let round = 0; round < ROUNDS; round++) {
      for (const pull of round % 2 === 0 ? pulls : pulls.toReversed()) {
        await pull();
        execFileSync("cmp", [source, target]);
        rmSync(target);
      }
    }
  } finally {
    await machine.close();
  }
  const what = "a checkpoint of 1 GB home, verified";
  const unit = "MB/s";
  return [
    rowOf({
      what: `${what}, against rsync and sha256sum`,
      unit,
      values: ours,
      baseline: verified,
      target: ">= 0.9x of rsync --fsync and sha256sum of both sides",
      met: (f, b) => f >= 0.9 * b,
    }),
    rowOf({
      what: `${what}, against rsync alone`,
      unit,
      values: ours,
      baseline: bare,
      target: "(none)",
      met: () => true,
    }),
  ];
}
