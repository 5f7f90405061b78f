// Opens the store of a home, and alone decides whether a database may be written.
//
// D1. A store is never silently empty: a used home without its database, or with an empty file, is refused. On request it
//     gets a new one, for the same installation, whose machines are then found and ended.
// D2. A store written by a newer program is refused untouched.
// D3. Before a migration there is a copy in `backups/`.
// D4. Files are 600 in a home of 700, also -wal and -shm, whatever the umask.
// D5. One writer: the opener holds the home's lock (home-lock.ts); the epoch stops a writer that outlived it.

import Database from "better-sqlite3";
import { Kysely, SqliteDialect } from "kysely";
import { Migrator, type Migration } from "kysely/migration";
import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { entryOfOthers, homeObjection, makeHome } from "../platform/home.ts";
import { replaceFile } from "../platform/replace-file.ts";
import { isDiskFull, messageOf, SvcError, systemCode } from "../errors/index.ts";
import { migrations } from "./migrations.ts";
import { homeFolders, homeLayout } from "../platform/home-layout.ts";

export type Sqlite = Database.Database;

/** `PRAGMA user_version` of a store of this program. */
export const SCHEMA_VERSION = Object.keys(migrations).length;
const BACKUPS_KEPT = 10;
/** Twice the amount written between two checkpoints: the other half is the reserve for a full disk. */
const WAL_BYTES = 8 * 1024 * 1024;
/** Stores up to this size are checked completely at start; larger ones only in the tables that money depends on. */
const FULL_CHECK_BYTES = 32 * 1024 * 1024;

