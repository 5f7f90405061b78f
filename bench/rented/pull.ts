// One large checkpoint home, against rsync of the same file with the same ssh. Ours compares the file with a hash that the machine
// made, and has it on the disk when it is done; so rsync is told to bring it onto the disk, too.

import { execFileSync } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { HOST_WORD, sshForRsync } from "../../src/ssh/system-ssh.ts";
import { never, TestMachine } from "../../test/ssh/machine.ts";
import { rowOf, type Row } from "../lib/measure.ts";

const ROUNDS = 5;
const BYTES = 1_000_000_000;
const MB = 1_000_000;

export async function measurePull(folder: string): Promise<Row[]> {
  const machine = await TestMachine.start();
  const ours: number[] = [];
  const bare: number[] = [];
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
    const ssh = sshForRsync({ machine: name, endpoint: sshd.endpoint, key, pins });
    const target = join(folder, "weights.bin");
    const pulls = [
      async () => {
        const start = performance.now();
        await host.fetchCheckpoint(file, target, never);
        ours.push(BYTES / MB / ((performance.now() - start) / 1000));
      },
      // oxlint-disable-next-line require-await -- as the other one
      async () => {
        const start = performance.now();
        execFileSync("rsync", ["-t", "--fsync", "-e", ssh, "--", `${HOST_WORD}:${source}`, target]);
        bare.push(BYTES / MB / ((performance.now() - start) / 1000));
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
  return [
    rowOf({
      what: "a checkpoint of 1 GB home, verified",
      unit: "MB/s",
      values: ours,
      baseline: bare,
      target: ">= 0.9x of rsync --fsync",
      met: (f, b) => f >= 0.9 * b,
    }),
  ];
}
