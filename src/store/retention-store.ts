// Writes the retention rule of a home and what is known about its time, and archives runs. Called within a transaction, except for reads.

import type { SeenTime } from "../domain/retention-time.ts";
import type { RetentionRule } from "../schemas/retention.ts";
import type { Sqlite } from "./database.ts";
import { columns, p, prepare, q } from "./statements.ts";

/** A removal by the rule that no notice reports yet. */
export interface Untold {
  job_id: string;
  label: string | null;
  bytes: number | null;
}

export class RetentionStore {
  readonly #s;

  constructor(db: Sqlite) {
    this.#s = {
      set: prepare(
        db,
        q.replaceInto("retention").values(columns("one", "rule", "set_at", "seen_at", "looked_at", "gaps")),
      ),
      clear: prepare(db, q.deleteFrom("retention")),
      seen: prepare(db, q.updateTable("retention").set(columns("seen_at", "gaps", "looked_at"))),
      archive: prepare(db, q.updateTable("job").set(columns("archived_at")).where("id", "=", p("id"))),
      untold: prepare<Untold>(
        db,
        q
          .selectFrom("removal")
          .select(["job_id", "label", "bytes"])
          .where("rule", "is not", null)
          .where("told", "=", p("told"))
          .orderBy("begun_at"),
      ),
      told: prepare(db, q.updateTable("removal").set(columns("told")).where("job_id", "=", p("job_id"))),
    };
  }

  /** A rule that is saved trusts the clock of this moment. */
  set(rule: RetentionRule | null, { at, now, looked_at }: { at: number; now: number; looked_at: number | null }): void {
    if (rule === null) this.#s.clear.run({});
    else this.#s.set.run({ one: 1, rule: JSON.stringify(rule), set_at: at, seen_at: now, looked_at, gaps: "[]" });
  }
  seen({ seen_at, gaps }: SeenTime, looked_at: number | null): void {
    this.#s.seen.run({ seen_at, gaps: JSON.stringify(gaps), looked_at });
  }
  archive(id: string, archived_at: number | null): void {
    this.#s.archive.run({ id, archived_at });
  }
  untold(): Untold[] {
    return this.#s.untold.all({ told: 0 });
  }
  told(jobId: string): void {
    this.#s.told.run({ job_id: jobId, told: 1 });
  }
}
