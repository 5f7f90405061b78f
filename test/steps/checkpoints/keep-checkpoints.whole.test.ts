// `keep_checkpoints` as a table: each rule, for checkpoints that a framework marks or that the script announces, on one
// and on several nodes. Each row also names the checkpoint that a resuming run receives, which must have the shards of
// every node.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fetchFile, hashFile, listFiles, readPieces } from "../../../src/providers/local/checkpoint-files.ts";
import type { KeepCheckpoints } from "../../../src/schemas/spec.ts";
import { CheckpointCollector, SETTLE_MS } from "../../../src/steps/checkpoints/collector.ts";
import type { CheckpointHost } from "../../../src/steps/checkpoints/home-names.ts";
import { lastComplete, pinResume, placeResume } from "../../../src/steps/checkpoints/resume.ts";
import { announcements } from "./announcements.ts";

const { signal } = new AbortController();
type Mark = "marked" | "announced";

let top: string;
beforeEach(() => void (top = mkdtempSync(join(tmpdir(), "svc-keep-"))));
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** Machines that save checkpoints, a home that collects them, and a control plane that may restart in between. */
class World {
  readonly #nodes: number;
  readonly #keep: KeepCheckpoints;
  readonly #mark: Mark;
  readonly #times = new Map<string, number>();
  readonly #steps = new Map<string, number>();
  readonly points: { step: number; value: number }[] = [];
  #collectors: CheckpointCollector[] = [];
  #now = 1_000;

