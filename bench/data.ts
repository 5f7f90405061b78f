// Data manifests: svc reads and hashes every file, then checks data that has not changed; compared with the plainest
// programs that do the same on all processors. `SVC_BENCH_DATA=full` uses 50,000 files and 10 GB instead of 10,000 and
// 1 GB.

import { execFileSync, spawnSync } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { addData, UNTRUSTED_MS } from "../src/files/data/add.ts";
import { readManifest, removeManifest } from "../src/files/data/store.ts";
import { homeLayout } from "../src/platform/home-layout.ts";
import { doubts, verifyData } from "../src/files/data/verify.ts";
import { withFolder } from "./lib/home.ts";
import { rowOf, type Bench, type Row } from "./lib/measure.ts";

const FULL = process.env["SVC_BENCH_DATA"] === "full";
const FILES = FULL ? 50_000 : 10_000;
const BYTES = FULL ? 10e9 : 1e9;
const FOLDERS = 200;
const ROUNDS = FULL ? 3 : 5;
const POOL_BYTES = 64 * 1024 * 1024;

/** Half of the bytes are in one file out of fifty, the rest in small files, as in typical data sets. */
function make(folder: string): void {
  const pool = randomFillSync(Buffer.allocUnsafe(POOL_BYTES));
  for (let i = 0; i < FOLDERS; i++) mkdirSync(join(folder, `d${i}`));
  const large = Math.round(BYTES / 2 / (FILES / 50));
  const small = Math.round(BYTES / 2 / (FILES - FILES / 50));
  for (let i = 0; i < FILES; i++) {
    const size = i % 50 === 0 ? large : small;
    const from = (i * 7_919) % (POOL_BYTES - size);
    writeFileSync(join(folder, `d${i % FOLDERS}`, `f${i}`), pool.subarray(from, from + size));
  }
}

async function timed(act: () => unknown): Promise<number> {
  const start = performance.now();
  await act();
  return (performance.now() - start) / 1000;
}

const shell = (script: string, folder: string): string =>
  execFileSync("sh", ["-c", script], { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28 });

async function measureIn(folder: string): Promise<Row[]> {
  const [home, set] = [join(folder, "home"), join(folder, "set")];
  mkdirSync(set);
  make(set);
  spawnSync("sync");
  // svc reads files again that were written just before it read them; this benchmark does not measure that.
  await pause(UNTRUSTED_MS + 500);
  const options = () => ({ home, now: Date.now(), signal: new AbortController().signal });
  const add = () => addData({ name: "set", paths: [set], followLinks: false }, options());
  const cores = availableParallelism();
  const sums = `find . -type f -print0 | xargs -0 -P ${cores} -n 128 sha256sum`;
  const hashing: number[] = [];
  const bareHashing: number[] = [];
  const again: number[] = [];
  const looking: number[] = [];
  const finding: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    if (round > 0) removeManifest(home, "set");
    let said = "";
    const both = [
      async () => void hashing.push(await timed(add)),
      async () => void bareHashing.push(await timed(() => (said = shell(sums, set)))),
    ];
    for (const one of round % 2 === 0 ? both : both.toReversed()) await one();
    const theirs = new Map(
      said
        .trimEnd()
        .split("\n")
        .map((line) => [line.slice(68), line.slice(0, 64)]),
    );
    const { files } = readManifest(home, "set");
    if (files.length !== theirs.size || files.some(([path, , sha256]) => theirs.get(path) !== sha256))
      throw new Error("the digests are not those of sha256sum");
    again.push(await timed(() => verifyData("set", false, options())));
    looking.push(await timed(async () => doubts(readManifest(home, "set"))));
    finding.push(await timed(() => shell(`find . -type f -newer ${homeLayout.dataManifest(home, "set")}`, set)));
  }
  const what = `${FILES.toLocaleString("en")} files, ${BYTES / 1e9} GB`;
  const rate = BYTES / 1e6;
  return [
    rowOf({
      what: `${what}: hashed, and the manifest written`,
      unit: "MB/s",
      values: hashing.map((s) => rate / s),
      baseline: bareHashing.map((s) => rate / s),
      target: `>= 0.9x sha256sum by xargs -P ${cores}`,
      met: (figure, baseline) => figure >= 0.9 * baseline,
    }),
    rowOf({
      what: `${what}: verified again, nothing written to`,
      unit: "s",
      values: again,
      baseline: finding,
      target: "<= 10x find -newer, and 5 s",
      met: (figure, baseline) => figure <= 10 * baseline && figure < 5,
    }),
    rowOf({
      what: `${what}: looked at before a submission`,
      unit: "s",
      values: looking,
      baseline: finding,
      target: "<= 10x find -newer, and 2 s",
      met: (figure, baseline) => figure <= 10 * baseline && figure < 2,
    }),
  ];
}

export const data: Bench = {
  name: "data",
  about: `data of ${FILES.toLocaleString("en")} files and ${BYTES / 1e9} GB, hashed and verified`,
  limitMs: 20 * 60_000,
  measure: () => withFolder(measureIn),
};
