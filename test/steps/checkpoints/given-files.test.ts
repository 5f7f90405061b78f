// Checkpoints with a fixed name on a machine that resumed from one: the script rewrites some of the files that it was given and leaves the
// others as they were. The checkpoint must count again, with the files of each node, and never as a mixture.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fetchFile, listFiles } from "../../../src/providers/local/checkpoint-files.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { lastComplete, pinResume, type Resume } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const { signal } = new AbortController();
let top: string;
beforeEach(() => void (top = mkdtempSync(join(tmpdir(), "svc-given-"))));
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** The machines of a run's placements, each of which resumes from the last complete checkpoint, and the home that collects from them. */
class World {
  readonly #nodes: number;
  #home: string;
  readonly #told = new Map<string, number>();
  readonly recorded = new Map<string, string>();
  readonly fetched: string[] = [];
  #placement = 0;
  #now = 1_000;
  #savedAt = 1_700_000_000.25;
  #given: Resume["files"] = [];
  #collectors: CheckpointCollector[] = [];

  constructor(nodes: number) {
    this.#nodes = nodes;
    this.#home = join(top, "home");
    this.#machines();
  }

  #machines(): void {
    this.#placement++;
    for (let node = 0; node < this.#nodes; node++) mkdirSync(this.#there(node), { recursive: true });
    this.restart();
  }