/** Creates the home if it is missing; refuses one that other users can write to. */
export function prepareHome(home: string): void {
  try {
    makeHome(home);
    const stat = statSync(home);
    const why = homeObjection(stat);
    if (why !== null) throw new SvcError("home_unusable", { home, why });
    if ((stat.mode & 0o077) !== 0) chmodSync(home, 0o700);
    const planted = entryOfOthers(home);
    if (planted !== null) throw new SvcError("home_unusable", { home, why: `holds ${planted} of another user` });
    const probe = join(home, `.probe-${process.pid}`);
    writeFileSync(probe, "", { mode: 0o600 });
    rmSync(probe);
    for (const folder of homeFolders(home)) mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (e) {
    if (e instanceof SvcError) throw e;
    const code = systemCode(e);
    if (isDiskFull(e)) throw new SvcError("disk_full", { path: home }, { cause: e });
    const why =
      code === "EEXIST" || code === "ENOTDIR"
        ? "is not a folder"
        : code === "EROFS"
          ? "is on a read-only file system"
          : code === "EACCES" || code === "EPERM"
            ? "may not be written by you"
            : `cannot be used (${messageOf(e)})`;
    throw new SvcError("home_unusable", { home, why }, { cause: e });
  }
}

export interface OpenedStore {
  db: Sqlite;
  epoch: number;
  installationId: string;
  file: string;
}

/**
 * Opens the store for writing and takes the next epoch. The caller holds the home's lock.
 * @throws `store_missing`, `store_corrupt`, `store_newer`, `disk_full`: the file is then unchanged.
 */
export async function openStore(
  home: string,
  options: {
    newInstallationId: string;
    now: number;
    synchronous?: "FULL" | "OFF";
    migrations?: Readonly<Record<string, Migration>>;
    /** Makes a new store for the installation of a used home that has lost its own. */
    newStore?: boolean;
  },
): Promise<OpenedStore> {
  const known = options.migrations ?? migrations;
  const latest = Object.keys(known).length;
  const file = homeLayout.store(home);
  const mark = homeLayout.installation(home);
  const used = existsSync(mark);
  if (!existsSync(file)) {
    if (used) mayBeginAgain(home, options.newStore === true);
  } else if (used && statSync(file).size === 0) {
    throw new SvcError("store_corrupt", { file, why: "the file is empty" });
  }
  if (existsSync(file)) judge(file, used, latest);
  const db = openFile(file);
  try {
    const version = db.pragma("user_version", { simple: true }) as number;
    db.pragma("journal_mode = WAL");
    db.pragma(`synchronous = ${options.synchronous ?? "FULL"}`);
    if (process.platform === "darwin") db.pragma("fullfsync = 1");
    db.pragma("temp_store = MEMORY");
    db.pragma("cache_size = -16000");
    db.pragma("wal_autocheckpoint = 1000");
    if (version < latest) await migrate(db, home, version, known);
    tightenModes(file);
    const row = db
      .prepare(
        `UPDATE fence SET epoch = epoch + 1, pid = ?, host = ?, started_at = ?,
         installation_id = CASE installation_id WHEN '' THEN ? ELSE installation_id END RETURNING epoch, installation_id`,
      )
      .get(process.pid, hostname(), options.now, installationFrom(mark) ?? options.newInstallationId) as {
      epoch: number;
      installation_id: string;
    };
    if (version < latest) foldLog(db);
    if (!used)
      replaceFile(
        mark,
        JSON.stringify({ installation_id: row.installation_id, created_at: new Date(options.now).toISOString() }),
      );
    if (options.synchronous !== "OFF") growWal(`${file}-wal`);
    return { db, epoch: row.epoch, installationId: row.installation_id, file };
  } catch (e) {
    db.close();
    throw asStoreError(e, file);
  }
}

/** Throws unless a used home without a store may get a new one: nothing of the old one is left, and its installation is known. */
function mayBeginAgain(home: string, isRequested: boolean): void {
  const file = homeLayout.store(home);
  if (!isRequested || ["-wal", "-shm"].some((suffix) => existsSync(file + suffix)))
    throw new SvcError("store_missing", { file });
  if (installationFrom(homeLayout.installation(home)) !== null) return;
  const why =
    "has an `installation.json` without an installation: a new store would not find the machines of the old one";
  throw new SvcError("home_unusable", { home, why });
}

/**
 * Copies the write-ahead log into the file, so that its loss costs neither the tables nor the installation. The log keeps
 * its size, which is room on a full disk.
 */
function foldLog(db: Sqlite): void {
  try {
    db.pragma("wal_checkpoint(FULL)");
  } catch (e) {
    if (!isDiskFull(e)) throw e;
  }
}

/**
 * Whether the file may be written, decided without writing: a writable connection would fold the write-ahead log into a
 * store that is then refused.
 */
function judge(file: string, used: boolean, latest: number): void {
  let db: Sqlite | null = null;
  try {
    db = openToJudge(file);
    const version = db.pragma("user_version", { simple: true }) as number;
    if (version > latest) throw new SvcError("store_newer", { file });
    if (version === 0 && !used) return;
    if (version > 0) checkIntegrity(db, file);
    const fences = db.prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'fence'").pluck().get();
    if (fences !== 1) throw new SvcError("store_corrupt", { file, why: "it does not hold the tables of a store" });
  } catch (e) {
    throw asStoreError(e, file);
  } finally {
    db?.close();
  }
}

/**
 * A process that was killed while it created the file leaves a journal that only a writable connection rolls back. A
 * store that was ever complete has a write-ahead log instead, so such a file cannot hold anything that is owed.
 */
function openToJudge(file: string): Sqlite {
  const open = (): Sqlite => new Database(file, { readonly: true, timeout: 5_000 });
  const db = open();
  try {
    db.pragma("user_version");
    return db;
  } catch (e) {
    db.close();
    if ((e as { code?: unknown }).code !== "SQLITE_READONLY_ROLLBACK") throw e;
  }
  const writing = openFile(file);
  try {
    writing.pragma("user_version");
  } finally {
    writing.close();
  }
  return open();
}

function openFile(file: string): Sqlite {
  try {
    const db = new Database(file, { timeout: 5_000 });
    chmodSync(file, 0o600);
    return db;
  } catch (e) {
    throw asStoreError(e, file);
  }
}

/** Translates SQLite's codes to svc's errors. Unrelated errors pass unchanged. */
export function asStoreError(e: unknown, file: string): unknown {
  const code = (e as { code?: unknown } | null)?.code;
  if (e instanceof SvcError || typeof code !== "string") return e;
  if (isDiskFull(e)) return new SvcError("disk_full", { path: file }, { cause: e });
  if (code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB")
    return new SvcError("store_corrupt", { file, why: messageOf(e) }, { cause: e });
  if (
    code.startsWith("SQLITE_READONLY") ||
    code.startsWith("SQLITE_CANTOPEN") ||
    code.startsWith("SQLITE_PERM") ||
    code === "EACCES" ||
    code === "EROFS"
  ) {
    return new SvcError("home_unusable", { home: file, why: `cannot be written (${messageOf(e)})` }, { cause: e });
  }
  // Its other codes report failed reads and writes, lack of memory, and locks held too long.
  if (/^SQLITE_(IOERR|NOMEM|BUSY|LOCKED|PROTOCOL)/.test(code))
    return new SvcError("store_failing", { file, why: `${code}: ${messageOf(e)}` }, { cause: e });
  return e;
}

function installationFrom(mark: string): string | null {
  try {
    const id = (JSON.parse(readFileSync(mark, "utf8")) as { installation_id?: unknown }).installation_id;
    return typeof id === "string" && /^[a-z0-9]{8,32}$/.test(id) ? id : null;
  } catch {
    return null;
  }
}

function checkIntegrity(db: Sqlite, file: string): void {
  const checks = statSync(file).size <= FULL_CHECK_BYTES ? [""] : ["(job)", "(machine)", "(effect)", "(timer)"];
  for (const what of checks) {
    const found = db.pragma(`quick_check${what}`, { simple: true }) as string;
    if (found !== "ok") throw new SvcError("store_corrupt", { file, why: found.split("\n")[0] ?? found });
  }
}

async function migrate(
  db: Sqlite,
  home: string,
  from: number,
  known: Readonly<Record<string, Migration>>,
): Promise<void> {
  if (from > 0) await backUp(db, home, from);
  // `destroy` would close our connection, so it is not called.
  const kysely = new Kysely<unknown>({ dialect: new SqliteDialect({ database: db }) });
  const migrator = new Migrator({ db: kysely, provider: { getMigrations: () => Promise.resolve(known) } });
  // The migrator assumes that SQLite cannot roll back DDL, and opens no transaction. SQLite can, so this code does: all
  // or nothing.
  db.exec("BEGIN IMMEDIATE");
  try {
    const { error } = await migrator.migrateToLatest();
    if (error) throw error;
    db.pragma(`user_version = ${Object.keys(known).length}`);
    db.exec("COMMIT");
  } catch (e) {
    if (db.inTransaction) db.exec("ROLLBACK");
    throw e;
  }
}

/** A backup that is complete or absent. */
async function backUp(db: Sqlite, home: string, version: number): Promise<void> {
  const folder = homeLayout.backups(home);
  const copy = join(folder, `svc-schema${version}-${new Date().toISOString().replaceAll(/[:.]/g, "-")}.db`);
  try {
    await db.backup(copy);
    chmodSync(copy, 0o600);
  } catch (e) {
    for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(copy + suffix, { force: true });
    throw e;
  }
  // By their dates: as text, schema 9 comes after schema 15.
  const dateOf = (name: string): string => name.replace(/^svc-schema\d+-/, "");
  const old = readdirSync(folder)
    .filter((f) => f.startsWith("svc-schema"))
    .toSorted((a, b) => (dateOf(a) < dateOf(b) ? -1 : 1));
  for (const name of old.slice(0, -BACKUPS_KEPT)) rmSync(join(folder, name), { force: true });
}

/**
 * Extends the write-ahead log in advance. SQLite never shrinks it and overwrites the bytes after its last frame, so a
 * full disk still has room for some thousand commits: a kill is accepted and a machine is released even while a
 * script's output takes every byte that becomes free.
 */
function growWal(wal: string): void {
  const fd = openSync(wal, "r+");
  try {
    const zeros = Buffer.alloc(256 * 1024);
    for (let at = fstatSync(fd).size; at < WAL_BYTES;)
      at += writeSync(fd, zeros, 0, Math.min(zeros.length, WAL_BYTES - at), at);
    fsyncSync(fd);
  } catch (e) {
    // A start on a full disk uses the log at its current size.
    if (!isDiskFull(e)) throw e;
  } finally {
    closeSync(fd);
  }
}

function tightenModes(file: string): void {
  for (const suffix of ["", "-wal", "-shm"]) if (existsSync(file + suffix)) chmodSync(file + suffix, 0o600);
}