  constructor(keep: KeepCheckpoints, mark: Mark, nodes: number) {
    [this.#keep, this.#mark, this.#nodes] = [keep, mark, nodes];
    for (let node = 0; node < nodes; node++) mkdirSync(this.#source(node), { recursive: true });
    this.restart();
  }

  readonly #source = (node: number): string => join(top, "machine", String(node));
  readonly home = join(top, "home");
  readonly #below = (node: number): string => (node === 0 ? this.home : join(this.home, `node${node}`));

  restart(): void {
    this.#collectors = Array.from({ length: this.#nodes }, (_, node) => {
      mkdirSync(this.#below(node), { recursive: true });
      return new CheckpointCollector({
        targetDir: this.#below(node),
        now: () => this.#now,
        announced: () => announcements(this.#times),
        place: this.#nodes > 1 ? { node, nodes: this.#nodes, placement: 1, checkpoints: this.home } : undefined,
        keep: {
          keep: this.#keep,
          checkpoints: this.home,
          node,
          nodes: this.#nodes,
          announced: () => announcements(this.#times, { steps: this.#steps }),
          points: () => this.points,
          savedBy: () => new Map(),
          isEarlier: () => false,
          uncopied: () => [],
        },
      });
    });
  }

  /** Each node writes its shard; then node 0 writes the mark, or announces. */
  save(step: number, text = `of ${step}`): void {
    const name = this.name(step);
    for (let node = this.#nodes - 1; node >= 0; node--) {
      const files = [`shard-${node}.bin`, ...(node === 0 && this.#mark === "marked" ? ["trainer_state.json"] : [])];
      for (const file of files) {
        const path = join(this.#source(node), name, file);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, `${file} ${text}`);
        utimesSync(path, 1_700_000_000 + this.#now / 1_000, 1_700_000_000 + this.#now / 1_000);
      }
    }
    if (this.#mark !== "announced") return;
    this.#times.set(name, (this.#times.get(name) ?? 0) + 1);
    this.#steps.set(name, step);
  }

  /** Announced names have no number in them: the announcement gives their step. */
  name(step: number): string {
    return this.#mark === "marked" ? `checkpoint-${step}` : `save ${"abcdefghij"[step] ?? ""}`;
  }

  rotate(step: number): void {
    for (let node = 0; node < this.#nodes; node++)
      rmSync(join(this.#source(node), this.name(step)), { recursive: true, force: true });
  }

  /** Scans one node twice; its files do not change in between. */
  async collect(node: number, final = false): Promise<void> {
    for (let scan = 0; scan < 2; scan++) await this.look(node, final);
  }

  async look(node = 0, final = false): Promise<void> {
    const source = this.#source(node);
    const host: CheckpointHost = {
      listCheckpoints: () => listFiles(source, signal),
      fetchCheckpoint: (file, target) => fetchFile(source, file, target),
      readPieces: (pieces) => readPieces(source, pieces),
      hashCheckpoint: (file) => hashFile(source, file),
    };
    this.#now += SETTLE_MS;
    await this.#collectors[node]?.scan(host, { final, announced: new Set(this.#times.keys()), signal });
  }

  async collectAll(final = false): Promise<void> {
    for (let node = 0; node < this.#nodes; node++) await this.collect(node, final);
  }

  /** The steps of the checkpoints that one node has on this computer. */
  steps(node = 0): number[] {
    const names = new Set(readdirSync(this.#below(node)));
    return Array.from({ length: 10 }, (_, step) => step).filter((step) => names.has(this.name(step)));
  }

  /** The files that a resuming run receives. */
  async resumed(): Promise<Record<string, string> | null> {
    const announced = new Set(this.#times.keys());
    const chosen = await lastComplete({ job: "a", checkpoints: this.home, announced, nodes: this.#nodes });
    if (chosen === null) return null;
    const pinned = await pinResume(chosen, mkdtempSync(join(top, "pinned-")));
    const to = mkdtempSync(join(top, "next-"));
    await placeResume(pinned, { inPlace: true } as Parameters<typeof placeResume>[1], to, signal);
    const entries = readdirSync(to, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
    return Object.fromEntries(
      entries.map((entry) => {
        const path = join(entry.parentPath, entry.name);
        return [path.slice(to.length + 1), readFileSync(path, "utf8")];
      }),
    );
  }

  whole(step: number, text = `of ${step}`): Record<string, string> {
    const files = Array.from({ length: this.#nodes }, (_, node) => `shard-${node}.bin`);
    if (this.#mark === "marked") files.push("trainer_state.json");
    return Object.fromEntries(files.map((file) => [`${this.name(step)}/${file}`, `${file} ${text}`]));
  }
}

const LOSS = [9, 3, 8, 1, 7];
interface Case {
  rule: KeepCheckpoints;
  /** Whether the script removes all but its newest checkpoint itself. */
  rotates: boolean;
  stay: number[];
}
// Five checkpoints, of steps 1 to 5, with the losses above.
const CASES: Case[] = [
  { rule: { last: 1 }, rotates: false, stay: [5] },
  { rule: { last: 1 }, rotates: true, stay: [5] },
  { rule: { last: 3 }, rotates: false, stay: [3, 4, 5] },
  { rule: { last: 3 }, rotates: true, stay: [3, 4, 5] },
  { rule: { best: "loss:1" }, rotates: false, stay: [4, 5] },
  { rule: { best: "loss:2" }, rotates: true, stay: [2, 4, 5] },
  { rule: { best: "loss:1:max" }, rotates: false, stay: [1, 5] },
  { rule: { last: 2, best: "loss:2" }, rotates: false, stay: [2, 4, 5] },
  { rule: { rotation: "follow" }, rotates: true, stay: [5] },
  { rule: { rotation: "follow" }, rotates: false, stay: [1, 2, 3, 4, 5] },
  { rule: { last: 2, rotation: "follow" }, rotates: true, stay: [5] },
];
// Each rule on one and on two nodes, once with each mark, in turns.
const ROWS = CASES.flatMap((row, i) =>
  [1, 2].map((nodes) => ({
    ...row,
    nodes,
    mark: (i + nodes) % 2 === 0 ? ("marked" as const) : ("announced" as const),
    title: JSON.stringify(row.rule),
  })),
);

describe.each(ROWS)("$title of checkpoints that are $mark, on $nodes nodes, rotated: $rotates", (row) => {
  it("keeps the same steps on every node, and the newest one is resumed whole", async () => {
    const world = new World(row.rule, row.mark, row.nodes);
    for (const [i, value] of LOSS.entries()) {
      const step = i + 1;
      world.points.push({ step, value });
      world.save(step);
      if (row.rotates) world.rotate(step - 1);
      await world.collectAll();
      expect(await world.resumed()).toEqual(world.whole(step));
    }
    await world.collectAll(true);
    for (let node = 0; node < row.nodes; node++) expect(world.steps(node), `node ${node}`).toEqual(row.stay);
    // A restarted control plane downloads nothing again, and removes nothing more.
    world.restart();
    await world.collectAll(true);
    for (let node = 0; node < row.nodes; node++) expect(world.steps(node), `node ${node}`).toEqual(row.stay);
    expect(await world.resumed()).toEqual(world.whole(5));
  });
});

describe.each(["marked", "announced"] as const)("Checkpoints of three nodes that are %s", (mark) => {
  it("stay until a later one was downloaded from every node", async () => {
    const world = new World({ last: 1 }, mark, 3);
    world.save(1);
    await world.collectAll();
    world.save(2);
    await world.collect(1);
    await world.collect(0);
    await world.collect(1);
    // The home has no file of node 2's step 2 yet.
    for (const node of [0, 1, 2]) expect(world.steps(node), `node ${node}`).toContain(1);
    await world.collect(2);
    await world.collectAll();
    for (const node of [0, 1, 2]) expect(world.steps(node), `node ${node}`).toEqual([2]);
  });

  it("count as new on each node when they are saved again under an old name, whatever the order of the nodes", async () => {
    const world = new World({ last: 1 }, mark, 3);
    for (const step of [1, 2]) {
      world.save(step);
      await world.collectAll();
    }
    await world.collectAll();
    expect([0, 1, 2].map((node) => world.steps(node))).toEqual([[2], [2], [2]]);
    world.save(1, "again");
    for (const node of [2, 1]) await world.collect(node);
    world.restart();
    for (const node of [2, 1, 0, 1, 2]) await world.collect(node);
    expect(await world.resumed()).toEqual(world.whole(1, "again"));
    // Node 0 removes the other one when it scans after every node has its share.
    await world.collectAll();
    expect([0, 1, 2].map((node) => world.steps(node))).toEqual([[1], [1], [1]]);
    expect(existsSync(join(world.home, world.name(2)))).toBe(false);
  });

  it("are downloaded if they are saved again while the older version is due for removal", async () => {
    const world = new World({ last: 2 }, mark, 1);
    for (const step of [1, 2]) {
      world.save(step);
      await world.collectAll();
    }
    // Step 3 makes the first version of step 1 surplus; its second version is on the machine and does not rest yet.
    world.save(3);
    await world.look();
    world.save(1, "again");
    await world.look();
    await world.collectAll();
    expect(world.steps()).toEqual([1, 3]);
    expect(await world.resumed()).toEqual(world.whole(1, "again"));
  });
});
