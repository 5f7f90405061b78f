// Finds out whether the computer's clock was set back since the store was last written, and moves the instants of everything that is still
// open. The engine's recovery calls it; writes happen within its transaction.

import { sql } from "kysely";
import type { Sqlite } from "./database.ts";
import { lit, p, prepare, q } from "./statements.ts";

/** A search stores the time of its next attempt, at most this far away. Another step may wait longer, so its wait proves less. */
const LOOK_MS_MAX = 60_000;

export class ClockStore {
  readonly #s;

  constructor(db: Sqlite) {
    const open = q
      .selectFrom("effect")
      .select("id")
      .where("state", "in", [lit("running"), lit("retrying")]);
    const by = p("by");
    this.#s = {
      written: prepare<{ at: number | null }>(db, q.selectFrom("feed").select("at").orderBy("seq", "desc").limit(1)),
      waited: prepare<{ at: number | null }>(
        db,
        q
          .selectFrom("effect")
          .select(sql<number | null>`max(next_at) - ${sql.lit(LOOK_MS_MAX)}`.as("at"))
          .where("step", "=", lit("place"))
          .where("state", "=", lit("retrying")),
      ),
      timers: prepare(
        db,
        q.updateTable("timer").set((e) => ({ due: e("due", "-", by) })),
      ),
      attempts: prepare(
        db,
        q
          .updateTable("attempt")
          .set((e) => ({ started_at: e("started_at", "-", by), ended_at: e("ended_at", "-", by) }))
          .where("effect_id", "in", open),
      ),
      effects: prepare(
        db,
        q
          .updateTable("effect")
          .set((e) => ({ first_at: e("first_at", "-", by), next_at: e("next_at", "-", by) }))
          .where("state", "in", [lit("running"), lit("retrying")]),
      ),
      placements: prepare(
        db,
        q
          .updateTable("placement")
          .set((e) => ({ opened_at: e("opened_at", "-", by) }))
          .where("closed_at", "is", null),
      ),
      machines: prepare(
        db,
        q
          .updateTable("machine")
          .set((e) => ({
            created_at: e("created_at", "-", by),
            horizon_at: e("horizon_at", "-", by),
            held_at: e("held_at", "-", by),
            priced_at: e("priced_at", "-", by),
            last_look_at: e("last_look_at", "-", by),
          }))
          .where("released_at", "is", null),
      ),
    };
  }

  /** A time at which the store was certainly in use; null in a new store. */
  lastUsedAt(): number | null {
    const stamps = [this.#s.written.get({})?.at, this.#s.waited.get({})?.at].filter((at) => typeof at === "number");
    return stamps.length === 0 ? null : Math.max(...stamps);
  }

  /** Makes the instants of all open steps, timers, placements and machines earlier. */
  moveBack(by: number): void {
    for (const table of ["attempts", "effects", "timers", "placements", "machines"] as const)
      this.#s[table].run({ by });
  }
}
