// What is at home only stays there: files that a script has removed on its machine, that belong to no checkpoint, or that an earlier machine
// of the run has saved under a name that the present one uses again.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync, appendFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fetchFile, hashFile, listFiles, readPieces } from "../../../src/providers/local/checkpoint-files.ts";
import type { KeepCheckpoints } from "../../../src/schemas/spec.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import type { GivenFile } from "../../../src/steps/checkpoints/given-files.ts";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { lastComplete } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const { signal } = new AbortController();
let dir: string;
let now: number;
let clock: number;
let told: Map<string, number>;
/** The placement that saved each file, as the store has it. */
let savedBy: Map<string, number>;
let machine: number;
let made: CheckpointCollector;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-kept-"));
  [now, clock, told, savedBy, machine] = [1_000, 1_700_000_000, new Map(), new Map(), 0];
  nextMachine();
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const there = (path = ""): string => join(dir, `machine-${machine}`, path);
const host: CheckpointHost = {
  listCheckpoints: () => listFiles(there(), signal),
  fetchCheckpoint: (file, target) => fetchFile(there(), file, target),
  readPieces: (pieces) => readPieces(there(), pieces),
  hashCheckpoint: (file) => hashFile(there(), file),
};

function nextMachine(given: GivenFile[] = [], keep?: KeepCheckpoints): void {
  machine++;
  mkdirSync(there());
  made = new CheckpointCollector({
    targetDir: join(dir, "home"),
    given,
    now: () => now,
    announced: () => announcements(told),
    placements: { present: machine, of: (path) => savedBy.get(path) ?? null },
    keep: keep && {
      keep,
      announced: () => announcements(told),
      points: () => [],
      savedBy: () => savedBy,
      isEarlier: () => false,
      uncopied: () => [],
      node: 0,
      nodes: 1,
      checkpoints: join(dir, "home"),
    },
  });
}

function save(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(there(path)), { recursive: true });
    writeFileSync(there(path), text);
    utimesSync(there(path), ++clock, clock);
  }
}
const remove = (path: string): void => rmSync(there(path), { recursive: true });
const announce = (path: string): unknown => told.set(path, (told.get(path) ?? 0) + 1);

async function scan(final = false): Promise<void> {
  for (let n = 0; n < 2; n++) {
    now += SETTLE_MS;
    await made.scan(host, {
      final: final && n === 1,
      announced: new Set(),
      signal,
      record: (files, removed) => {
        for (const path of removed) savedBy.delete(path);
        for (const { path } of files) savedBy.set(path, machine);
        return Promise.resolve();
      },
    });
  }
}
/** The recorded files, which are exactly those at home. */
async function home(): Promise<string[]> {
  const files = (await made.atHome()).map(({ path }) => path).toSorted();
  expect([...savedBy.keys()].toSorted()).toEqual(files);
  return files;
}
const atHome = (path: string): string => readFileSync(join(dir, "home", path), "utf8");
const resumes = async () =>
  (await lastComplete({ job: "a", checkpoints: join(dir, "home"), announced: new Set(told.keys()), nodes: 1 }))?.name;
const checkpoint = (folder: string): Record<string, string> => ({
  [`${folder}/optimizer.pt.bin`]: folder,
  [`${folder}/trainer_state.json`]: "{}",
});

describe("A folder that holds checkpoints", () => {
  it("keeps them when the Trainer writes its state into it at the end, and is none itself", async () => {
    for (const step of [100, 200, 300]) {
      save(checkpoint(`out/checkpoint-${step}`));
      announce(`out/checkpoint-${step}`);
      if (step > 100) remove(`out/checkpoint-${step - 100}`);
      await scan();
    }
    save({ "out/notes.txt": "by hand", "out/trainer_state.json": '{"final":1}' });
    remove("out/notes.txt");
    await scan(true);
    expect(await home()).toEqual([
      ...[100, 200, 300].flatMap((step) => Object.keys(checkpoint(`out/checkpoint-${step}`))),
      "out/trainer_state.json",
    ]);
    expect(await resumes()).toBe("out/checkpoint-300");
  });

  it("keeps those that the script removes before it announces the folder again", async () => {
    for (const step of [1, 2]) {
      save({ ...checkpoint(`all/checkpoint-${step}`), [`all/step-${step}.pt`]: "one file" });
      announce(`all/step-${step}.pt`);
      if (step > 1) remove("all/checkpoint-1");
      if (step > 1) remove("all/step-1.pt");
      await scan();
      announce("all");
      await scan();
    }
    expect(await home()).toEqual([
      ...[1, 2].flatMap((step) => Object.keys(checkpoint(`all/checkpoint-${step}`))),
      "all/step-1.pt",
      "all/step-2.pt",
    ]);
  });

  it("keeps what was never a part of it when it becomes complete", async () => {
    save({ "out/samples/step-1.png": "a picture", "out/events": "of this machine" });
    await scan();
    remove("out/samples");
    nextMachine();
    save({ "out/model.bin": "weights", "out/trainer_state.json": "{}" });
    await scan(true);
    expect(await home()).toEqual(["out/events", "out/model.bin", "out/samples/step-1.png", "out/trainer_state.json"]);
  });

  const saveTensorFlow = (n: number): void => {
    const state = `model_checkpoint_path: "ckpt-${n}"\nall_model_checkpoint_paths: "ckpt-${n}"\n`;
    save({ [`tf/ckpt-${n}.data-00000-of-00001`]: `${n}`, [`tf/ckpt-${n}.index`]: `${n}`, "tf/checkpoint": state });
    if (n > 1) remove(`tf/ckpt-${n - 1}.index`);
    if (n > 1) remove(`tf/ckpt-${n - 1}.data-00000-of-00001`);
  };
  const prefix = (n: number): string[] => [`tf/ckpt-${n}.data-00000-of-00001`, `tf/ckpt-${n}.index`];

  it.each([
    ["keeps those that TensorFlow removes on the machine", undefined, [1, 2, 3]],
    ["loses those that TensorFlow removes on the machine if a rule is set", { last: 1 }, [3]],
  ] as const)("%s", async (_, keep, expected) => {
    machine = 0;
    rmSync(join(dir, "machine-1"), { recursive: true });
    nextMachine([], keep);
    for (const n of [1, 2, 3]) {
      saveTensorFlow(n);
      await scan();
    }
    expect(await home()).toEqual(["tf/checkpoint", ...expected.flatMap(prefix)]);
    expect(await resumes()).toBe("tf");
  });
});

