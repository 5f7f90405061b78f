// Writes the limits of a home and the runs that wait for them. Called within a transaction, except for `all`.

import type { LimitReason } from "../domain/limits.ts";
import type { LimitName } from "../schemas/limit-names.ts";
import type { Sqlite } from "./database.ts";
import { columns, p, prepare, q } from "./statements.ts";
import type { All } from "./tables.ts";

export class LimitStore {
  readonly #s;
  /** For the reads of limit-reads.ts. Statements are prepared once. */
  readonly all: All;

  constructor(db: Sqlite) {
    const reads = new Map<string, ReturnType<Sqlite["prepare"]>>();
    this.all = <Row>(text: string, ...args: unknown[]): Row[] => {
      const statement = reads.get(text) ?? db.prepare(text);
      reads.set(text, statement);
      return statement.all(...args) as Row[];
    };
    this.#s = {
      set: prepare(db, q.replaceInto("home_limit").values(columns("name", "value"))),
      clear: prepare(db, q.deleteFrom("home_limit").where("name", "=", p("name"))),
      enter: prepare(db, q.insertInto("limit_wait").values(columns("job_id", "passes", "reason"))),
      change: prepare(
        db,
        q.updateTable("limit_wait").set(columns("passes", "reason")).where("job_id", "=", p("job_id")),
      ),
      leave: prepare(db, q.deleteFrom("limit_wait").where("job_id", "=", p("job_id"))),
    };
  }

  /** @param value null removes the limit. */
  set(name: LimitName, value: number | null): void {
    if (value === null) this.#s.clear.run({ name });
    else this.#s.set.run({ name, value });
  }
  enter(jobId: string, reason: LimitReason): void {
    this.#s.enter.run({ job_id: jobId, passes: 0, reason: JSON.stringify(reason) });
  }
  change(jobId: string, passes: number, reason: LimitReason): void {
    this.#s.change.run({ job_id: jobId, passes, reason: JSON.stringify(reason) });
  }
  leave(jobId: string): void {
    this.#s.leave.run({ job_id: jobId });
  }
}
