// The complete checkpoints that stay on this computer, over a real folder that a script writes and rotates.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  utimesSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { fetchFile, hashFile, listFiles, readPieces } from "../../../src/providers/local/checkpoint-files.ts";
import type { KeepCheckpoints } from "../../../src/schemas/spec.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import type { GivenFile } from "../../../src/steps/checkpoints/given-files.ts";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import type { SetsOptions } from "../../../src/steps/checkpoints/sets.ts";
import { lastComplete } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const { signal } = new AbortController();
let top: string;
let source: string;
let targetDir: string;
let now: number;
let fetched: string[];
let recorded: Set<string>;
let steps: Map<string, number>;
let times: Map<string, number>;
let earlier: Set<string>;
let savedBy: Map<string, number>;
let uncopied: string[];
let points: { step: number; value: number }[];
let made: CheckpointCollector;

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "svc-retention-"));
  source = join(top, "source");
  targetDir = join(top, "home");
  mkdirSync(source);
  [now, fetched, recorded, steps, times, points] = [1_000, [], new Set(), new Map(), new Map(), []];
  earlier = new Set();
  savedBy = new Map();
  uncopied = [];
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

const host: CheckpointHost = {
  listCheckpoints: () => listFiles(source, signal),
  fetchCheckpoint: (file, target) => (fetched.push(file.path), fetchFile(source, file, target)),
  readPieces: (pieces) => readPieces(source, pieces),
  hashCheckpoint: (file) => hashFile(source, file),
};

const collect = (keep?: KeepCheckpoints, placements?: SetsOptions["placements"], given: GivenFile[] = []) =>
  (made = new CheckpointCollector({
    targetDir,
    given,
    now: () => now,
    announced: () => announcements(times),
    placements,
    keep: keep && {
      keep,
      announced: () => announcements(times, { steps }),
      points: () => points,
      savedBy: () => savedBy,
      isEarlier: (paths) => paths.every((path) => earlier.has(path)),
      uncopied: () => uncopied,
      node: 0,
      nodes: 1,
      checkpoints: targetDir,
    },
  }));

async function scan(final = false): Promise<void> {
  now += SETTLE_MS;
  await made.scan(host, {
    final,
    announced: new Set(times.keys()),
    signal,
    record: (files, removed) => {
      for (const path of removed) recorded.delete(path);
      for (const { path } of files) recorded.add(path);
      return Promise.resolve();
    },
  });
}

/** A checkpoint in the form of the Trainer, one second after the one before. */
function save(step: number, more: Record<string, string> = {}): void {
  const folder = join(source, `checkpoint-${step}`);
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries({
    "model.safetensors.bin": `weights ${step}`,
    ...more,
    "trainer_state.json": "{}",
  })) {
    writeFileSync(join(folder, name), text);
    utimesSync(join(folder, name), 1_700_000_000 + step, 1_700_000_000 + step);
  }
}
const rotate = (step: number) => rmSync(join(source, `checkpoint-${step}`), { recursive: true });
const home = () =>
  readdirSync(targetDir)
    .filter((name) => !name.startsWith("."))
    .toSorted();
const resumes = async () =>
  (await lastComplete({ job: "a", checkpoints: targetDir, announced: new Set(times.keys()), nodes: 1 }))?.name;

async function run(count: number, keep?: KeepCheckpoints, rotates = true): Promise<void> {
  collect(keep);
  for (let step = 1; step <= count; step++) {
    save(step);
    if (rotates && step > 1) rotate(step - 1);
    await scan();
    await scan();
  }
  await scan(true);
}

it("Without a rule every complete checkpoint stays, also those that the script has rotated away", async () => {
  await run(4);
  expect(home()).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4"]);
});

it("a checkpoint that a sink has still to copy stays until it is copied", async () => {
  collect({ last: 1 });
  save(1);
  await scan();
  await scan();
  uncopied = ["checkpoint-1/model.safetensors.bin"];
  for (const step of [2, 3]) {
    save(step);
    await scan();
    await scan();
  }
  expect(home()).toEqual(["checkpoint-1", "checkpoint-3"]);
  expect(recorded.has("checkpoint-1/model.safetensors.bin")).toBe(true);
  uncopied = [];
  await scan();
  expect(home()).toEqual(["checkpoint-3"]);
});