  restart(): void {
    this.#collectors = Array.from({ length: this.#nodes }, (_, node) => {
      const place = { node, nodes: this.#nodes, placement: this.#placement, checkpoints: this.#home };
      return new CheckpointCollector({
        targetDir: node === 0 ? this.#home : join(this.#home, `node${node}`),
        now: () => this.#now,
        given: this.#given,
        announced: () => announcements(this.#told),
        place: this.#nodes > 1 ? place : undefined,
        placements: { present: this.#placement, of: () => null },
      });
    });
  }

  readonly #there = (node: number): string => join(top, `placement${this.#placement}`, `node${node}`);

  /** The next machines, which receive the last complete checkpoint with times in whole seconds, as tar keeps them. */
  async lose(): Promise<void> {
    const pinned = await pinResume((await this.#last())!, join(top, `pinned${this.#placement}`));
    this.#given = pinned.files;
    this.#machines();
    for (let node = 0; node < this.#nodes; node++)
      for (const { root, path, mtime_ms } of pinned.files)
        this.#put(node, path, readFileSync(join(root, path), "utf8"), Math.floor(mtime_ms / 1_000));
  }

  /** The same machines belong to another run, whose home has nothing yet. */
  asAnotherRun(): void {
    this.#home = join(top, "another");
    this.#told.clear();
    this.recorded.clear();
    this.restart();
  }

  #put(node: number, path: string, text: string, at: number): void {
    const full = join(this.#there(node), path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
    utimesSync(full, at, at);
  }

  /** The clock of the present machines is that far from the right time. */
  clock(seconds: number): void {
    this.#savedAt = 1_700_100_000 + this.#placement * 10_000 + seconds;
  }

  write(node: number, files: Record<string, string>): void {
    for (const [path, text] of Object.entries(files)) this.#put(node, path, text, (this.#savedAt += 1));
  }

  announce(name: string): void {
    this.#told.set(name, (this.#told.get(name) ?? 0) + 1);
  }

  async scan(nodes: readonly number[], final = false): Promise<void> {
    for (const node of nodes)
      for (let time = 0; time < 2; time++) {
        this.#now += SETTLE_MS;
        const there = this.#there(node);
        const host = {
          listCheckpoints: () => listFiles(there, signal),
          fetchCheckpoint: (file, target) => (this.fetched.push(file.path), fetchFile(there, file, target)),
        } as CheckpointHost;
        const prefix = node === 0 ? "" : `node${node}/`;
        await this.#collectors[node]!.scan(host, {
          final,
          announced: new Set(this.#told.keys()),
          signal,
          record: (files, removed) => {
            for (const path of removed) this.recorded.delete(prefix + path);
            for (const { path, modified_at } of files) this.recorded.set(prefix + path, modified_at);
            return Promise.resolve();
          },
        });
      }
  }

  #last(): Promise<Resume | null> {
    return lastComplete({
      job: "a",
      checkpoints: this.#home,
      announced: new Set(this.#told.keys()),
      nodes: this.#nodes,
    });
  }

  /** The files of the last complete checkpoint; null if there is none. */
  async resumed(): Promise<Record<string, string> | null> {
    const chosen = await this.#last();
    if (chosen === null) return null;
    const files = chosen.files.map(({ root, path }) => [path, readFileSync(join(root, path), "utf8")] as const);
    return Object.fromEntries(files.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** The visible files of one node on this computer. */
  atHome(node = 0): Record<string, string> {
    const folder = node === 0 ? this.#home : join(this.#home, `node${node}`);
    const files = readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1))
      .filter(
        (path) => !path.split("/").some((name) => name.startsWith(".svc-") || (node === 0 && /^node[1-9]/.test(name))),
      );
    return Object.fromEntries(files.toSorted().map((path) => [path, readFileSync(join(folder, path), "utf8")]));
  }
}

const FIRST = { "last/config.json": "config", "last/step.bin": "1", "last/trainer_state.json": "1" };
const ANNOUNCED = { "last/config.json": "config", "last/step.bin": "1" };

describe("On one node, a checkpoint of which a later machine rewrites some files", () => {
  let world: World;
  beforeEach(() => void (world = new World(1)));
  const save = async (files: Record<string, string>, name?: string): Promise<void> => {
    world.write(0, files);
    if (name !== undefined) world.announce(name);
    await world.scan([0]);
  };

  it.each([
    ["a framework marks", FIRST, { "last/step.bin": "2", "last/trainer_state.json": "2" }, undefined],
    ["the script announces", ANNOUNCED, { "last/step.bin": "2" }, "last"],
  ] as const)("counts again with the others as they were given, if %s it", async (_, first, second, name) => {
    await save(first, name);
    for (const version of ["2", "3"]) {
      await world.lose();
      const again = Object.fromEntries(Object.keys(second).map((path) => [path, version]));
      await save(again, name);
      expect(await world.resumed()).toEqual({ ...first, ...again });
    }
    expect(world.fetched.filter((path) => path === "last/config.json")).toHaveLength(1);
  });

  it("does not count again before the file that is written last, or the announcement", async () => {
    await save(FIRST);
    await world.lose();
    await save({ "last/step.bin": "2" });
    expect(await world.resumed()).toEqual(FIRST);
    world.asAnotherRun();
    await world.scan([0]);
    expect(await world.resumed()).toBeNull();
  });

  it("belongs to another run that resumed from it only once that run has saved it", async () => {
    await save(FIRST);
    await world.lose();
    world.asAnotherRun();
    await world.scan([0]);
    expect([await world.resumed(), world.atHome(), world.recorded.size]).toEqual([null, {}, 0]);
    const second = { ...FIRST, "last/step.bin": "2", "last/trainer_state.json": "2" };
    await save({ "last/step.bin": "2", "last/trainer_state.json": "2" });
    expect(await world.resumed()).toEqual(second);
    // The given file is listed, copied by sinks and downloaded with the others, at its own time.
    expect(world.atHome()).toEqual(second);
    expect(world.recorded.get("last/config.json")).toBe("2023-11-14T22:13:21.250Z");
    world.recorded.clear();
    world.restart();
    await world.scan([0], true);
    expect([...world.recorded.keys()].toSorted()).toEqual(Object.keys(second));
  });

  it("replaces a newer torn file on this computer by the given one that it holds", async () => {
    await save({ ...ANNOUNCED, "last/other.bin": "1" }, "last");
    await save({ "last/other.bin": "torn" });
    await world.lose();
    await save({ "last/step.bin": "2" }, "last");
    const second = { ...ANNOUNCED, "last/other.bin": "1", "last/step.bin": "2" };
    expect(await world.resumed()).toEqual(second);
    expect(world.atHome()).toEqual(second);
  });

  it("is older than a later one of the same machine, whatever the time of a file that it was given", async () => {
    world.clock(86_400);
    await save(ANNOUNCED, "last");
    await world.lose();
    world.clock(0);
    await save({ "last/step.bin": "2" }, "last");
    expect(await world.resumed()).toEqual({ ...ANNOUNCED, "last/step.bin": "2" });
    await save({ "step-3/step.bin": "3" }, "step-3");
    expect(await world.resumed()).toEqual({ "step-3/step.bin": "3" });
  });

  it("is downloaded in full if the copy that it was given from is gone", async () => {
    await save(ANNOUNCED, "last");
    await world.lose();
    rmSync(join(top, "pinned1"), { recursive: true });
    world.asAnotherRun();
    await save({ "last/step.bin": "2" }, "last");
    expect(await world.resumed()).toEqual({ ...ANNOUNCED, "last/step.bin": "2" });
  });
});

describe.each([2, 3])("On %i nodes, a checkpoint of which later machines rewrite some files", (nodes) => {
  const all = Array.from({ length: nodes }, (_, node) => node);
  const shards = (text: string): Record<string, string> =>
    Object.fromEntries(all.map((node) => [`last/shard-${node}.bin`, text]));
  const whole = (text: string): Record<string, string> => ({
    ...Object.fromEntries(all.map((node) => [`last/config-${node}.json`, "config"])),
    ...shards(text),
  });
  let world: World;
  beforeEach(async () => {
    world = new World(nodes);
    for (const node of all)
      world.write(node, { [`last/config-${node}.json`]: "config", [`last/shard-${node}.bin`]: "1" });
    world.announce("last");
    await world.scan(all);
    expect(await world.resumed()).toEqual(whole("1"));
    await world.lose();
  });
  const rewrite = (text: string): void => {
    for (const node of all) world.write(node, { [`last/shard-${node}.bin`]: text });
    world.announce("last");
  };

  it("counts once each node's own files are here", async () => {
    for (const version of ["2", "3"]) {
      rewrite(version);
      for (const node of all) {
        expect(await world.resumed()).toEqual(whole(String(Number(version) - 1)));
        await world.scan([node]);
      }
      expect(await world.resumed()).toEqual(whole(version));
      await world.lose();
    }
  });

  it("counts where the nodes end before svc knows that it is complete, also after the run's own folder is gone", async () => {
    rewrite("2");
    await world.scan(all.toReversed(), true);
    expect(await world.resumed()).toEqual(whole("2"));
    rmSync(join(top, "pinned1"), { recursive: true });
    expect(await world.resumed()).toEqual(whole("2"));
  });

  it("counts for another run that resumed from it, once that run has saved it", async () => {
    world.asAnotherRun();
    await world.scan(all);
    expect(await world.resumed()).toBeNull();
    rewrite("2");
    await world.scan(all.toReversed(), true);
    expect(await world.resumed()).toEqual(whole("2"));
  });

  it("counts if one node has left all of its own files as they were", async () => {
    world.write(0, { "last/shard-0.bin": "2" });
    world.announce("last");
    await world.scan(all);
    expect(await world.resumed()).toEqual({ ...whole("1"), "last/shard-0.bin": "2" });
    // No node keeps a file of another one.
    expect(Object.keys(world.atHome(0))).toEqual(["last/config-0.json", "last/shard-0.bin"]);
    expect(Object.keys(world.atHome(1))).toEqual(["last/config-1.json", "last/shard-1.bin"]);
  });

  it("counts before one of an earlier machine whose clock was ahead", async () => {
    world.clock(86_400);
    for (const node of all) world.write(node, { [`ahead/shard-${node}.bin`]: "ahead" });
    world.announce("ahead");
    await world.scan(all);
    await world.lose();
    world.clock(0);
    for (const node of all) world.write(node, { [`late/shard-${node}.bin`]: "late" });
    world.announce("late");
    await world.scan(all);
    expect(Object.keys((await world.resumed()) ?? {})).toEqual(all.map((node) => `late/shard-${node}.bin`));
  });

  it("does not count while a rewritten file of a node is missing", async () => {
    rewrite("2");
    await world.scan(all.slice(0, -1));
    expect(await world.resumed()).toEqual(whole("1"));
  });
});
