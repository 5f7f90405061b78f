// Checkpoints of many files, from the script's folder to the one that the next run receives: after any loss on the way,
// a run resumes only from a checkpoint that was complete.

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { RemoteFile, RunHost } from "../../../src/providers/host.ts";
import { fetchFile, listFiles } from "../../../src/providers/local/checkpoint-files.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import { lastComplete, pinResume, placeResume } from "../../../src/steps/checkpoints/resume.ts";

const signal = new AbortController().signal;
let dir: string;
let now: number;
/** Files of the machine that are no longer fetched, because the machine is lost then. */
let lostAfter: number;
let told: Map<string, number>;
let fetchMs: number;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-sets-"));
  [now, lostAfter, told, fetchMs] = [1_000, Infinity, new Map(), 0];
  mkdirSync(join(dir, "there"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const host = {
  listCheckpoints: () => (lostAfter > 0 ? listFiles(join(dir, "there"), signal) : Promise.reject(new Error("lost"))),
  fetchCheckpoint: async (file: RemoteFile, target: string) => {
    if (lostAfter-- <= 0) throw new Error("lost");
    now += fetchMs;
    await fetchFile(join(dir, "there"), file, target);
  },
} as unknown as RunHost;

/** Each process has one; a new one simulates a new process. */
const collector = () =>
  new CheckpointCollector({ targetDir: join(dir, "home"), now: () => now, announced: () => Promise.resolve(told) });
const announce = (name: string): Set<string> => {
  told.set(name, (told.get(name) ?? 0) + 1);
  return new Set([name]);
};
const scan = (one: CheckpointCollector, announced = new Set<string>(), final = false) =>
  one.scan(host, { final, announced, signal });

let clock = Date.parse("2026-01-01T00:00:00Z") / 1_000;
/** So large that the files come one by one. */
const PADDING = " ".repeat(600 * 1024);
/** Each version's content is its number. */
function save(files: Record<string, string | number>): void {
  for (const [path, content] of Object.entries(files)) {
    const full = join(dir, "there", path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, `v${content}${PADDING}`);
    clock += 1;
    utimesSync(full, clock, clock);
  }
}
const shards = (name: string, version: number, count: number): Record<string, number> => ({
  [`${name}/.metadata`]: version,
  ...Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name}/s${i}.bin`, version])),
});
const remove = (path: string): void => rmSync(join(dir, "there", path), { recursive: true });

const atHome = (path: string): string => readFileSync(join(dir, path), "utf8").trim();
const choose = () =>
  lastComplete({ job: "a", checkpoints: join(dir, "home"), announced: new Set(told.keys()), nodes: 1 });
/** The checkpoint that a resuming run receives; null if none is complete. */
async function resumed(): Promise<Record<string, string> | null> {
  const chosen = await choose();
  if (chosen === null) return null;
  const to = mkdtempSync(join(dir, "next-"));
  const pinned = await pinResume(chosen, join(dir, "pinned"));
  await placeResume(pinned, { inPlace: true } as Parameters<typeof placeResume>[1], to, signal);
  return treeOf(to);
}
function treeOf(top: string): Record<string, string> {
  const entries = readdirSync(top, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    entries.map((entry) => {
      const full = join(entry.parentPath, entry.name);
      return [full.slice(top.length + 1), readFileSync(full, "utf8").trim()];
    }),
  );
}
const versions = (name: string, version: number, count: number) =>
  Object.fromEntries(Object.keys(shards(name, version, count)).map((path) => [path, `v${version}`]));

it("a set that was lost during the download does not count: the run resumes from the previous one", async () => {
  save(shards("step-1", 1, 2));
  const one = collector();
  await scan(one, announce("step-1"));
  save(shards("step-2", 2, 10));
  const names = announce("step-2");
  // Each fetch takes so long that svc puts each file into place on its own.
  fetchMs = 6_000;
  for (const files of [1, 2, 3, 4]) {
    lostAfter = files;
    await expect(scan(one, new Set(names))).rejects.toThrow("lost");
    expect(await resumed()).toEqual(versions("step-1", 1, 2));
  }
  expect(readdirSync(join(dir, "home/step-2")).length).toBeGreaterThan(2);
  lostAfter = Infinity;
  await scan(one, new Set(names));
  expect(await resumed()).toEqual(versions("step-2", 2, 10));
});

it("a set that was downloaded before the next one was lost is resumed from, even if one scan found both", async () => {
  save({ ...shards("step-1", 1, 2), ...shards("step-2", 2, 4) });
  const names = new Set([...announce("step-1"), ...announce("step-2")]);
  fetchMs = 6_000;
  lostAfter = 5;
  await expect(scan(collector(), names)).rejects.toThrow("lost");
  expect(await resumed()).toEqual(versions("step-1", 1, 2));
});

it("a false name from a machine cannot write outside of the kept folder", async () => {
  save(shards("step-1", 1, 1));
  writeFileSync(join(dir, "precious"), "mine");
  const { size, mtimeMs, ino } = statSync(join(dir, "precious"));
  const lying = {
    ...host,
    listCheckpoints: async () => [
      ...(await listFiles(join(dir, "there"), signal)),
      { path: "step-1/../../precious", size, mtimeMs, inode: ino },
      { path: "../x/.metadata", size, mtimeMs, inode: ino },
    ],
  } as unknown as RunHost;
  await collector().scan(lying, { final: true, announced: announce("step-1"), signal });
  expect(readdirSync(dir).toSorted()).toEqual(["home", "precious", "there"]);
  expect(readdirSync(join(dir, "home/.svc-sets"))).toEqual([]);
});

it("a set that no framework marks and that was downloaded in part does not count, nor do its files alone", async () => {
  save({ "epoch.pt": 1 });
  const one = collector();
  await scan(one, new Set(), true);
  save({ "last/a.pt": 2, "last/b.pt": 2, "last/c.pt": 2 });
  lostAfter = 1;
  await expect(scan(one, announce("last"))).rejects.toThrow("lost");
  expect(await resumed()).toEqual({ "epoch.pt": "v1" });
});

it("a set that is saved again under its name stays in its earlier version until the new one is complete, and then has no file of the old one", async () => {
  save(shards("last", 1, 6));
  const one = collector();
  await scan(one, announce("last"));
  remove("last");
  save(shards("last", 2, 3));
  const names = announce("last");
  lostAfter = 2;
  fetchMs = 6_000;
  await expect(scan(one, new Set(names))).rejects.toThrow("lost");
  expect(atHome("home/last/.metadata")).toBe("v2");
  expect(await resumed()).toEqual(versions("last", 1, 6));
  // Another process continues.
  lostAfter = Infinity;
  await scan(collector(), new Set(names));
  expect(await resumed()).toEqual(versions("last", 2, 3));
  expect(readdirSync(join(dir, "home/.svc-sets"))).toHaveLength(2);
});

it("a set that was half overwritten when the run ended counts in its last complete version; the local folder has the newest of each file", async () => {
  save(shards("last", 1, 3));
  const one = collector();
  await scan(one, announce("last"));
  save({ "last/s0.bin": 2, "last/s1.bin": 2 });
  await scan(one, new Set(), true);
  expect(await resumed()).toEqual(versions("last", 1, 3));
  expect(atHome("home/last/s0.bin")).toBe("v2");
  expect(atHome("home/last/s2.bin")).toBe("v1");
});

it("a set that is being removed, file by file, keeps its earlier state", async () => {
  save(shards("step-1", 1, 4));
  const one = collector();
  await scan(one, announce("step-1"));
  remove("step-1/s0.bin");
  remove("step-1/.metadata");
  await scan(one);
  expect(await resumed()).toEqual(versions("step-1", 1, 4));
  remove("step-1");
  await scan(one, new Set(), true);
  expect(await resumed()).toEqual(versions("step-1", 1, 4));
});

it("a framework's set is complete with the file that it writes last, and again when that file changes", async () => {
  save(shards("checkpoint-5", 1, 2));
  const one = collector();
  await scan(one);
  now += SETTLE_MS;
  await scan(one);
  expect(await resumed()).toEqual(versions("checkpoint-5", 1, 2));
  save({ "checkpoint-5/s0.bin": 2, "checkpoint-5/s1.bin": 2 });
  await scan(one);
  now += SETTLE_MS;
  await scan(one);
  expect(await resumed()).toEqual(versions("checkpoint-5", 1, 2));
  save({ "checkpoint-5/.metadata": 2 });
  await scan(one, new Set(), true);
  expect(await resumed()).toEqual(versions("checkpoint-5", 2, 2));
});

it("a set with a file that cannot be downloaded is incomplete", async () => {
  save(shards("step-1", 1, 2));
  const one = collector();
  await scan(one, announce("step-1"));
  save({ ...shards("step-2", 2, 2), "step-2/odd\nname": 2 });
  const { skipped } = await scan(one, announce("step-2"), true);
  expect(skipped).toHaveLength(1);
  expect(await resumed()).toEqual(versions("step-1", 1, 2));
});

it("a tracker that names an incompletely downloaded set does not hide an earlier set", async () => {
  const one = collector();
  save({ "global_step1/a.pt": 1, "global_step1/b.pt": 1, latest: "global_step1" });
  writeFileSync(join(dir, "there/latest"), "global_step1");
  await scan(one, new Set(), true);
  save({ "global_step2/a.pt": 2, "global_step2/b.pt": 2 });
  writeFileSync(join(dir, "there/latest"), "global_step2");
  fetchMs = 6_000;
  // The tracker is the smallest file, so it is the first; one more is fetched with it, and the third never arrives.
  save({ "global_step2/c.pt": 2 });
  lostAfter = 3;
  await expect(scan(one, new Set(), true)).rejects.toThrow("lost");
  expect(atHome("home/latest")).toBe("global_step2");
  expect(await resumed()).toEqual({ "global_step1/a.pt": "v1", "global_step1/b.pt": "v1" });
});

it("a set without a mark of its own is complete again each time that the script announces it", async () => {
  const one = collector();
  for (const version of [1, 2]) {
    save({ "last/a.bin": version, "last/b.bin": version });
    await scan(one, announce("last"));
    expect(await resumed()).toEqual({ "last/a.bin": `v${version}`, "last/b.bin": `v${version}` });
  }
});

it("a chosen file that another length has replaced since is not resumed from", async () => {
  save({ "epoch.pt": 1 });
  await scan(collector(), announce("epoch.pt"));
  const chosen = (await choose())!;
  rmSync(join(dir, "home/epoch.pt"));
  writeFileSync(join(dir, "home/epoch.pt"), "longer than before".repeat(1_000));
  await expect(pinResume(chosen, join(dir, "pinned"))).rejects.toMatchObject({ code: "resume_unavailable" });
});

it("a folder that was announced once, and keeps growing, does not hide a newer set", async () => {
  save({ "ckpts/e1.pt": 1 });
  const one = collector();
  await scan(one, announce("ckpts"));
  save({ "ckpts/e2.pt": 2 });
  await scan(one, new Set(), true);
  expect(await resumed()).toEqual({ "ckpts/e2.pt": "v2" });
});

it("a chosen set stays unchanged, whatever its run saves meanwhile", async () => {
  save(shards("last", 1, 3));
  const one = collector();
  await scan(one, announce("last"));
  const pinned = await pinResume((await choose())!, join(dir, "pinned"));
  save(shards("last", 2, 3));
  await scan(one, announce("last"));
  const to = join(dir, "to");
  await placeResume(pinned, { inPlace: true } as Parameters<typeof placeResume>[1], to, signal);
  expect(treeOf(to)).toEqual(versions("last", 1, 3));
});