describe("A file of an earlier machine", () => {
  it("gets a second name before another one takes its place, and keeps it on every later machine", async () => {
    save({ "history.csv": "1,1\n1,2\n1,3\n", "preds/a.txt": "the same", "best.pt": "a" });
    await scan(true);
    nextMachine();
    save({ "history.csv": "2,1\n", "preds/a.txt": "the same", "best.pt": "b" });
    await scan(true);
    nextMachine();
    save({ "history.csv": "3,1\n", "best.pt": "c" });
    await scan(true);
    expect(await home()).toEqual([
      "best.pt",
      "best.pt~placement1",
      "best.pt~placement2",
      "history.csv",
      "history.csv~placement1",
      "history.csv~placement2",
      "preds/a.txt",
    ]);
    expect(atHome("history.csv")).toBe("3,1\n");
    expect(atHome("history.csv~placement1")).toBe("1,1\n1,2\n1,3\n");
    expect(atHome("history.csv~placement2")).toBe("2,1\n");
    expect(atHome("best.pt~placement1")).toBe("a");
  });

  it("gets it while the new one is still growing, too", async () => {
    save({ "history.csv": "1,1\n1,2\n1,3\n" });
    await scan(true);
    nextMachine();
    save({ "history.csv": "2,1\n" });
    for (let n = 2; n < 8; n++) {
      await scan();
      appendFileSync(there("history.csv"), `2,${n}\n`);
    }
    expect(atHome("history.csv~placement1")).toBe("1,1\n1,2\n1,3\n");
    expect(atHome("history.csv")).toMatch(/^2,1\n/);
    await scan(true);
    expect(await home()).toEqual(["history.csv", "history.csv~placement1"]);
  });

  it("needs none if the new one continues it, or if svc gave it to this machine", async () => {
    save({ "history.csv": "1,1\n", "last.pt": "old" });
    await scan(true);
    const given = join(dir, "given");
    mkdirSync(given);
    writeFileSync(join(given, "last.pt"), "old");
    nextMachine([{ root: given, path: "last.pt", size: 3, mtime_ms: clock * 1_000 }]);
    save({ "history.csv": "1,1\n2,2\n", "last.pt": "newer" });
    await scan(true);
    expect(await home()).toEqual(["history.csv", "last.pt"]);
    expect(atHome("last.pt")).toBe("newer");
  });

  it("needs none in a checkpoint of many files that is saved again under its name", async () => {
    save(checkpoint("checkpoint-1"));
    await scan(true);
    nextMachine();
    save({ ...checkpoint("checkpoint-1"), "checkpoint-1/optimizer.pt.bin": "another" });
    await scan(true);
    expect(await home()).toEqual(Object.keys(checkpoint("checkpoint-1")));
    expect(atHome("checkpoint-1/optimizer.pt.bin")).toBe("another");
  });

  it("EF3: gets it where the later machine has a folder for its file, or a file for its folder", async () => {
    save({
      model: "a file",
      "runs/a/log.txt": "one",
      "runs/b.txt": "two",
      "step-1": "a checkpoint",
      ...checkpoint("ckpt"),
    });
    await scan(true);
    nextMachine();
    save({ "model/weights.pt": "in a folder", runs: "a file", "step-1/a.pt": "new", ckpt: "one file" });
    await scan(true);
    expect(await home()).toEqual(
      [
        ...Object.keys(checkpoint("ckpt~placement1")),
        "ckpt",
        "model/weights.pt",
        "model~placement1",
        "runs",
        "runs~placement1/a/log.txt",
        "runs~placement1/b.txt",
        "step-1/a.pt",
        "step-1~placement1",
      ].toSorted(),
    );
    expect(atHome("model~placement1")).toBe("a file");
    expect(atHome("runs~placement1/a/log.txt")).toBe("one");
    save({ "runs2/x": "of this machine" });
    await scan(true);
    remove("runs2");
    save({ runs2: "newer, of the same machine" });
    await scan(true);
    expect((await home()).filter((path) => path.startsWith("runs2"))).toEqual(["runs2"]);
  });

  it("gets a name that fits, however long its own is", async () => {
    const long = "é".repeat(127);
    save({ [long]: "old" });
    await scan(true);
    nextMachine();
    save({ [long]: "new" });
    await scan(true);
    expect(await home()).toEqual([`${"é".repeat(122)}~placement1`, long].toSorted());
  });
});
