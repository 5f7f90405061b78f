import Database from "better-sqlite3";
import { chmodSync } from "node:fs";
import { messageOf, SvcError } from "../errors/index.ts";

const WAIT_MS_MAX = 10_000;

/**
 * Runs `work` while no other process that asks for the same `file` runs its own. The kernel releases the lock when the
 * process ends, for any reason. `work` must not wait for anything, because others wait for it.
 * @throws `home_unusable` if the lock cannot be taken.
 */
export function exclusively<T>(file: string, work: () => T): T {
  let db: Database.Database | null = null;
  try {
    db = new Database(file, { timeout: WAIT_MS_MAX });
    chmodSync(file, 0o600);
    db.exec("BEGIN EXCLUSIVE");
  } catch (e) {
    db?.close();
    const why = `cannot be locked (${messageOf(e)})`;
    throw new SvcError("home_unusable", { home: file, why }, { cause: e });
  }
  try {
    return work();
  } finally {
    db.close();
  }
}
