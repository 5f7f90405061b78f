import { mkdirSync, mkdtempSync, rmSync, statSync, utimesSync, writeFileSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { MachineAccess, RemoteFile, RunHost, TreePush } from "../../../src/providers/host.ts";
import { CheckpointCollector } from "../../../src/steps/checkpoints/collector.ts";
import { completeOnes, chooseResume, lastComplete, placeResume } from "../../../src/steps/checkpoints/resume.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "svc-resume-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const ZIP = `PK\x03\x04 weights PK\x05\x06${"\0".repeat(18)}`;
const AT = Date.parse("2026-01-01T00:00:00.250Z");

/** Writes the content (or ZIP) for each name; each file is one minute newer than the one before. */
function put(files: Record<string, string>, root = dir): void {
  Object.entries(files).forEach(([path, text], i) => {
    const full = join(root, path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text, "latin1");
    utimesSync(full, AT / 1000 + i * 60, AT / 1000 + i * 60);
  });
}
async function chosen(files: Record<string, string>, announced: string[] = [], nodes = 1): Promise<string | null> {
  put(files);
  const found = await lastComplete({ job: "a", checkpoints: dir, announced: new Set(announced), nodes });
  return found?.name ?? null;
}
function safetensors(bytes: number): string {
  const header = JSON.stringify({
    __metadata__: { format: "pt" },
    w: { dtype: "U8", shape: [4], data_offsets: [0, 4] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return length.toString("latin1") + header + "x".repeat(bytes);
}

describe("the last complete checkpoint", () => {
  it.each<[string, Record<string, string>, string | null]>([
    ["nothing", {}, null],
    ["the newest of single files", { "1.pt": ZIP, "2.pt": ZIP }, "2.pt"],
    ["not one that was cut short", { "1.pt": ZIP, "2.pt": "PK\x03\x04 weig" }, "1.pt"],
    ["not one that was cut short in its last bytes", { "1.pt": ZIP, "2.pt": ZIP.slice(0, -1) }, "1.pt"],
    ["one with a comment at its end", { "1.pt": ZIP, "2.pt": `${ZIP.slice(0, -2)}\x03\0yes` }, "2.pt"],
    ["not one whose comment was cut short", { "1.pt": ZIP, "2.pt": `${ZIP.slice(0, -2)}\x03\0ye` }, "1.pt"],
    ["not an empty one", { "1.ckpt": "old format", "2.ckpt": "" }, "1.ckpt"],
    ["no .keras that is no ZIP", { "m.keras": "x" }, null],
    ["a whole .safetensors", { "m.safetensors": safetensors(4) }, "m.safetensors"],
    ["no .safetensors that is too short", { "m.safetensors": safetensors(3) }, null],
    ["no temporary name", { "1.pt": ZIP, "tmp-2.pt": ZIP, "3.pt.tmp": ZIP, "4.partial": ZIP }, "1.pt"],
    ["a name that only ends like a temporary one", { "1.pt": ZIP, "high_temp/model.pt": ZIP }, "high_temp/model.pt"],
    [
      "nothing of a folder in which TensorFlow has not finished",
      { "1.pt": ZIP, "ckpt-2_temp/part-00000-of-00001.index": "x", "ckpt-2_temp/model.pt": ZIP },
      "1.pt",
    ],
    ["nothing else that scripts write", { "notes.txt": "x", "config.json": "{}" }, null],
    [
      "a Trainer's folder, not the weights in it",
      { "checkpoint-5/model.safetensors": safetensors(4), "checkpoint-5/trainer_state.json": "{}" },
      "checkpoint-5",
    ],
    [
      "not a folder that says that it is incomplete, nor anything in it",
      { "1.pt": ZIP, "c/trainer_state.json": "{}", "c/a.pt": ZIP, "c/checkpoint-is-incomplete.txt": "" },
      "1.pt",
    ],
    ["not a folder whose weights were cut short", { "c/trainer_state.json": "{}", "c/a.pt": "PK\x03\x04" }, null],
    [
      "not a folder without one of the shards that its index names",
      {
        "1.pt": ZIP,
        "c/trainer_state.json": "{}",
        "c/model-1.safetensors": safetensors(4),
        "c/model.safetensors.index.json": '{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}',
      },
      "1.pt",
    ],
    ["not the members of an unfinished folder", { "checkpoint-5/optimizer.pt": ZIP }, null],
    ["a file beside another one that the script has pickled", { "model-3.pt": ZIP, "labels.pkl": "x" }, "model-3.pt"],
    [
      "not a member beside the pickled state of Accelerate",
      { "a/model.safetensors": safetensors(4), "a/random_states_0.pkl": "x" },
      null,
    ],
    ["a distributed checkpoint", { "dcp/__0_0.distcp": "x", "dcp/.metadata": "x" }, "dcp"],
    ["not one whose last file is empty", { "dcp/__0_0.distcp": "x", "dcp/.metadata": "" }, null],
  ])("is %s", async (_, files, name) => {
    expect(await chosen(files)).toBe(name);
  });

  it("includes files that the script announced, under any name, if they exist", async () => {
    expect(await chosen({ "1.pt": ZIP, "weights.json": "{}" }, ["weights.json", "gone.json", "../x", ""])).toBe(
      "weights.json",
    );
    expect(await chosen({ "own/a.bin": "x", "own/b.bin": "y" }, ["own"])).toBe("own");
  });

  it("is assembled from all nodes", async () => {
    put({ "dcp/__0_0.distcp": "0", "dcp/.metadata": "m", "node1/dcp/__1_0.distcp": "1", "node1/9.pt": ZIP });
    const found = await lastComplete({ job: "a", checkpoints: dir, announced: new Set(), nodes: 2 });
    expect(found?.name).toBe("dcp");
    expect(found?.files.map((f) => [f.path, f.root === dir])).toEqual([
      ["dcp/.metadata", true],
      ["dcp/__0_0.distcp", true],
      ["dcp/__1_0.distcp", false],
    ]);
  });

  it("is that of the later machine, whatever the clock of an earlier one said", async () => {
    put({ "late.pt": ZIP, "later.pt": ZIP, "ahead.pt": ZIP, "further-ahead.pt": ZIP });
    const savedBy = new Map([
      ["late.pt", 2],
      ["later.pt", 2],
    ]);
    const names: string[] = [];
    const look = { job: "a", checkpoints: dir, announced: new Set<string>(), nodes: 1, savedBy };
    for await (const { name } of completeOnes(look)) names.push(name);
    expect(names).toEqual(["later.pt", "late.pt", "further-ahead.pt", "ahead.pt"]);
  });

  it("may be in a folder of node 0 whose name only looks like another node's", async () => {
    put({ "node0/5.pt": ZIP, "node7/6.pt": ZIP });
    const look = { job: "a", checkpoints: dir, announced: new Set<string>(), nodes: 2 };
    const names = new Set<string>();
    for await (const { name } of completeOnes(look)) names.add(name);
    expect(names).toEqual(new Set(["node0/5.pt", "node7/6.pt"]));
  });

  it("comes from the resumed job if the job has none of its own", async () => {
    put({ "1.pt": ZIP }, join(dir, "first"));
    const jobs: Record<string, string | undefined> = { third: "second", second: "first", first: undefined };
    const look = (job: string) =>
      Promise.resolve({
        job,
        checkpoints: join(dir, job),
        announced: new Set<string>(),
        nodes: 1,
        resumedFrom: jobs[job] === undefined ? undefined : { job: jobs[job] },
      });
    expect(await chooseResume({ job: "third" }, look)).toMatchObject({ job: "first", name: "1.pt" });
    expect(await chooseResume({ job: "nobody" }, () => Promise.resolve(null))).toBeNull();
  });

  it("is the named one, and no other if the named one is incomplete", async () => {
    put({ "1.pt": ZIP, "2.pt": ZIP, "3.pt": "PK\x03\x04" });
    const look = (job: string) => Promise.resolve({ job, checkpoints: dir, announced: new Set<string>(), nodes: 1 });
    expect(await chooseResume({ job: "a" }, look)).toMatchObject({ name: "2.pt" });
    expect(await chooseResume({ job: "a", checkpoint: "./1.pt" }, look)).toMatchObject({ name: "1.pt" });
    for (const checkpoint of ["3.pt", "none", "../1.pt", ""])
      expect(await chooseResume({ job: "a", checkpoint }, look), checkpoint).toBeNull();
  });
});

describe("placing it", () => {
  const target = (): string => join(dir, "target");
  async function place(access: Partial<MachineAccess>) {
    put({ "c/.metadata": "m", "c/w.pt": ZIP, "node1/c/s.distcp": "s" }, join(dir, "home"));
    const leavings = { job: "a", checkpoints: join(dir, "home"), announced: new Set<string>(), nodes: 2 };
    const resume = (await lastComplete(leavings))!;
    const signal = new AbortController().signal;
    return { resume, placed: placeResume(resume, access as MachineAccess, target(), signal) };
  }

  it("in place copies it with its times, twice without harm; a missing file is reported", async () => {
    const { resume, placed } = await place({ inPlace: true });
    await placed;
    await placeResume(resume, { inPlace: true } as MachineAccess, target(), new AbortController().signal);
    expect(readFileSync(join(target(), "c/w.pt"), "latin1")).toBe(ZIP);
    expect(statSync(join(target(), "c/w.pt")).mtimeMs).toBeCloseTo(AT + 60_000, 0);
    rmSync(join(dir, "home/c/w.pt"));
    await expect(
      placeResume(resume, { inPlace: true } as MachineAccess, target(), new AbortController().signal),
    ).rejects.toMatchObject({ code: "resume_unavailable" });
  });

  it("elsewhere sends each node's part into one folder", async () => {
    const trees: TreePush[] = [];
    const push = (tree: TreePush) => {
      trees.push(tree);
      return Promise.resolve({ files: 1, bytes: 1, sent_bytes: 1, how: "test" });
    };
    await (
      await place({ inPlace: false, push })
    ).placed;
    expect(trees.map((t) => [t.from, t.to, t.files.map((f) => f.path), t.mirror])).toEqual([
      [join(dir, "home"), target(), ["c/.metadata", "c/w.pt"], false],
      [join(dir, "home/node1"), target(), ["c/s.distcp"], false],
    ]);
  });

  it("is not downloaded again as the run's own, until the run overwrites it", async () => {
    put({ "last.pt": "given" }, join(dir, "pinned"));
    const given = { root: join(dir, "pinned"), path: "last.pt", size: 5, mtime_ms: AT };
    const collector = new CheckpointCollector({ targetDir: join(dir, "new"), now: () => 0, given: [given] });
    let listed: RemoteFile = { path: "last.pt", size: 5, mtimeMs: Math.floor(AT / 1000) * 1000, inode: 1 };
    const host = {
      listCheckpoints: () => Promise.resolve([listed]),
      fetchCheckpoint: (_: RemoteFile, to: string) => Promise.resolve(writeFileSync(to, "other")),
    } as unknown as RunHost;
    const scan = () =>
      collector.scan(host, { final: true, announced: new Set(), signal: new AbortController().signal });
    expect(await scan()).toEqual({ saved: [], pending: [], skipped: [], noRoom: [], torn: [] });
    listed = { ...listed, mtimeMs: AT + 60_000, inode: 2 };
    expect((await scan()).saved.map((f) => f.path)).toEqual(["last.pt"]);
  });
});
