// A script that dies or hangs while it writes a file again: what was complete under its name stays.

import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { fetchFile, hashFile, listFiles, readPieces } from "../../../src/providers/local/checkpoint-files.ts";
import { LATE_MS, REST_MS } from "../../../src/steps/checkpoints/announcements.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import { readInProgress } from "../../../src/steps/checkpoints/growing-files.ts";
import { lastComplete } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const signal = new AbortController().signal;
let dir: string;
let now: number;
let clock: number;
let times: Map<string, number>;
let at: Map<string, number>;
let placements: Map<string, number>;
let present: number;
let one: CheckpointCollector;
const there = (): string => join(dir, "there");

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-unfinished-"));
  mkdirSync(there());
  [now, clock, times, at] = [1_000, 1_700_000_000, new Map(), new Map()];
  [placements, present] = [new Map(), 1];
  one = started();
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const started = (): CheckpointCollector =>
  new CheckpointCollector({
    targetDir: join(dir, "home"),
    now: () => now,
    announced: () => announcements(times, { at, placements }),
    placements: { present, of: () => present },
  });
const host: CheckpointHost = {
  listCheckpoints: () => listFiles(there(), signal),
  fetchCheckpoint: (file, target) => fetchFile(there(), file, target),
  readPieces: (pieces) => readPieces(there(), pieces),
  hashCheckpoint: (file) => hashFile(there(), file),
};

function save(path: string, bytes: string): void {
  writeFileSync(join(there(), path), bytes, "latin1");
  utimesSync(join(there(), path), ++clock, clock);
}
const announce = (path: string): void => {
  times.set(path, (times.get(path) ?? 0) + 1);
  at.set(path, clock * 1_000);
};
/** As torch.save writes it: the list of contents comes last. */
const zip = (content: string): string => `PK\u0003\u0004${content}PK\u0005\u0006${"\0".repeat(18)}`;
const scan = (more: { final?: boolean; hasSucceeded?: boolean } = {}) =>
  one.scan(host, { final: false, announced: new Set(times.keys()), signal, ...more });
async function settle(ms: number): Promise<void> {
  await scan();
  for (let spent = 0; spent < ms; spent += SETTLE_MS) {
    now += SETTLE_MS;
    await scan();
  }
}
/** The bytes from which a run would resume. */
async function resumed(path: string): Promise<string | null> {
  const found = await lastComplete({
    job: "a",
    checkpoints: join(dir, "home"),
    announced: new Set(times.keys()),
    nodes: 1,
  });
  if (found === null) return null;
  expect(found.name).toBe(path);
  return readFile(join(found.files[0]!.root, path), "latin1");
}
const atHome = (path: string): Promise<string> => readFile(join(dir, "home", path), "latin1");

it("A script that dies in the middle of saving a file again leaves the complete one to resume from", async () => {
  for (const announced of [false, true]) {
    save("last.pt", zip("one"));
    if (announced) announce("last.pt");
    await settle(SETTLE_MS);
    save("last.pt", zip("the second one").slice(0, 12));
    const { torn } = await scan({ final: true });
    expect(torn).toEqual(["last.pt"]);
    expect(await atHome("last.pt")).toBe(zip("the second one").slice(0, 12));
    expect(await resumed("last.pt")).toBe(zip("one"));
    // Another process of svc collects once more.
    one = started();
    expect((await scan({ final: true })).torn).toEqual(["last.pt"]);
    expect(await resumed("last.pt")).toBe(zip("one"));
  }
});

it("A script that hangs in the middle of it does, too, until the file is complete", async () => {
  save("last.pt", zip("one"));
  announce("last.pt");
  await settle(0);
  save("last.pt", zip("the second one").slice(0, 12));
  await settle(5 * SETTLE_MS);
  expect(await resumed("last.pt")).toBe(zip("one"));
  save("last.pt", zip("the second one"));
  announce("last.pt");
  await settle(0);
  expect(await resumed("last.pt")).toBe(zip("the second one"));
  expect((await scan({ final: true })).torn).toEqual([]);
});

