// Removing single checkpoints of ended runs: the real engine and store, and real files in a home.

import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { CheckpointRemovals } from "../../src/engine/checkpoint-removals.ts";
import { ResumeClaims } from "../../src/engine/resume-claims.ts";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { specOf } from "../../src/schemas/stored-spec.ts";
import { asRecord, readCheckpoints } from "../../src/steps/checkpoints/files.ts";
import { Resumes } from "../../src/steps/checkpoints/resume-choices.ts";
import { CheckpointSets } from "../../src/steps/checkpoints/sets.ts";
import { CheckpointRemovalStore } from "../../src/store/checkpoint-removal-store.ts";
import { LogStore } from "../../src/store/log-store.ts";
import { Harness, removeHomes } from "./harness.ts";

let h: Harness;
let resumes: Resumes;
let claims: ResumeClaims;
let removals: CheckpointRemovals;
let reported: string[];
let ended: string[];
/** What sinks have still to copy, by run. */
const copying = new Map<string, { path: string; url: string }[]>();
let measured: string[];

function assemble(): void {
  const rows = new CheckpointRemovalStore(h.store.db);
  resumes = new Resumes(
    h.home,
    (id) => {
      const row = h.store.job(id);
      return row ? specOf(row) : null;
    },
    (id) => Math.max(1, h.engine.placement(id).n),
    (id) => new Set(rows.open(id).map(({ name }) => name)),
  );
  claims = new ResumeClaims(h.store);
  [reported, measured, ended] = [[], [], []];
  removals = new CheckpointRemovals({
    home: h.home,
    engine: h.engine,
    reads: h.reads,
    resumes,
    claims,
    sinks: {
      uncopied: (id) => copying.get(id) ?? [],
      endUploads: async (id, which) => void ended.push(`${which} of ${id}`),
    },
    measure: async (id) => void measured.push(id),
    report: (line) => void reported.push(line),
  });
}

beforeEach(async () => {
  h = await Harness.open();
  assemble();
});
afterEach(() => h.end());
afterEach(() => copying.clear());
afterAll(removeHomes);

