// Writes the sums of costs. The engine's transactions call it; triggers of the database name the machines that are not in the sums.

import { monthOf, type Calendar } from "../domain/calendar.ts";
import type { CostCell } from "../domain/costs.ts";
import { costsOfMachines, storedCost, type Costed } from "./cost-reads.ts";
import type { Sqlite } from "./database.ts";
import { columns, lit, p, prepare, q } from "./statements.ts";
import type { All, MachineRow } from "./tables.ts";

/** Rows that can change no more: proven gone, and their job has ended or was removed. */
const SETTLED =
  "SELECT m.* FROM cost_open o CROSS JOIN machine m ON m.name = o.name LEFT JOIN job j ON j.id = m.job_id WHERE m.state = 'released' AND coalesce(j.state, 'terminal') = 'terminal' LIMIT ?";

export class CostStore {
  readonly #s;
  readonly #all: All;

  constructor(db: Sqlite) {
    const statements = new Map<string, ReturnType<Sqlite["prepare"]>>();
    this.#all = <Row>(text: string, ...args: unknown[]): Row[] => {
      const statement = statements.get(text) ?? db.prepare(text);
      statements.set(text, statement);
      return statement.all(...args) as Row[];
    };
    this.#s = {
      add: db.prepare(
        `INSERT INTO cost_sum (dim, key, kind, day, machines, unpriced, ms, unpriced_ms, unrated_ms, micro, estimate_micro)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (dim, day, key, kind) DO UPDATE SET
         machines = machines + excluded.machines, unpriced = unpriced + excluded.unpriced, ms = ms + excluded.ms,
         unpriced_ms = unpriced_ms + excluded.unpriced_ms, unrated_ms = unrated_ms + excluded.unrated_ms,
         micro = micro + excluded.micro, estimate_micro = estimate_micro + excluded.estimate_micro`,
      ),
      stored: prepare<{ cells: string }>(
        db,
        q.selectFrom("cost_machine").select("cells").where("name", "=", p("name")),
      ),
      store: prepare(db, q.replaceInto("cost_machine").values(columns("name", "cells"))),
      close: prepare(db, q.deleteFrom("cost_open").where("name", "=", p("name"))),
      zone: prepare<{ zone: string }>(db, q.selectFrom("cost_zone").select("zone")),
      setZone: prepare(db, q.replaceInto("cost_zone").values({ one: 1, zone: p("zone") })),
      noSums: prepare(db, q.deleteFrom("cost_sum")),
      noMachines: db.prepare(
        "DELETE FROM cost_machine WHERE name IN (SELECT m.name FROM machine m LEFT JOIN job j ON j.id = m.job_id WHERE m.job_id IS NULL OR j.id IS NOT NULL)",
      ),
      reopen: db.prepare(
        "INSERT OR IGNORE INTO cost_open (name) SELECT name FROM machine WHERE name NOT IN (SELECT name FROM cost_machine)",
      ),
      ofJob: prepare<MachineRow>(
        db,
        q
          .selectFrom("machine")
          .selectAll()
          .where("job_id", "=", p("job_id"))
          .where("state", "=", lit("released"))
          .orderBy("name"),
      ),
    };
  }

  /** Whether there is a machine to add, or another time zone. */
  isBehind(zone: string): boolean {
    return this.#s.zone.get({})?.zone !== zone || this.#all(SETTLED, 1).length > 0;
  }

  /** Sums of another time zone have other days: they are made again. */
  useZone(zone: string): void {
    if (this.#s.zone.get({})?.zone === zone) return;
    this.#s.noSums.run({});
    this.#s.noMachines.run();
    // The days of removed runs stay unchanged: the records of their machines are gone.
    const sums = new Changes();
    for (const { cells } of this.#all<{ cells: string }>("SELECT cells FROM cost_machine"))
      sums.add(storedCost(cells), 1);
    this.#apply(sums);
    this.#s.reopen.run();
    this.#s.setZone.run({ zone });
  }

  /** Adds up to `max` machines to the sums. Returns how many there were. */
  addSome(max: number, now: number, calendar: Calendar): number {
    const rows = this.#all<MachineRow>(SETTLED, max);
    this.#put(rows, now, calendar);
    return rows.length;
  }

  /** For a run that is about to be removed: afterwards the records of its machines are gone. */
  addJob(jobId: string, now: number, calendar: Calendar): void {
    this.useZone(calendar.zone);
    this.#put(this.#s.ofJob.all({ job_id: jobId }), now, calendar);
  }

  #put(rows: readonly MachineRow[], now: number, calendar: Calendar): void {
    const sums = new Changes();
    for (const { name, keys, cells } of costsOfMachines(this.#all, rows, now, calendar)) {
      const before = this.#s.stored.get({ name });
      if (before !== undefined) sums.add(storedCost(before.cells), -1);
      sums.add({ keys, cells }, 1);
      this.#s.store.run({ name, cells: JSON.stringify({ keys, cells }) });
      this.#s.close.run({ name });
    }
    this.#apply(sums);
  }

  #apply({ rows }: Changes): void {
    for (const { dim, key, kind, day, amounts } of rows.values()) this.#s.add.run(dim, key, kind, day, ...amounts);
  }
}

/** Changes of sums in memory: the machines of a run change the same few rows. */
class Changes {
  readonly rows = new Map<string, { dim: string; key: string; kind: string; day: string; amounts: number[] }>();

  add({ keys, cells }: Costed, sign: 1 | -1): void {
    for (const cell of cells) {
      this.#add("day", cell.day, cell.day, cell, sign);
      for (const [dim, key] of Object.entries(keys)) {
        this.#add(dim, key, cell.day, cell, sign);
        this.#add(`${dim}.month`, key, monthOf(cell.day), cell, sign);
      }
    }
  }

  #add(dim: string, key: string, day: string, cell: CostCell, sign: 1 | -1): void {
    const { kind, machines, unpriced, ms, unpricedMs, unratedMs, micro, estimateMicro } = cell;
    const added = [machines, unpriced, ms, unpricedMs, unratedMs, micro, estimateMicro];
    const id = JSON.stringify([dim, key, kind, day]);
    const row = this.rows.get(id) ?? { dim, key, kind, day, amounts: added.map(() => 0) };
    row.amounts = row.amounts.map((amount, index) => amount + sign * (added[index] ?? 0));
    this.rows.set(id, row);
  }
}
