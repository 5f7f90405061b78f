// The rules for opening a home: what is refused untouched, the modes of its files, and one writer. test/process/damaged-home.test.ts has
// whole processes.

import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { homeLayout } from "../../src/platform/home-layout.ts";
import { openStore, prepareHome, SCHEMA_VERSION } from "../../src/store/database.ts";
import { HomeLock } from "../../src/store/home-lock.ts";

let root: string;
let home: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "svc-database-"));
  home = join(root, "home");
  prepareHome(home);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const opened = () => openStore(home, { newInstallationId: "abcdefgh12345678", now: 1_700_000_000_000 });
/** A copy does not know later machines, and a reconcile ends them. */
const saysDryRunFirst = expect.stringContaining("`svc reconcile --dry-run` before anything else");
const modeOf = (path: string): number => statSync(path).mode & 0o777;

it("A used home without its database is refused, and gets no new one", async () => {
  (await opened()).db.close();
  const file = homeLayout.store(home);
  for (const suffix of ["", "-wal", "-shm"]) rmSync(file + suffix, { force: true });
  await expect(opened()).rejects.toMatchObject({ code: "store_missing", hint: saysDryRunFirst });
  expect(() => statSync(file)).toThrow("ENOENT");
});

it("A used home with an empty database is refused, and the file stays empty", async () => {
  (await opened()).db.close();
  const file = homeLayout.store(home);
  for (const suffix of ["-wal", "-shm"]) rmSync(file + suffix, { force: true });
  writeFileSync(file, "");
  await expect(opened()).rejects.toMatchObject({ code: "store_corrupt", hint: saysDryRunFirst });
  expect(statSync(file).size).toBe(0);
});

it("A used home without its database gets a new one on request, for its installation, if nothing of the old one is left", async () => {
  const again = () =>
    openStore(home, { newInstallationId: "zzzzzzzz12345678", now: 1_700_000_000_000, newStore: true });
  (await opened()).db.close();
  const file = homeLayout.store(home);
  rmSync(file);
  writeFileSync(`${file}-wal`, "what is left of the old one");
  await expect(again()).rejects.toMatchObject({ code: "store_missing" });
  expect(readFileSync(`${file}-wal`, "utf8")).toBe("what is left of the old one");
  rmSync(`${file}-wal`);
  const mark = readFileSync(homeLayout.installation(home));
  writeFileSync(homeLayout.installation(home), "{}");
  await expect(again()).rejects.toMatchObject({ code: "home_unusable" });
  writeFileSync(homeLayout.installation(home), mark);
  const { db, installationId } = await again();
  db.close();
  expect(installationId).toBe("abcdefgh12345678");
});

it("A new store has its tables and its installation in its file, not only in its log", async () => {
  const { db, file } = await opened();
  const alone = join(root, "alone.db");
  copyFileSync(file, alone);
  db.close();
  const copy = new Database(alone);
  expect(copy.pragma("user_version", { simple: true })).toBe(SCHEMA_VERSION);
  expect(copy.prepare("SELECT installation_id FROM fence").pluck().get()).toBe("abcdefgh12345678");
  copy.close();
});

it("A store of a newer program is refused, and not one byte of it changes", async () => {
  const { db, file } = await opened();
  db.pragma(`user_version = ${SCHEMA_VERSION + 1}`);
  db.close();
  const before = readFileSync(file);
  await expect(opened()).rejects.toMatchObject({ code: "store_newer" });
  expect(readFileSync(file).equals(before)).toBe(true);
});

it("Files of the store are private under any umask, also when they were not", async () => {
  const umask = process.umask(0);
  try {
    const first = await opened();
    const files = ["", "-wal", "-shm"].map((suffix) => first.file + suffix);
    expect(files.map(modeOf)).toEqual([0o600, 0o600, 0o600]);
    for (const file of files) chmodSync(file, 0o644);
    const second = await opened();
    expect(files.map(modeOf)).toEqual([0o600, 0o600, 0o600]);
    second.db.close();
    first.db.close();
  } finally {
    process.umask(umask);
  }
});

it("A home that others can read becomes private", () => {
  chmodSync(home, 0o755);
  prepareHome(home);
  expect(modeOf(home)).toBe(0o700);
});

it("A home has one holder, which another one is told, until it lets go", () => {
  const holder = (pid: number) => ({ pid, command: "svc serve", started_at: "2030-01-01T00:00:00Z", url: null });
  const take = (pid: number): HomeLock => {
    const lock = HomeLock.take(home);
    lock.announce(holder(pid));
    return lock;
  };
  const first = take(11);
  expect(() => take(22)).toThrow(/process 11 \(svc serve\)/);
  first.release();
  const second = take(22);
  expect(() => take(33)).toThrow(/process 22/);
  second.release();
});

it("A home without room for its lock is a full disk, and no other holder is named", () => {
  const exec = vi.spyOn(Database.prototype, "exec").mockImplementation(() => {
    throw new Database.SqliteError("database or disk is full", "SQLITE_FULL");
  });
  try {
    expect(() => HomeLock.take(home)).toThrow(expect.objectContaining({ code: "disk_full" }));
  } finally {
    exec.mockRestore();
  }
});