it("A file that its format proves complete counts although it is newer than its announcement", async () => {
  save("last.pt", zip("one"));
  announce("last.pt");
  await settle(0);
  clock += LATE_MS / 1_000;
  save("last.pt", zip("the second one"));
  expect((await scan({ final: true })).torn).toEqual([]);
  expect(await resumed("last.pt")).toBe(zip("the second one"));
});

it("A file of a script that has succeeded is what the script wants, whatever its name promises", async () => {
  save("table.npz", "no ZIP");
  await settle(2 * SETTLE_MS);
  const { torn } = await scan({ final: true, hasSucceeded: true });
  expect(torn).toEqual([]);
  expect(await readInProgress(join(dir, "home"))).toEqual(new Set());
});

it("A format that cannot show it: the file that is newer than its announcement waits, and counts if the script succeeds", async () => {
  for (const hasSucceeded of [false, true]) {
    save("state.pkl", "one");
    announce("state.pkl");
    await settle(0);
    save("state.pkl", "tw");
    expect((await scan({ final: true, hasSucceeded })).torn).toEqual(hasSucceeded ? [] : ["state.pkl"]);
    expect(await resumed("state.pkl")).toBe(hasSucceeded ? "tw" : "one");
  }
});

it("A file that looks newer than its announcement counts once it has rested: a file server's clock may be ahead", async () => {
  save("state.pkl", "one");
  announce("state.pkl");
  clock += 60;
  save("state.pkl", "one");
  await settle(SETTLE_MS);
  expect(await resumed("state.pkl")).toBe(null);
  await settle(REST_MS);
  expect(await resumed("state.pkl")).toBe("one");
  clock += LATE_MS / 1_000;
  save("state.pkl", "the next o");
  await settle(2 * REST_MS);
  expect(await resumed("state.pkl"), "the next save hangs").toBe("one");
});

it.each([0, 600])(
  "A file that the script writes again after svc has looked does not count by resting (%d s)",
  async (back) => {
    save("state.pkl", "one");
    announce("state.pkl");
    await settle(0);
    // The machine's clock may be set back.
    clock -= back;
    save("state.pkl", "the next o");
    await settle(3 * REST_MS);
    expect(await resumed("state.pkl"), "the next save hangs").toBe("one");
    await scan({ final: true });
    expect(await resumed("state.pkl"), "and its script fails").toBe("one");
    announce("state.pkl");
    await scan();
    expect(await resumed("state.pkl")).toBe("the next o");
  },
);

describe("On the next machine, a name that only the lost one announced", () => {
  const moves = (): void => {
    for (const name of times.keys()) placements.set(name, 1);
    rmSync(there(), { recursive: true });
    mkdirSync(there());
    present = 2;
    one = started();
  };

  it.each([{ final: true }, {}])("keeps the complete file while the script writes it again (%j)", async (how) => {
    save("last.pkl", "one");
    announce("last.pkl");
    await settle(0);
    moves();
    save("last.pkl", "tw");
    await settle(3 * REST_MS);
    await scan(how);
    expect(await resumed("last.pkl")).toBe("one");
    // Another process of svc collects.
    one = started();
    await scan(how);
    expect(await resumed("last.pkl")).toBe("one");
    announce("last.pkl");
    placements.set("last.pkl", 2);
    await scan();
    expect(await resumed("last.pkl")).toBe("tw");
  });

  it("counts as unfinished if svc never had the announced file", async () => {
    save("epoch=4.pkl", "four");
    announce("epoch=4.pkl");
    await settle(0);
    announce("epoch=5.pkl");
    moves();
    save("epoch=5.pkl", "fi");
    expect((await scan({ final: true })).torn).toEqual(["epoch=5.pkl"]);
    expect(await resumed("epoch=4.pkl")).toBe("four");
  });

  it.each([
    ["its format proves it", "last.pt", {}],
    ["the script has succeeded", "last.pkl", { hasSucceeded: true }],
  ])("is a checkpoint if %s", async (_why, name, how) => {
    save(name, zip("one"));
    announce(name);
    await settle(0);
    moves();
    save(name, zip("two"));
    await scan({ final: true, ...how });
    expect(await resumed(name)).toBe(zip("two"));
  });
});
