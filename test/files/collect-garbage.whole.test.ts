// The code store deletes contents that no run uses; it keeps those that a run or a running submission needs.

import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { blobPath } from "../../src/files/code/contents.ts";
import { createSnapshot, readSnapshot, restoreSnapshot } from "../../src/files/code/code-snapshot.ts";
import { collectGarbage, holdCode } from "../../src/files/code/collect-garbage.ts";

let top: string;
let project: string;
let codeDir: string;
beforeEach(async () => {
  top = await realpath(await mkdtemp(join(tmpdir(), "svc-garbage-")));
  project = join(top, "project");
  codeDir = join(top, "home", "code");
  await mkdir(project);
  await mkdir(codeDir, { recursive: true });
});
afterEach(() => rm(top, { recursive: true, force: true }));

async function snapshotOf(files: Record<string, string>, hold?: ReturnType<typeof holdCode>) {
  await rm(project, { recursive: true, force: true });
  await mkdir(project);
  for (const [name, text] of Object.entries(files)) await writeFile(join(project, name), text);
  return createSnapshot({ projectDir: project, codeDir, now: 0, ...(hold ? { hold } : {}) });
}
const blobs = () =>
  readdirSync(join(codeDir, "blobs"), { recursive: true, encoding: "utf8" }).filter((name) => name.includes("/"));

it("A collection deletes contents that only removed runs used and keeps those that another run shares", async () => {
  const first = await snapshotOf({ "a.py": "shared", "b.py": "only the first" });
  const second = await snapshotOf({ "a.py": "shared", "c.py": "only the second" });
  const inUse = () => [second.id];
  expect(await collectGarbage({ codeDir, inUse, deleteNow: false })).toMatchObject({ snapshots: 1, blobs: 1 });
  expect(blobs()).toHaveLength(3);
  expect(await collectGarbage({ codeDir, inUse })).toEqual({ snapshots: 1, blobs: 1, bytes: 14, kept: null });
  expect(await readSnapshot({ codeDir, id: first.id })).toBeNull();
  await restoreSnapshot({ codeDir, id: second.id, target: join(top, "target") });
  expect(await collectGarbage({ codeDir, inUse })).toEqual({ snapshots: 0, blobs: 0, bytes: 0, kept: null });
  await collectGarbage({ codeDir, inUse: () => [] });
  expect(blobs()).toEqual([]);
});

it("A collection leaves a submission's held contents alone, from its first write until its row is committed", async () => {
  const hold = holdCode(codeDir);
  const { id } = await snapshotOf({ "a.py": "held" }, hold);
  await collectGarbage({ codeDir, inUse: () => [] });
  expect(blobs()).toHaveLength(1);
  hold.release();
  await collectGarbage({ codeDir, inUse: () => [id] });
  expect(blobs()).toHaveLength(1);
});

it("A content that a submission finds outlives a collection that began before", async () => {
  // Many contents, so that other work runs during the collection: rows are added and holds are released meanwhile.
  const old = Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`f${i}`, `content ${i}`]));
  await snapshotOf(old);
  const rows: string[] = [];
  const state = { over: false };
  const collecting = collectGarbage({ codeDir, inUse: () => [...rows] }).finally(() => (state.over = true));
  for (let round = 0; !state.over || round < 3; round++) {
    const hold = holdCode(codeDir);
    const { id } = await createSnapshot({ projectDir: project, codeDir, now: 0, hold });
    rows.push(id);
    hold.release();
  }
  await collecting;
  await restoreSnapshot({ codeDir, id: rows.at(-1)!, target: join(top, "target") });
  for (const id of rows) expect(await readSnapshot({ codeDir, id })).not.toBeNull();
});

it("A content that was held at any time since a collection began stays", async () => {
  const { id, files } = await snapshotOf({ "a.py": "held for a moment" });
  const collecting = collectGarbage({ codeDir, inUse: () => [] });
  const hold = holdCode(codeDir);
  hold.add(id);
  hold.add(files[0]!.sha256 ?? "");
  hold.release();
  expect(await collecting).toMatchObject({ snapshots: 0, blobs: 0 });
  await restoreSnapshot({ codeDir, id, target: join(top, "target") });
});

it("A content that exists when its hold is taken stays, even if it is the next one to be deleted", async () => {
  await snapshotOf(Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`f${i}`, `content ${i}`])));
  const state = { over: false };
  const collecting = collectGarbage({ codeDir, inUse: () => [] }).finally(() => (state.over = true));
  const hold = holdCode(codeDir);
  const held = new Set<string>();
  for (let turn = 0; !state.over; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    const next = blobs().find((name) => !held.has(name));
    if (next === undefined || turn % 2 === 1) continue;
    hold.add(next.slice(next.indexOf("/") + 1));
    held.add(next);
  }
  await collecting;
  hold.release();
  expect(held.size).toBeGreaterThan(0);
  expect(new Set(blobs())).toEqual(held);
});

it("A manifest of a run that cannot be read keeps every content, and the collection says so", async () => {
  const { id, files } = await snapshotOf({ "a.py": "x" });
  await writeFile(join(codeDir, "snapshots", `${id}.json`), "{ torn");
  const told = await collectGarbage({ codeDir, inUse: () => [id] });
  expect(told.kept).toContain(id);
  expect(existsSync(blobPath(codeDir, files[0]!.sha256 ?? ""))).toBe(true);
});
