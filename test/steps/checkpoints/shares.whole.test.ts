// Checkpoints of runs on several nodes, when a machine is lost: a run resumes only from a checkpoint of which every node's share is at
// home, and from the one before it otherwise.

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fetchFile, listFiles, type ListingBounds } from "../../../src/providers/local/checkpoint-files.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { lastComplete, pinResume, placeResume } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const { signal } = new AbortController();
let top: string;
beforeEach(() => void (top = mkdtempSync(join(tmpdir(), "svc-shares-"))));
afterEach(() => rmSync(top, { recursive: true, force: true }));

type Kind = "announced" | "dcp" | "deepspeed" | "rank 0 only";
const nameOf = (kind: Kind, step: number): string => (kind === "deepspeed" ? `global_step${step}` : `step-${step}`);

/** The machines of a job's placements, and the home that collects from them. */
class World {
  readonly #kind: Kind;
  readonly #nodes: number;
  readonly #home = join(top, "home");
  readonly #told = new Map<string, number>();
  #placement = 0;
  #now = 1_000;
  #savedAt = 1_700_000_000;
  #collectors: CheckpointCollector[] = [];

  constructor(kind: Kind, nodes: number) {
    [this.#kind, this.#nodes] = [kind, nodes];
    this.nextPlacement();
  }

  /** New machines, with empty disks. */
  nextPlacement(): void {
    this.#placement++;
    for (let node = 0; node < this.#nodes; node++) mkdirSync(this.#there(node), { recursive: true });
    this.restart();
  }

  restart(): void {
    this.#collectors = Array.from({ length: this.#nodes }, (_, node) => {
      const targetDir = node === 0 ? this.#home : join(this.#home, `node${node}`);
      mkdirSync(targetDir, { recursive: true });
      const place = { node, nodes: this.#nodes, placement: this.#placement, checkpoints: this.#home };
      return new CheckpointCollector({
        targetDir,
        now: () => this.#now,
        announced: () => announcements(this.#told),
        place,
      });
    });
  }

  readonly #there = (node: number): string => join(top, `placement${this.#placement}`, `node${node}`);

  #write(node: number, path: string, text: string): void {
    const full = join(this.#there(node), path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
    this.#savedAt += 1;
    utimesSync(full, this.#savedAt, this.#savedAt);
  }

  #filesOf(node: number, name: string): string[] {
    switch (this.#kind) {
      case "announced":
        return [`${name}/part-${node}a.bin`, `${name}/part-${node}b.bin`];
      case "dcp":
        return [`${name}/__${2 * node}_0.distcp`, `${name}/__${2 * node + 1}_0.distcp`];
      case "deepspeed":
        return [`${name}/zero_pp_rank_${node}_mp_rank_00_optim_states.pt`];
      case "rank 0 only":
        return node === 0 ? [`${name}/model.bin`, `${name}/optimizer.bin`] : [];
    }
  }

  /** Every node writes its share; then node 0 says that all is complete. */
  save(name: string, text = name): void {
    for (let node = this.#nodes - 1; node >= 0; node--)
      for (const path of this.#filesOf(node, name)) this.#write(node, path, text);
    if (this.#kind === "dcp") this.#write(0, `${name}/.metadata`, text);
    if (this.#kind === "deepspeed") this.#write(0, "latest", name);
    if (this.#kind === "announced" || this.#kind === "rank 0 only")
      this.#told.set(name, (this.#told.get(name) ?? 0) + 1);
  }

  /** Files that come before every checkpoint in a listing. */
  crowd(node: number): void {
    for (const name of ["a/1", "a/2", "a/3"]) this.#write(node, name, "x");
  }

  remove(node: number, name: string): void {
    rmSync(join(this.#there(node), name), { recursive: true });
  }

  /** Two scans of each node. @param files the machine is lost after so many downloads. */
  async scan(nodes: readonly number[], options: { files?: number; final?: boolean; bounds?: ListingBounds } = {}) {
    let { files = Infinity } = options;
    const { final = false, bounds = {} } = options;
    for (const node of nodes)
      for (let time = 0; time < 2; time++) {
        this.#now += SETTLE_MS;
        const there = this.#there(node);
        const host = {
          listCheckpoints: (_, announced = []) => listFiles(there, signal, { announced, ...bounds }),
          fetchCheckpoint: async (file, target) => {
            if (files-- <= 0) throw new Error("lost");
            await fetchFile(there, file, target);
            // So slow that each file is put into place by itself.
            this.#now += 6_000;
          },
        } as CheckpointHost;
        const announced = new Set(this.#told.keys());
        const scan = this.#collectors[node]!.scan(host, { final, announced, signal });
        await (files === Infinity ? scan : scan.catch(() => undefined));
      }
  }

  /** The content of the files that a resuming run receives; null if it starts from the beginning. */
  async resumed(): Promise<Record<string, string> | null> {
    const announced = new Set(this.#told.keys());
    const chosen = await lastComplete({ job: "a", checkpoints: this.#home, announced, nodes: this.#nodes });
    if (chosen === null) return null;
    const pinned = await pinResume(chosen, mkdtempSync(join(top, "pinned-")));
    const to = mkdtempSync(join(top, "next-"));
    await placeResume(pinned, { inPlace: true } as Parameters<typeof placeResume>[1], to, signal);
    const entries = readdirSync(to, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
    return Object.fromEntries(
      entries.map(({ parentPath, name }) => {
        const full = join(parentPath, name);
        return [full.slice(to.length + 1), readFileSync(full, "utf8")];
      }),
    );
  }

  whole(name: string, text = name): Record<string, string> {
    const shares = Array.from({ length: this.#nodes }, (_, node) => this.#filesOf(node, name)).flat();
    const files = this.#kind === "dcp" ? [...shares, `${name}/.metadata`] : shares;
    return Object.fromEntries(files.toSorted().map((path) => [path, text]));
  }
}

const NODES = [2, 3];
const SHARED: Kind[] = ["announced", "dcp", "deepspeed"];
const ROWS = SHARED.flatMap((kind) => NODES.map((nodes) => ({ kind, nodes })));
const all = (nodes: number): number[] => Array.from({ length: nodes }, (_, node) => node);

/** A world whose first checkpoint is at home from every node. */
async function savedOnce(kind: Kind, nodes: number): Promise<World> {
  const world = new World(kind, nodes);
  world.save(nameOf(kind, 1));
  await world.scan(all(nodes));
  expect(await world.resumed()).toEqual(world.whole(nameOf(kind, 1)));
  return world;
}

describe.each(ROWS)("A checkpoint ($kind) of $nodes nodes", ({ kind, nodes }) => {
  const [one, two] = [nameOf(kind, 1), nameOf(kind, 2)];
  const last = nodes - 1;
  let world: World;
  beforeEach(async () => {
    world = await savedOnce(kind, nodes);
  });

  it("counts once every node's share is downloaded", async () => {
    world.save(two);
    for (const node of all(nodes)) {
      expect(await world.resumed()).toEqual(world.whole(one));
      await world.scan([node]);
    }
    expect(await world.resumed()).toEqual(world.whole(two));
  });

  it("does not count while a share is missing", async () => {
    world.save(two);
    await world.scan(all(nodes).slice(0, -1));
    expect(await world.resumed()).toEqual(world.whole(one));
  });

  it("counts in whatever order the nodes end", async () => {
    world.save(two);
    await world.scan(all(nodes).toReversed(), { final: true });
    expect(await world.resumed()).toEqual(world.whole(two));
  });

  it("does not count when a node removed its share before it was downloaded", async () => {
    world.save(two);
    world.remove(last, two);
    await world.scan(all(nodes));
    await world.scan(all(nodes), { final: true });
    expect(await world.resumed()).toEqual(world.whole(one));
  });

  it("does not count without a share just because the next machine has no file of it", async () => {
    world.save(two);
    await world.scan(all(nodes).slice(0, -1));
    world.nextPlacement();
    await world.scan(all(nodes), { final: true });
    expect(await world.resumed()).toEqual(world.whole(one));
  });
});

// DeepSpeed's `latest` is one small file that does not change when a name is saved again: these need more than it.
describe.each(ROWS.filter(({ kind }) => kind !== "deepspeed"))(
  "A checkpoint ($kind) of $nodes nodes, saved in pieces,",
  ({ kind, nodes }) => {
    const [one, two] = [nameOf(kind, 1), nameOf(kind, 2)];
    const last = nodes - 1;
    let world: World;
    beforeEach(async () => {
      world = await savedOnce(kind, nodes);
    });

    it("does not count while a share is partly downloaded", async () => {
      world.save(two);
      await world.scan(all(nodes).slice(0, -1));
      await world.scan([last], { files: 1 });
      expect(await world.resumed()).toEqual(world.whole(one));
      world.restart();
      await world.scan([last]);
      expect(await world.resumed()).toEqual(world.whole(two));
    });

    it("counts in the version that every node has when it is saved again under its name", async () => {
      for (const version of ["second", "third"]) {
        world.save(one, version);
        await world.scan([0]);
        expect(await world.resumed()).toEqual(world.whole(one));
      }
      world.restart();
      for (const node of all(nodes).slice(1)) {
        expect(await world.resumed()).toEqual(world.whole(one));
        await world.scan([node]);
      }
      expect(await world.resumed()).toEqual(world.whole(one, "third"));
    });
  },
);

describe.each(NODES)("On %i nodes", (nodes) => {
  it("a checkpoint of rank 0 alone counts, whether the others were listed or lost before", async () => {
    const world = new World("rank 0 only", nodes);
    world.save("step-1");
    await world.scan([0]);
    expect(await world.resumed()).toEqual(world.whole("step-1"));
    await world.scan(all(nodes));
    world.save("step-2");
    await world.scan([0]);
    expect(await world.resumed()).toEqual(world.whole("step-2"));
  });

  it.each(["dcp", "deepspeed"] as const)(
    "a checkpoint whose files are named by rank (%s) does not count if a node was lost before it was listed",
    async (kind) => {
      const world = new World(kind, nodes);
      world.save(nameOf(kind, 1));
      await world.scan(all(nodes).slice(0, -1));
      expect(await world.resumed()).toBeNull();
    },
  );
});

describe("A node whose listing ends at its bounds", () => {
  it("has its share downloaded, because names that node 0 has saved are requested first", async () => {
    const world = new World("announced", 2);
    world.crowd(1);
    world.save("step-1");
    await world.scan([0, 1], { bounds: { filesMax: 2 } });
    expect(await world.resumed()).toEqual(world.whole("step-1"));
  });

  it("is not taken for one without a share", async () => {
    const world = new World("dcp", 2);
    world.crowd(1);
    world.save("step-1");
    await world.scan([0, 1], { bounds: { filesMax: 2, announced: [] } });
    expect(await world.resumed()).toBeNull();
  });
});
