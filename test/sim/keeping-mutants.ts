// Deliberate defects in what svc keeps on this computer: the lock of a home, the reserve for a full disk, removed runs and old snapshots. Each is
// named by what it breaks, with the rule of its head where that has rules, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const lock = single("home lock:", "src/store/home-lock.ts", ["test/store/database.test.ts"]);
const reserve = single("disk reserve:", "src/store/disk-reserve.ts", ["test/store/disk-reserve.test.ts"]);
const service = single("disk reserve:", "src/engine/service.ts", [
  "test/engine/service.test.ts > works even while the disk",
]);
const rows = single("removals", "src/store/removal-store.ts", ["test/engine/removals.test.ts"]);
const versions = single("versions", "src/machines/versions.ts", ["test/machines/versions.test.ts"]);

export const KEEPING_MUTANTS: readonly TestedMutant[] = [
  lock("two control planes hold one home", 'db.exec("BEGIN EXCLUSIVE");\n      return', "return"),
  lock(
    "the holder is not named",
    "return replaceOutdated(this.#file, JSON.stringify(holder));",
    "return holder.pid > 0;",
  ),
  lock("a home that was let go stays locked", 'this.#db.exec("ROLLBACK");\n    this.#db.close();', ""),
  lock(
    "a home without room is reported as locked",
    'if (code.startsWith("SQLITE_BUSY"))',
    'if (code.startsWith("SQLITE_"))',
  ),
  service("it is kept while a run is killed on a full disk", "this.#o.reserve.spendIfFull();", "void this.#o.reserve;"),
  reserve("it takes no space", "for (let at = 0; at < RESERVE_BYTES;) at += writeSync(fd, block);", "void block;"),
  reserve(
    "it is taken while there is room",
    "if (this.#free < FULL_BYTES) this.spend();",
    "if (this.#free >= 0) this.spend();",
  ),
  reserve("it is not given up", "rmSync(this.#file, { force: true });", "void this.#file;"),
  rows("RM2: a removed run stays in the lists", 'this.#db.prepare("DELETE FROM job WHERE id = ?").run(jobId);', ""),
  versions(
    "V1: a snapshot of an unknown state loads",
    'if (typeof shape?.value !== "string" || !STATES.has(shape.value))',
    'if (typeof shape?.value !== "string")',
  ),
];