const folderOf = (id = "job1"): string => homeLayout.checkpoints(h.home, id);
const has = (path: string): boolean => existsSync(join(folderOf(), path));
const setFiles = (): string[] =>
  readdirSync(join(folderOf(), ".svc-sets"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.includes("."),
  );

async function end(id = "job1"): Promise<void> {
  await h.kill(id);
  for (const attempt of h.attempts.filter((a) => a.step === "terminate" && !a.answered)) await attempt.done();
  expect(h.row(id).state).toBe("terminal");
}

const KB = 64;
/** Files as the collector downloads them: with their rows, and the kept set of a complete folder. */
async function save(names: Record<string, string[]>, id = "job1", nodes = 1): Promise<void> {
  for (let node = 0; node < nodes; node++) {
    const top = node === 0 ? folderOf(id) : join(folderOf(id), `node${node}`);
    for (const [name, files] of Object.entries(names))
      for (const file of files) {
        mkdirSync(dirname(join(top, name, file)), { recursive: true });
        writeFileSync(join(top, name, file), "w".repeat(KB * 1_024));
      }
  }
  const sets = new CheckpointSets({ targetDir: folderOf(id), announced: () => resumes.announced(id), now: Date.now });
  await sets.prepare();
  resumes.announce(
    id,
    0,
    Object.keys(names).map((path) => ({ path, step: null, at: null })),
  );
  const listing = (await readCheckpoints(folderOf(id))).map((file) => ({
    path: file.path,
    size: file.size,
    mtimeMs: statSync(join(folderOf(id), file.path)).mtimeMs,
    inode: 0,
  }));
  await sets.keep(listing, () => Promise.resolve(true), await sets.knownComplete());
  const log = new LogStore(h.store.db);
  for (const { path, size, mtimeMs } of listing)
    log.checkpoint({
      job_id: id,
      path,
      size,
      modified_at: Date.parse(asRecord(path, size, mtimeMs).modified_at),
      saved_at: 1,
      in_progress: 0,
      placement: 1,
    });
}

const remove = (...names: string[]) => removals.remove("job1", { names, dry_run: false });
const refusal = (...names: string[]) =>
  remove(...names).then(
    () => "removed",
    (e: unknown) => `${(e as { code: string }).code}: ${(e as Error).message}`,
  );
const complete = async (id = "job1"): Promise<string[]> =>
  (await resumes.complete(id, Infinity)).map(({ name }) => name).toSorted();
const recorded = (id = "job1"): string[] => h.reads.checkpoints(id).map(({ path }) => path);

const TWO = { "step-1": ["a.bin", "deep/b.bin"], "step-2": ["a.bin"] };

describe("a checkpoint of an ended run", () => {
  beforeEach(async () => {
    await h.create();
    await save(TWO);
    await end();
  });

  it("is removed with its files, its kept set and its rows; the others stay", async () => {
    expect(await complete()).toEqual(["step-1", "step-2"]);
    const answer = await remove("step-1");
    expect(answer).toMatchObject({
      id: "job1",
      checkpoints: [{ name: "step-1", files: 2, bytes: 2 * KB * 1_024 }],
      linked_bytes: 0,
      left_bytes: 0,
    });
    // The kept set has hard links to the same two files, which count once; its record is small.
    expect(answer.freed_bytes).toBeGreaterThanOrEqual(2 * KB * 1_024);
    expect(answer.freed_bytes).toBeLessThan(3 * KB * 1_024);
    expect([has("step-1"), has("step-2/a.bin")]).toEqual([false, true]);
    expect(await complete()).toEqual(["step-2"]);
    expect(recorded()).toEqual(["step-2/a.bin"]);
    expect(setFiles().filter((name) => name.endsWith(".json"))).toHaveLength(1);
    expect([measured, ended]).toEqual([["job1"], ["dropped of job1"]]);
    const event = h.published.find(({ type }) => type === "checkpoint.removed");
    expect(event?.data).toEqual({ name: "step-1", files: 2, bytes: 2 * KB * 1_024 });
    expect(h.folds()).toBe(true);
  });

  it("is only measured by a dry run", async () => {
    const dry = await removals.remove("job1", { names: ["step-2", "step-1"], dry_run: true });
    expect(await complete()).toEqual(["step-1", "step-2"]);
    const removed = await remove("step-2", "step-1");
    expect(dry).toEqual({ ...removed, dry_run: true });
  });

  it("can be removed twice, also at the same time: the second call frees nothing and records nothing", async () => {
    const [one, two] = await Promise.all([remove("step-1"), remove("step-1/")]);
    expect(one.freed_bytes).toBeGreaterThan(0);
    expect(two).toMatchObject({ checkpoints: [{ name: "step-1", files: 0, bytes: 0 }], freed_bytes: 0 });
    expect(h.published.filter(({ type }) => type === "checkpoint.removed")).toHaveLength(1);
  });

  it("is removed with all the named ones, or none of them is", async () => {
    expect(await refusal("step-1", "step-9")).toMatch(/^checkpoint_not_found/);
    expect(await complete()).toEqual(["step-1", "step-2"]);
  });

  it.each(["", ".", "..", "../job2", "/etc", "step-1/../step-2", ".svc-sets", "step-1\0", "n".repeat(4_096)])(
    "does not have the name %j",
    async (name) => {
      expect(await refusal(name)).toMatch(/^checkpoint_not_found/);
      expect(await complete()).toEqual(["step-1", "step-2"]);
    },
  );

  it("that does not exist is refused with the names of those that do", async () => {
    await expect(remove("step-9")).rejects.toMatchObject({
      message: "The run job1 has no checkpoint `step-9`.",
      hint: expect.stringMatching(/^Nothing was deleted\. Its newest are step-[12], step-[12]\.$/) as string,
    });
  });

  it("that is named with a part of it counts the part as removed now, and its space once", async () => {
    const answer = await remove("step-1", "step-1/a.bin");
    expect(answer.checkpoints).toMatchObject([{ files: 2 }, { name: "step-1/a.bin", files: 1, bytes: KB * 1_024 }]);
    expect(answer.freed_bytes).toBeLessThan(3 * KB * 1_024);
  });

  it("is not removed in parts", async () => {
    expect(await refusal("step-1/a.bin")).toBe(
      "checkpoint_not_removable: The checkpoint step-1/a.bin of the run job1 cannot be removed: it is a part of the checkpoint step-1.",
    );
  });

  it("that another hard link holds frees no space, and the answer says so", async () => {
    linkSync(join(folderOf(), "step-2/a.bin"), join(h.home, "kept.bin"));
    const answer = await remove("step-2");
    expect(answer.linked_bytes).toBeGreaterThanOrEqual(KB * 1_024);
    expect(answer.freed_bytes).toBeLessThan(KB * 1_024);
  });

  it("whose folder was removed by hand loses its rows and its kept set", async () => {
    rmSync(join(folderOf(), "step-1"), { recursive: true });
    const answer = await remove("step-1");
    // The kept set still had the content.
    expect(answer.freed_bytes).toBeGreaterThanOrEqual(2 * KB * 1_024);
    expect(recorded()).toEqual(["step-2/a.bin"]);
    expect(await complete()).toEqual(["step-2"]);
  });

  it("behind a symlink is not touched", async () => {
    const elsewhere = join(h.home, "elsewhere");
    mkdirSync(join(elsewhere, "step-3"), { recursive: true });
    writeFileSync(join(elsewhere, "step-3", "mine.txt"), "mine");
    symlinkSync(elsewhere, join(folderOf(), "more"));
    expect(await refusal("more/step-3")).toContain("a folder above it is a symlink");
    // The symlink itself may go: its target stays.
    await remove("more");
    expect([has("more"), existsSync(join(elsewhere, "step-3", "mine.txt"))]).toEqual([false, true]);
  });

  it("stays removed after a crash in the middle, and the next start deletes the rest", async () => {
    h.store.begin();
    new CheckpointRemovalStore(h.store.db).begin({ job_id: "job1", name: "step-1" }, ["step-1"], 1);
    h.store.commit();
    rmSync(join(folderOf(), "step-1/deep"), { recursive: true });
    h = await h.restart();
    assemble();
    // Half of it is there, and it does not count.
    expect([has("step-1/a.bin"), has("step-1/deep")]).toEqual([true, false]);
    expect(await complete()).toEqual(["step-2"]);
    expect((await resumes.check({ job: "job1" })).name).toBe("step-2");
    removals.begin(() => undefined);
    await removals.settle();
    expect(has("step-1")).toBe(false);
    expect(new CheckpointRemovalStore(h.store.db).open()).toEqual([]);
  });

  it("whose deletion fails does not count any more, and svc retries", async () => {
    const rows = new CheckpointRemovalStore(h.store.db);
    rows.begin({ job_id: "job1", name: "step-1" }, ["step-1"], 1);
    // A symlink in the place of the node's folder stands for a disk that refuses changes: it does so for root, too.
    const aside = `${folderOf()}-aside`;
    renameSync(folderOf(), aside);
    symlinkSync(aside, folderOf());
    await removals.retry();
    await removals.retry();
    expect(reported).toEqual([
      expect.stringMatching(
        /^Removed checkpoints of the run job1 could not be deleted: .* still take disk space\. svc retries\.$/,
      ),
    ]);
    expect(rows.open()).toHaveLength(1);
    rmSync(folderOf());
    renameSync(aside, folderOf());
    await removals.retry();
    expect(rows.open()).toEqual([]);
    expect([has("step-1"), has("step-2")]).toEqual([false, true]);
  });

  it("is reported and retried later if the store cannot be read", async () => {
    h.store.db.exec("ALTER TABLE checkpoint_removal RENAME TO elsewhere");
    await removals.retry();
    expect(reported).toEqual([expect.stringContaining("no such table: checkpoint_removal")]);
    h.store.db.exec("ALTER TABLE elsewhere RENAME TO checkpoint_removal");
    await removals.retry();
    expect(reported).toHaveLength(1);
  });

  it("whose file may not be deleted is reported with the system's reason", { tags: "needs/mounts" }, async (ctx) => {
    const file = join(folderOf(), "step-1/a.bin");
    const isFixed = (flag: string): boolean => spawnSync("chattr", [flag, file]).status === 0;
    if (!isFixed("+i")) return ctx.skip("the file system has no immutable files");
    onTestFinished(() => void isFixed("-i"));
    expect((await remove("step-1")).left_bytes).toBeGreaterThan(0);
    expect(reported.join()).toMatch(/could not be deleted: EPERM: .*a\.bin'\. No run resumes from them/);
    expect(isFixed("-i")).toBe(true);
    await removals.retry();
    expect(has("step-1")).toBe(false);
    expect(readdirSync(join(folderOf(), ".svc-sets")).filter((name) => !name.endsWith(".json"))).toHaveLength(1);
  });

  it("on a disk that refuses changes is refused before anything is deleted", { tags: "needs/mounts" }, async () => {
    const mount = (...args: string[]) => expect(spawnSync("mount", args).stderr.toString()).toBe("");
    const folder = join(folderOf(), "step-1");
    mount("--bind", folder, folder);
    onTestFinished(() => void spawnSync("umount", [folder]));
    mount("-o", "remount,bind,ro", folder);
    expect(await refusal("step-2", "step-1")).toMatch(/the folder .* does not permit it \(EROFS\)/);
    expect(await complete()).toEqual(["step-1", "step-2"]);
  });
});

describe("a checkpoint that is in use", () => {
  const RESUMES = { spec: { resume_from: "job1" } };
  beforeEach(async () => {
    await h.create();
    await save(TWO);
  });

  it("of a run that has not ended stays", async () => {
    expect(await refusal("step-1")).toMatch(/^checkpoint_not_removable: .* the run has not ended\.$/);
  });

  it("stays while a live run would resume from it; others can go", async () => {
    await end();
    await h.create("job2", { spec: { resume_from: "job1", resume_checkpoint: "step-1" } });
    expect(await refusal("step-1")).toContain("the run job2, which has not ended, resumes from it");
    expect(await refusal("step-2", "step-1")).toContain("job2");
    expect(await refusal("step-2")).toBe("removed");
    await end("job2");
    expect(await refusal("step-1")).toBe("removed");
  });

  it("stays if it is the last one, and a live run resumes from the last one", async () => {
    await end();
    await h.create("job2", RESUMES);
    const last = (await resumes.check({ job: "job1" })).name;
    const other = last === "step-1" ? "step-2" : "step-1";
    expect(await refusal(last)).toContain("job2");
    expect(await refusal(other)).toBe("removed");
  });

  it("stays while a live run has its hard links, also through a run between them", async () => {
    await end();
    await h.create("job2", RESUMES);
    await end("job2");
    await h.create("job3", { spec: { resume_from: "job2" } });
    const received = await resumes.of("job3");
    expect(received?.job).toBe("job1");
    expect(await refusal(received?.name ?? "")).toContain("the run job3");
  });

  it("stays while a run is being submitted that resumes from the run", async () => {
    await end();
    const unclaim = claims.claim({ resume_from: "job1" });
    expect(await refusal("step-1")).toContain("a run that is being submitted resumes from this run");
    unclaim();
    expect(await refusal("step-1")).toBe("removed");
  });

  it("stays if a run that resumes from it begins between the check and the commit", async () => {
    await end();
    const sources = resumes.sources.bind(resumes);
    await h.create("job2", { spec: { resume_from: "job1", resume_checkpoint: "step-2" } });
    resumes.sources = async (id) => {
      if (h.store.job("job3") === undefined)
        await h.create("job3", { spec: { resume_from: "job1", resume_checkpoint: "step-1" } });
      return sources(id);
    };
    expect(await refusal("step-1")).toContain("the run job3");
    expect(await complete()).toEqual(["step-1", "step-2"]);
  });

  it("stays while a sink still copies it", async () => {
    await h.create("job4");
    await save(TWO, "job4");
    await end("job4");
    copying.set("job4", [{ path: "step-1/deep/b.bin", url: "s3://bucket/runs" }]);
    await expect(removals.remove("job4", { names: ["step-1"], dry_run: false })).rejects.toMatchObject({
      code: "checkpoint_not_removable",
      message: expect.stringContaining("its files are still being copied to s3://bucket/runs") as string,
    });
  });
});

it("A checkpoint of several nodes is removed on every node, and a node's folder alone is not", async () => {
  await h.create("job1", { nodes: 2 });
  await save(TWO, "job1", 2);
  await end();
  expect(await refusal("node1")).toMatch(/it is a part of the checkpoint step-[12]/);
  expect(await remove("step-1")).toMatchObject({ checkpoints: [{ files: 4 }] });
  expect([has("step-1"), has("node1/step-1"), has("node1/step-2/a.bin")]).toEqual([false, false, true]);
  expect(recorded()).toEqual(["node1/step-2/a.bin", "step-2/a.bin"]);
});
