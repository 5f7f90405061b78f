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
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RemoteFile, RunHost } from "../../../src/providers/host.ts";
import { fetchFile, listFiles } from "../../../src/providers/local/checkpoint-files.ts";
import { LATE_MS, REST_MS } from "../../../src/steps/checkpoints/announcements.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import { allKept } from "../../../src/steps/checkpoints/sets.ts";
import { lastComplete, pinResume, placeResume } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const signal = new AbortController().signal;
let dir: string;
let now: number;
/** Files of the machine that are no longer fetched, because the machine is lost then. */
let lostAfter: number;
let told: Map<string, number>;
let toldAt: Map<string, number>;
let toldBy: Map<string, number>;
let fetchMs: number;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-sets-"));
  [now, lostAfter, told, toldAt, toldBy, fetchMs] = [1_000, Infinity, new Map(), new Map(), new Map(), 0];
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
const collector = (present = 1) =>
  new CheckpointCollector({
    placements: { present, of: () => null },
    targetDir: join(dir, "home"),
    now: () => now,
    announced: () => announcements(told, { at: toldAt, placements: toldBy }),
  });
const announce = (name: string): Set<string> => {
  told.set(name, (told.get(name) ?? 0) + 1);
  return new Set([name]);
};
/** With the time, as `svc.checkpoint` does. */
const announceNow = (name: string): Set<string> => {
  toldAt.set(name, clock * 1_000);
  return announce(name);
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
const keptNames = async (): Promise<string[]> => [...(await allKept(join(dir, "home"))).keys()];
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

describe("AN2: a folder that is written again before the announced version is downloaded", () => {
  const part = (version: number, ...names: string[]) =>
    Object.fromEntries(names.map((name) => [`last/${name}.bin`, version]));
  /** The announced version was listed; then the first of its files is overwritten. */
  async function overwritten(): Promise<{ one: CheckpointCollector; names: Set<string> }> {
    const one = collector();
    save(part(1, "a", "b", "c"));
    await scan(one, announceNow("last"));
    save(part(2, "a", "b", "c"));
    const names = announceNow("last");
    fetchMs = 6_000;
    lostAfter = 1;
    await expect(scan(one, new Set(names))).rejects.toThrow("lost");
    [lostAfter, fetchMs] = [Infinity, 0];
    save(part(3, "a"));
    return { one, names };
  }
  const settle = async (one: CheckpointCollector, names: Set<string>): Promise<void> => {
    for (let i = 0; i < 2; i++) {
      await scan(one, names);
      now += SETTLE_MS;
    }
    await scan(one, names);
  };

  it("is no checkpoint: the version before is resumed from, until the next is announced", async () => {
    const { one, names } = await overwritten();
    await settle(one, names);
    expect(atHome("home/last/a.bin")).toBe("v3");
    expect(await resumed()).toEqual(part1());
    save(part(3, "b", "c"));
    await scan(one, announceNow("last"));
    expect(await resumed()).toEqual({ "last/a.bin": "v3", "last/b.bin": "v3", "last/c.bin": "v3" });
  });
  const part1 = () => ({ "last/a.bin": "v1", "last/b.bin": "v1", "last/c.bin": "v1" });

  it("counts once it has rested: a process may save its part late", async () => {
    const { one, names } = await overwritten();
    await settle(one, names);
    now += REST_MS;
    await scan(one);
    expect(await resumed()).toEqual({ "last/a.bin": "v3", "last/b.bin": "v2", "last/c.bin": "v2" });
  });

  it("does not count however long it rests if it is the next save that hangs, or files are missing", async () => {
    const { one, names } = await overwritten();
    clock += LATE_MS / 1_000;
    save(part(4, "a"));
    await settle(one, names);
    now += REST_MS;
    await scan(one);
    expect(await resumed()).toEqual(part1());
    save(part(5, "a", "b", "c"));
    fetchMs = 6_000;
    lostAfter = 1;
    await expect(scan(one, announceNow("last"))).rejects.toThrow("lost");
    [lostAfter, fetchMs] = [Infinity, 0];
    remove("last/b.bin");
    await settle(one, names);
    now += REST_MS;
    await scan(one);
    expect(await resumed()).toEqual(part1());
  });

  it("counts at the end only if the script succeeded, however long the end takes", async () => {
    for (const hasSucceeded of [false, true]) {
      rmSync(join(dir, "there/last"), { recursive: true, force: true });
      rmSync(join(dir, "home"), { recursive: true, force: true });
      [told, toldAt] = [new Map(), new Map()];
      const { one } = await overwritten();
      const last = { final: true, hasSucceeded, announced: new Set<string>(), signal };
      await one.scan(host, last);
      now += REST_MS;
      const { torn } = await one.scan(host, last);
      expect(torn).toEqual(hasSucceeded ? [] : ["last"]);
      expect((await resumed())?.["last/a.bin"]).toBe(hasSucceeded ? "v3" : "v1");
    }
  });

  it("is noticed although this process has seen no listing of the announced version, or a file is removed", async () => {
    save(part(1, "a", "b"));
    await scan(collector(), announceNow("last"));
    save(part(2, "a", "b"));
    announceNow("last");
    save(part(3, "a"));
    const one = collector();
    await settle(one, new Set());
    expect(await resumed()).toEqual({ "last/a.bin": "v1", "last/b.bin": "v1" });
    save(part(4, "a", "b"));
    const names = announceNow("last");
    lostAfter = 0;
    const listed = { ...host, fetchCheckpoint: () => Promise.reject(new Error("lost")) } as unknown as RunHost;
    lostAfter = Infinity;
    await expect(one.scan(listed, { final: false, announced: names, signal })).rejects.toThrow("lost");
    remove("last/b.bin");
    await scan(one, names);
    expect(await resumed()).toEqual({ "last/a.bin": "v1", "last/b.bin": "v1" });
    save(part(5, "first"));
    save({ "new/a.bin": 5, "new/b.bin": 5 });
    const first = announceNow("new");
    await expect(one.scan(listed, { final: false, announced: new Set(first), signal })).rejects.toThrow("lost");
    save({ "new/a.bin": 6 });
    await settle(one, first);
    expect(await resumed()).toEqual({ "last/a.bin": "v1", "last/b.bin": "v1" });
  });

  it("is noticed although svc was away, or a large file kept it from looking, while the files were replaced", async () => {
    for (const names of [
      ["model", "optimizer"],
      ["model-1", "optimizer-1"],
    ]) {
      save(part(1, ...names));
      announceNow("last");
      rmSync(join(dir, "there/last"), { recursive: true });
      save(part(2, names[0]!.replace("1", "2")));
      const one = collector();
      await settle(one, new Set(["last"]));
      expect(await keptNames()).toEqual([]);
      now += REST_MS;
      rmSync(join(dir, "there/last"), { recursive: true });
    }
  });

  it("is noticed although a copy of other files has their times, which are older", async () => {
    const one = collector();
    save(part(1, "a", "b"));
    await scan(one, announceNow("last"));
    save({ ...part(2, "a", "b"), "other.bin": 3 });
    const names = announceNow("last");
    fetchMs = 6_000;
    lostAfter = 1;
    await expect(scan(one, new Set(names))).rejects.toThrow("lost");
    [lostAfter, fetchMs] = [Infinity, 0];
    const { atime, mtime } = statSync(join(dir, "there/last/b.bin"));
    writeFileSync(join(dir, "there/last/b.bin"), "another file");
    utimesSync(join(dir, "there/last/b.bin"), atime, new Date(mtime.getTime() - 60_000));
    await settle(one, names);
    expect(await resumed()).toEqual({ "last/a.bin": "v1", "last/b.bin": "v1" });
  });

  it("AN4: is not complete on another machine because of an announcement of the lost one", async () => {
    const one = collector(2);
    save(part(1, "a"));
    announceNow("last");
    toldBy.set("last", 1);
    await settle(one, new Set());
    expect(await keptNames()).toEqual([]);
    announceNow("last");
    toldBy.set("last", 2);
    await scan(one, new Set());
    await settle(one, new Set());
    expect(await keptNames()).toEqual(["last"]);
  });

  it("is complete with files that were only added, and at the time of a framework's later mark", async () => {
    const one = collector();
    save({ ...part(1, "a"), ...shards("dcp", 1, 1) });
    announceNow("last");
    announceNow("dcp");
    const names = new Set(["last", "dcp"]);
    lostAfter = 1;
    await expect(scan(one, new Set(names))).rejects.toThrow("lost");
    lostAfter = Infinity;
    save({ "last/score.json": 1, "dcp/s0.bin": 2 });
    save({ "dcp/.metadata": 2 });
    await settle(one, names);
    const kept = await keptNames();
    expect(kept.toSorted()).toEqual(["dcp", "last"]);
  });
});
