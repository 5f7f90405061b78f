// A process that saves its part of an announced folder after svc has kept what was announced.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { fetchFile, hashFile, listFiles, readPieces } from "../../../src/providers/local/checkpoint-files.ts";
import { LATE_MS, REST_MS } from "../../../src/steps/checkpoints/announcements.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import { lastComplete } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const signal = new AbortController().signal;
let dir: string;
/** Milliseconds: of svc's clock, and of the machine's. */
let [now, clock] = [0, 0];
let times: Map<string, number>;
let at: Map<string, number>;
let one: CheckpointCollector;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-late-"));
  [now, clock, times, at] = [1_000, 1_700_000_000_000, new Map(), new Map()];
  one = started();
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const started = (): CheckpointCollector =>
  new CheckpointCollector({
    targetDir: join(dir, "home"),
    now: () => now,
    announced: () => announcements(times, { at }),
  });
const there = (): string => join(dir, "there");
const host: CheckpointHost = {
  listCheckpoints: () => listFiles(there(), signal),
  fetchCheckpoint: (file, target) => fetchFile(there(), file, target),
  readPieces: (pieces) => readPieces(there(), pieces),
  hashCheckpoint: (file) => hashFile(there(), file),
};
const scan = (more: { final?: boolean; hasSucceeded?: boolean } = {}) =>
  one.scan(host, { final: false, announced: new Set(times.keys()), signal, ...more });

function save(path: string, bytes: string): void {
  mkdirSync(dirname(join(there(), path)), { recursive: true });
  writeFileSync(join(there(), path), bytes);
  utimesSync(join(there(), path), clock / 1_000, clock / 1_000);
}
async function announce(): Promise<void> {
  times.set("last", (times.get("last") ?? 0) + 1);
  at.set("last", clock);
  await pass(1_000);
}
/** Some time goes by, and svc looks. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= SETTLE_MS) {
    [now, clock] = [now + Math.min(left, SETTLE_MS), clock + Math.min(left, SETTLE_MS)];
    await scan();
  }
}
/** The contents of the folder that a run would resume from, by name. */
async function resumed(): Promise<Record<string, string>> {
  const checkpoints = join(dir, "home");
  const found = await lastComplete({ job: "a", checkpoints, announced: new Set(times.keys()), nodes: 1 });
  const files = found?.files ?? [];
  return Object.fromEntries(files.map(({ root, path }) => [path.slice(5), readFileSync(join(root, path), "utf8")]));
}
async function saveOne(): Promise<void> {
  save("last/config", "same");
  save("last/rank0", "0 of 1");
  save("last/rank1", "1 of 1");
  await announce();
  await pass(LATE_MS);
  expect(await resumed()).toEqual({ config: "same", rank0: "0 of 1", rank1: "1 of 1" });
}

it("LP1: A part that comes late belongs to the checkpoint once it has rested, in the first save and in later ones", async () => {
  save("last/rank0", "0 of 1");
  await announce();
  save("last/rank1", "1 of 1");
  await pass(SETTLE_MS);
  expect(await resumed()).toEqual({ rank0: "0 of 1" });
  await pass(REST_MS + SETTLE_MS);
  expect(await resumed()).toEqual({ rank0: "0 of 1", rank1: "1 of 1" });

  await pass(LATE_MS);
  save("last/rank0", "0 of 2");
  await announce();
  expect(await resumed()).toEqual({ rank0: "0 of 2", rank1: "1 of 1" });
  save("last/rank1", "1 of 2");
  await pass(REST_MS + 2 * SETTLE_MS);
  expect(await resumed()).toEqual({ rank0: "0 of 2", rank1: "1 of 2" });
});

it("LP1: The beginning of the next save does not, also if it pauses", async () => {
  await saveOne();
  save("last/rank0", "0 of 2");
  save("last/rank1", "1 of 2");
  await announce();
  save("last/rank1", "1 of 3");
  await pass(2 * REST_MS);
  expect(await resumed()).toEqual({ config: "same", rank0: "0 of 2", rank1: "1 of 2" });
  // Once the late part is here, any file that changes is of the next save.
  await announce();
  expect(await resumed()).toEqual({ config: "same", rank0: "0 of 2", rank1: "1 of 3" });
  save("last/rank0", "0 of 3");
  await pass(2 * REST_MS);
  expect(await resumed()).toEqual({ config: "same", rank0: "0 of 3", rank1: "1 of 3" });
  for (const rank of [1, 0]) {
    save(`last/rank${rank}`, `${rank} of 4`);
    await pass(REST_MS + SETTLE_MS);
  }
  expect(await resumed()).toEqual({ config: "same", rank0: "0 of 3", rank1: "1 of 3" });
});

it("LP1: Nor does a file that comes later than a process may need, or while another one has gone", async () => {
  await saveOne();
  clock += LATE_MS;
  save("last/rank2", "2 of 2");
  await pass(2 * REST_MS);
  expect(await resumed()).toEqual({ config: "same", rank0: "0 of 1", rank1: "1 of 1" });
  rmSync(join(there(), "last/rank2"));
  save("last/rank0", "0 of 2");
  await announce();
  save("last/rank1", "1 of 2");
  rmSync(join(there(), "last/config"));
  await pass(2 * REST_MS);
  expect(await resumed()).toMatchObject({ rank0: "0 of 2", rank1: "1 of 1" });
});

it("LP1: Another process of svc does not know which files are older, and keeps the folder as it is", async () => {
  await saveOne();
  save("last/rank0", "0 of 2");
  await announce();
  one = started();
  save("last/rank1", "1 of 2");
  await pass(2 * REST_MS);
  expect(await resumed()).toMatchObject({ rank0: "0 of 2", rank1: "1 of 1" });
});

it("LP2: What a script has written into the folder belongs to it once the script has succeeded", async () => {
  for (const how of [{}, { hasSucceeded: true }]) {
    save("last/rank0", "0 of 1");
    save("last/rank1", "1 of 1");
    await announce();
    await pass(LATE_MS);
    clock += LATE_MS;
    save("last/rank1", "1 of 2");
    await scan({ final: true, ...how });
    expect(await resumed()).toEqual({ rank0: "0 of 1", rank1: "hasSucceeded" in how ? "1 of 2" : "1 of 1" });
  }
  rmSync(join(there(), "last/rank0"));
  save("last/rank1", "1 of 3");
  await scan({ final: true, hasSucceeded: true });
  expect(await resumed()).toEqual({ rank0: "0 of 1", rank1: "1 of 2" });
});
