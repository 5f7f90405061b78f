// The rules for opening a store: a copy before every migration, a migration completely or not at all, one epoch per
// opening.

import Database from "better-sqlite3";
import { sql, type Kysely } from "kysely";
import type { Migration } from "kysely/migration";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openStore, prepareHome, SCHEMA_VERSION } from "../../src/store/database.ts";
import { migrations } from "../../src/store/migrations.ts";
import { openReads } from "../../src/store/open-reads.ts";

let root: string;
let home: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "svc-store-"));
  home = join(root, "home");
  prepareHome(home);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const opened = (known?: Record<string, Migration>) =>
  openStore(home, {
    newInstallationId: "abcdefgh12345678",
    now: 1_700_000_000_000,
    ...(known ? { migrations: known } : {}),
  });
const next = `${String(SCHEMA_VERSION + 1).padStart(4, "0")}-the-next`;
const adds: Migration = {
  up: async (db: Kysely<unknown>) => void (await sql.raw("CREATE TABLE novelty (a INTEGER) STRICT").execute(db)),
};
const fails: Migration = {
  up: async (db: Kysely<unknown>) => {
    await sql.raw("CREATE TABLE half (a INTEGER) STRICT").execute(db);
    await sql.raw("INSERT INTO nowhere VALUES (1)").execute(db);
  },
};
const look = <T>(file: string, read: (db: Database.Database) => T): T => {
  const db = new Database(file, { readonly: true });
  try {
    return read(db);
  } finally {
    db.close();
  }
};
const tables = (db: Database.Database): unknown[] =>
  db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").pluck().all();

it("This program's reading commands can read its store", async () => {
  (await opened()).db.close();
  const reads = openReads(home);
  expect(reads.latestSeq()).toBe(0);
  reads.close();
});

it("A start continues where an earlier one was killed while it made the file", async () => {
  const file = join(home, "svc.db");
  const making = new Database(join(root, "making.db"));
  // More pages than its memory may hold: some are already in the file, and the journal describes how to undo them.
  making.pragma("cache_size = 1");
  making.exec(
    "BEGIN; CREATE TABLE half (a); INSERT INTO half SELECT zeroblob(4000) FROM json_each('[1,2,3,4,5,6,7,8]')",
  );
  for (const part of ["", "-journal"]) copyFileSync(join(root, `making.db${part}`), `${file}${part}`);
  making.close();
  expect(() => look(file, tables)).toThrow(expect.objectContaining({ code: "SQLITE_READONLY_ROLLBACK" }));
  const store = await opened();
  expect(store.epoch).toBe(1);
  store.db.close();
  expect(look(file, tables)).not.toContain("half");
});

it("A new store, and one that needs no migration, are not copied", async () => {
  (await opened()).db.close();
  const again = await opened();
  expect(again.epoch).toBe(2);
  again.db.close();
  expect(readdirSync(join(home, "backups"))).toEqual([]);
});

it("The store is copied before it migrates, private to its owner", async () => {
  const old = await opened();
  old.db.prepare("INSERT INTO feed (job_id, at, type, data) VALUES (NULL, 1, 'kept', '{}')").run();
  old.db.close();
  const now = await opened({ ...migrations, [next]: adds });
  expect(now.db.pragma("user_version", { simple: true })).toBe(SCHEMA_VERSION + 1);
  expect(tables(now.db)).toContain("novelty");
  expect(now.db.prepare("SELECT count(*) FROM feed").pluck().get()).toBe(1);
  expect(now.installationId).toBe(old.installationId);
  now.db.close();
  const [copy, ...more] = readdirSync(join(home, "backups"));
  expect(more).toEqual([]);
  const path = join(home, "backups", copy as string);
  expect(copy).toContain(`schema${SCHEMA_VERSION}`);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  look(path, (db) => {
    expect(db.pragma("user_version", { simple: true })).toBe(SCHEMA_VERSION);
    expect(db.pragma("quick_check", { simple: true })).toBe("ok");
    expect(db.prepare("SELECT type FROM feed").pluck().all()).toEqual(["kept"]);
    expect(tables(db)).not.toContain("novelty");
  });
  // The program that wrote the old store refuses the new one.
  await expect(opened()).rejects.toMatchObject({ code: "store_newer" });
});

it("a failed migration leaves the store unchanged, and keeps the copy", async () => {
  const old = await opened();
  const before = tables(old.db);
  old.db.close();
  await expect(opened({ ...migrations, [next]: fails })).rejects.toThrow("nowhere");
  look(join(home, "svc.db"), (db) => {
    expect(tables(db)).toEqual(before);
    expect(db.pragma("user_version", { simple: true })).toBe(SCHEMA_VERSION);
  });
  expect(readdirSync(join(home, "backups"))).toHaveLength(1);
  const again = await opened();
  expect(again.epoch).toBe(2);
  again.db.close();
});

it("The store keeps the last ten copies", async () => {
  (await opened()).db.close();
  // As text, its name comes after all others.
  mkdirSync(join(home, "backups"), { recursive: true });
  writeFileSync(join(home, "backups", "svc-schema9-2020-01-01T00-00-00-000Z.db"), "");
  for (let i = 0; i < 12; i++) {
    await expect(opened({ ...migrations, [next]: fails })).rejects.toThrow("nowhere");
    await new Promise((r) => setTimeout(r, 2));
  }
  const kept = readdirSync(join(home, "backups"));
  expect([kept.length, kept.filter((name) => name.includes("2020"))]).toEqual([10, []]);
});

it("a store whose first start was killed between its tables and its mark opens as the same installation", async () => {
  const first = await opened();
  first.db.close();
  rmSync(join(home, "installation.json"));
  const second = await openStore(home, { newInstallationId: "zzzzzzzz12345678", now: 1 });
  expect(second.installationId).toBe(first.installationId);
  second.db.close();
});

it("The checkpoint files of an older store have the placement that was open when they were saved", async () => {
  const before = Object.fromEntries(Object.entries(migrations).filter(([name]) => name < "0016"));
  const old = await opened(before);
  const placement = old.db.prepare(
    "INSERT INTO placement (job_id, n, candidate, seq, provider, gpus, spot, opened_at) VALUES (?, ?, 0, 1, 'local', '1', 'never', ?)",
  );
  for (const [n, at] of [100, 200, 300].entries()) placement.run("job1", n + 1, at);
  placement.run("job2", 1, 50);
  const file = old.db.prepare(
    "INSERT INTO checkpoint (job_id, path, size, modified_at, saved_at) VALUES (?, ?, 1, 1, ?)",
  );
  for (const [job, path, at] of [
    ["job1", "a", 150],
    ["job1", "b", 250],
    ["job1", "c", 300],
    ["job2", "d", 999],
    ["job3", "e", 1],
  ])
    file.run(job, path, at);
  old.db.close();
  const now = await opened();
  expect(now.db.prepare("SELECT path, placement FROM checkpoint ORDER BY path").raw().all()).toEqual([
    ["a", 1],
    ["b", 2],
    ["c", 3],
    ["d", 1],
    ["e", 1],
  ]);
  now.db.close();
});
