// Trees of files on their way to a machine, as `sync` sends them, compared with a bare `rsync -rt` with the same ssh
// and sshd. Each has its own folder there, a new one in each round (a file system is slow to reuse space that was just
// freed), and the disk has written everything before each push; the second push sends the same tree with one hundredth
// of it changed.

import { execFileSync, spawn } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { closeSync, mkdirSync, openSync, readdirSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TreePush } from "../../src/providers/host.ts";
import type { MachineLink } from "../../src/ssh/machine-link.ts";
import { HOST_WORD, sshForRsync } from "../../src/ssh/system-ssh.ts";
import { createSnapshot, restoreSnapshot } from "../../src/files/code/code-snapshot.ts";
import { never, TestMachine } from "../../test/ssh/machine.ts";
import { rowOf, type Row } from "../lib/measure.ts";

const ROUNDS = 5;
const BIG_FILES = 4;
const BIG_BYTES = 250_000_000;
const SMALL_FILES = 20_000;
const SMALL_FOLDERS = 200;

interface Tree {
  name: string;
  make(folder: string): void;
  /** Changes another part of the tree in each round. */
  change(folder: string, round: number): void;
}

const noise = (bytes: number): Buffer => randomFillSync(Buffer.allocUnsafe(bytes));

const TREES: Tree[] = [
  {
    name: "1 GB in 4 files",
    make(folder) {
      for (let i = 0; i < BIG_FILES; i++) writeFileSync(join(folder, `part-${i}.bin`), noise(BIG_BYTES));
    },
    change(folder, round) {
      const fd = openSync(join(folder, `part-${round % BIG_FILES}.bin`), "r+");
      writeSync(fd, noise((BIG_FILES * BIG_BYTES) / 100), 0, undefined, BIG_BYTES / 2);
      closeSync(fd);
    },
  },
  {
    name: "20,000 small files",
    make(folder) {
      for (let i = 0; i < SMALL_FOLDERS; i++) mkdirSync(join(folder, `d${i}`));
      for (let i = 0; i < SMALL_FILES; i++) writeFileSync(small(folder, i), noise(500 + ((i * 7919) % 3_000)));
    },
    change(folder, round) {
      for (let i = round; i < SMALL_FILES; i += 100) writeFileSync(small(folder, i), noise(1_000));
    },
  },
];

const small = (folder: string, i: number): string => join(folder, `d${i % SMALL_FOLDERS}`, `file-${i}.txt`);

function filesOf(folder: string): TreePush["files"] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).flatMap((path) => {
    const stats = statSync(join(folder, path));
    return stats.isFile() ? [{ path, size: stats.size, executable: false }] : [];
  });
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  execFileSync("sync");
  const start = performance.now();
  await act();
  return (performance.now() - start) / 1000;
}

function bare(args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("rsync", args, { stdio: ["ignore", "ignore", "inherit"] });
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`rsync ended with ${code}`))));
  });
}

interface Times {
  ours: number[];
  bare: number[];
}

async function compare(machine: TestMachine, link: MachineLink, tree: Tree, from: string) {
  const first: Times = { ours: [], bare: [] };
  const again: Times = { ours: [], bare: [] };
  const folderOf = (who: string, round: number): string => join(machine.base, "trees", `${who}-${round}`);
  const ssh = sshForRsync({
    machine: machine.name,
    endpoint: machine.sshd.endpoint,
    key: machine.key,
    pins: machine.pins,
  });
  const inTurn = async (into: Times, round: number): Promise<void> => {
    const files = filesOf(from);
    const [ours, theirs] = [folderOf("ours", round), folderOf("bare", round)];
    const pushes = [
      async () =>
        into.ours.push(await timed(() => link.push({ from, to: ours, files, whole: true, mirror: true }, never))),
      async () =>
        into.bare.push(await timed(() => bare(["-rt", "-e", ssh, "--", `${from}/`, `${HOST_WORD}:${theirs}/`]))),
    ];
    // The first reader after a change waits for the disk, so neither push is the first.
    await bare(["-rt", "-e", ssh, "--", `${from}/`, `${HOST_WORD}:${folderOf("before", round)}/`]);
    for (const push of round % 2 === 0 ? pushes : pushes.toReversed()) await push();
    // Both sides have exactly this tree.
    for (const side of [ours, theirs]) execFileSync("diff", ["-rq", from, side]);
  };
  mkdirSync(dirname(folderOf("", 0)), { recursive: true });
  for (let round = 0; round < ROUNDS; round++) {
    await inTurn(first, round);
    tree.change(from, round);
    await inTurn(again, round);
  }
  rmSync(dirname(folderOf("", 0)), { recursive: true });
  return { first, again };
}

/** The work of `sync` before it sends: it assembles the files of the snapshot. */
async function restoring(from: string, folder: string): Promise<number[]> {
  const home = join(folder, "home");
  const codeDir = join(home, "code");
  const { id } = await createSnapshot({ projectDir: from, codeDir, now: Date.now() });
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const target = join(folder, "stage");
    times.push(await timed(() => restoreSnapshot({ codeDir, id, target })));
    execFileSync("diff", ["-rq", from, target]);
    rmSync(target, { recursive: true });
  }
  rmSync(home, { recursive: true });
  return times;
}

export async function measureTrees(folder: string): Promise<Row[]> {
  const machine = await TestMachine.start();
  const rows: Row[] = [];
  try {
    const link = machine.link();
    await link.greet(never);
    for (const tree of TREES) {
      const from = join(folder, "tree");
      mkdirSync(from);
      tree.make(from);
      const { first, again } = await compare(machine, link, tree, from);
      const row = (what: string, { ours, bare: baseline }: Times): Row =>
        rowOf({
          what,
          unit: "s",
          values: ours,
          baseline,
          target: "<= 1.1x rsync -rt",
          met: (f, b) => f <= 1.1 * b,
        });
      rows.push(
        row(`${tree.name}: first push`, first),
        row(`${tree.name}: pushed again, 1 % changed`, again),
        rowOf({
          what: `${tree.name}: put together from the snapshot, before`,
          unit: "s",
          values: await restoring(from, folder),
          target: "(beside the above)",
          met: () => true,
        }),
      );
      rmSync(from, { recursive: true });
    }
  } finally {
    await machine.close();
  }
  return rows;
}