it("`last` keeps the newest ones, and none of the others is downloaded again", async () => {
  await run(6, { last: 2 }, false);
  expect(home()).toEqual(["checkpoint-5", "checkpoint-6"]);
  expect([...recorded].every((path) => /^checkpoint-[56]\//.test(path))).toBe(true);
  expect(fetched.filter((path) => path.startsWith("checkpoint-1/")).length).toBe(2);
  // A later process of the control plane reads the record as well.
  fetched = [];
  collect({ last: 2 });
  await scan(true);
  expect(fetched).toEqual([]);
  expect(home()).toEqual(["checkpoint-5", "checkpoint-6"]);
  expect(readdirSync(join(targetDir, ".svc-sets")).filter((name) => name.endsWith(".json")).length).toBe(2);
  // A checkpoint that is saved again under its name is a new one.
  save(7);
  rotate(1);
  save(1, { "more.bin": "x" });
  utimesSync(join(source, "checkpoint-1", "trainer_state.json"), 1_700_000_100, 1_700_000_100);
  await scan();
  await scan();
  expect(await resumes()).toBe("checkpoint-1");
});

it("`best` keeps those with the lowest value at their step, and always the newest", async () => {
  points = [5, 1, 4, 2, 3].map((value, i) => ({ step: i + 1, value }));
  await run(5, { best: "loss:2" });
  expect(home()).toEqual(["checkpoint-2", "checkpoint-4", "checkpoint-5"]);
  expect(await resumes()).toBe("checkpoint-5");
});

it("`best` with `max` keeps those with the highest, and one without a value stays", async () => {
  points = [5, 1, 4].map((value, i) => ({ step: i + 2, value }));
  await run(4, { best: "acc:1:max" });
  // The script had logged no value at step 1.
  expect(home()).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-4"]);
});

it("`rotation: follow` removes what the script has removed, but never the last complete one", async () => {
  await run(4, { rotation: "follow" });
  expect(home()).toEqual(["checkpoint-4"]);
  rotate(4);
  await scan(true);
  expect(home()).toEqual(["checkpoint-4"]);
  expect(await resumes()).toBe("checkpoint-4");
  expect([...recorded].toSorted()).toEqual(["checkpoint-4/model.safetensors.bin", "checkpoint-4/trainer_state.json"]);
});

it("`rotation: follow` keeps what an earlier machine saved, and follows the script of the present one", async () => {
  await run(3, { rotation: "follow" }, false);
  expect(home()).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-3"]);
  // The next machine has only the checkpoint from which it resumed.
  earlier = new Set(recorded);
  rotate(1);
  rotate(2);
  collect({ rotation: "follow" });
  await scan();
  save(4);
  await scan();
  await scan();
  expect(home()).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-3", "checkpoint-4"]);
  rotate(3);
  save(5);
  rotate(4);
  await scan();
  await scan();
  expect(home()).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-5"]);
});

it("Files that belong to no checkpoint stay, whatever the rule", async () => {
  writeFileSync(join(source, "history.csv"), "step,loss\n");
  await run(3, { last: 1 });
  expect(home()).toEqual(["checkpoint-3", "history.csv"]);
});

it("A file that a later save no longer has is removed from the local folder", async () => {
  collect();
  save(1, { "shard-2.bin": "second" });
  await scan();
  await scan();
  rotate(1);
  save(1);
  utimesSync(join(source, "checkpoint-1", "trainer_state.json"), 1_700_000_050, 1_700_000_050);
  await scan();
  await scan();
  expect(existsSync(join(targetDir, "checkpoint-1", "shard-2.bin"))).toBe(false);
  expect(readFileSync(join(targetDir, "checkpoint-1", "model.safetensors.bin"), "utf8")).toBe("weights 1");
  expect([...recorded].toSorted()).toEqual(["checkpoint-1/model.safetensors.bin", "checkpoint-1/trainer_state.json"]);
});

it("`last` keeps what the later machine saved, although the clock of the earlier one was a day ahead", async () => {
  collect({ last: 1 });
  save(90_000);
  writeFileSync(join(source, "ahead.pt"), "single");
  utimesSync(join(source, "ahead.pt"), 1_700_090_001, 1_700_090_001);
  await scan();
  await scan();
  expect(home()).toEqual(["ahead.pt"]);
  rotate(90_000);
  rmSync(join(source, "ahead.pt"));
  const placements = { present: 2, of: () => null };
  collect({ last: 1 }, placements);
  for (const step of [10, 20]) {
    save(step);
    await scan();
    await scan();
    expect([home(), await resumes()]).toEqual([[`checkpoint-${step}`], `checkpoint-${step}`]);
  }
  // A single file has the placement that the store recorded.
  savedBy.set("late.pt", 2);
  writeFileSync(join(source, "late.pt"), "single");
  utimesSync(join(source, "late.pt"), 1_700_000_030, 1_700_000_030);
  await scan();
  await scan();
  expect(home()).toEqual(["late.pt"]);
});

it("A given checkpoint that a rule has removed does not return while its folder stays on the machine", async () => {
  const kept = () => readdirSync(join(targetDir, ".svc-sets")).length;
  const root = join(top, "given");
  const write = (folder: string, step: number) => {
    const file = join(folder, `ckpt-${step}`, "model.bin");
    mkdirSync(join(folder, `ckpt-${step}`), { recursive: true });
    writeFileSync(file, `weights ${step}`);
    utimesSync(file, 1_700_000_000 + step, 1_700_000_000 + step);
  };
  write(root, 2);
  write(source, 2);
  times.set("ckpt-2", 1);
  const path = "ckpt-2/model.bin";
  collect({ last: 1 }, { present: 2, of: () => 1 }, [{ root, path, size: 9, mtime_ms: 1_700_000_002_000 }]);
  await scan();
  await scan();
  expect([home(), kept()]).toEqual([["ckpt-2"], 2]);
  write(source, 3);
  times.set("ckpt-3", 1);
  for (let n = 0; n < 4; n++) await scan(n === 3);
  expect([home(), [...recorded], kept()]).toEqual([["ckpt-3"], ["ckpt-3/model.bin"], 2]);
  expect(await resumes()).toBe("ckpt-3");
});
