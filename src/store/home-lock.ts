// Enforces one control plane per home: the kernel holds the lock as long as the process lives, and a file next to it
// names the holder.

import Database from "better-sqlite3";
import { chmodSync, readFileSync, rmSync } from "node:fs";
import { replaceOutdated } from "../platform/replace-file.ts";
import { isDiskFull, messageOf, SvcError } from "../errors/index.ts";
import { homeLayout } from "../platform/home-layout.ts";

export interface Holder {
  pid: number;
  command: string;
  started_at: string;
  url: string | null;
}

/** The lock of a home. The kernel frees it when the process ends, for any reason. */
export class HomeLock {
  readonly #db: Database.Database;
  readonly #file: string;

  private constructor(db: Database.Database, file: string) {
    this.#db = db;
    this.#file = file;
  }

  /** Announce the holder next. @throws `home_locked`, naming the holder. Changes nothing in that case. */
  static take(home: string): HomeLock {
    const path = homeLayout.lock(home);
    let db: Database.Database | null = null;
    try {
      db = new Database(path, { timeout: 0 });
      chmodSync(path, 0o600);
      db.pragma("journal_mode = DELETE");
      db.exec("BEGIN EXCLUSIVE");
      return new HomeLock(db, homeLayout.lockHolder(home));
    } catch (e) {
      db?.close();
      const code = (e as { code?: string }).code ?? "";
      if (code.startsWith("SQLITE_BUSY"))
        throw new SvcError("home_locked", { home, holder: describeHolder(readHolder(home)) }, { cause: e });
      if (isDiskFull(e)) throw new SvcError("disk_full", { path: home }, { cause: e });
      throw new SvcError(
        "home_unusable",
        { home, why: `cannot be locked by its file lock.db (${messageOf(e)})` },
        { cause: e },
      );
    }
  }

  /**
   * Records the holder of the home and its address for other processes. False if the disk has no room for that: the lock
   * holds all the same, and others learn that it is taken, but not by whom.
   */
  announce(holder: Holder): boolean {
    return replaceOutdated(this.#file, JSON.stringify(holder));
  }

  release(): void {
    rmSync(this.#file, { force: true });
    this.#db.exec("ROLLBACK");
    this.#db.close();
  }
}

function readHolder(home: string): Holder | null {
  try {
    return JSON.parse(readFileSync(homeLayout.lockHolder(home), "utf8")) as Holder;
  } catch {
    return null;
  }
}

function describeHolder(holder: Holder | null): string {
  return holder
    ? `process ${holder.pid} (${holder.command})${holder.url ? ` at ${holder.url}` : ""}, since ${holder.started_at}`
    : "a process that has not said its name yet";
}
