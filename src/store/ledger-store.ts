// The machine ledger's rows. A row closes only with a proof; the schema enforces that, too.

import type { MachineRow } from "./tables.ts";
import type { Sqlite } from "./database.ts";
import type { Note } from "../schemas/job.ts";
import { storedNote } from "./stored-note.ts";
import { columns, lit, p, prepare, q } from "./statements.ts";

export class LedgerStore {
  readonly #s;

  constructor(db: Sqlite) {
    const change = (...names: Parameters<typeof columns>) =>
      q
        .updateTable("machine")
        .set(columns(...names))
        .where("name", "=", p("name"));
    const open = q.selectFrom("machine").selectAll().where("state", "<>", lit("released"));
    this.#s = {
      get: prepare<MachineRow>(db, q.selectFrom("machine").selectAll().where("name", "=", p("name"))),
      openOf: prepare<MachineRow>(
        db,
        open
          .where("job_id", "=", p("job_id"))
          .where("node", "=", p("node"))
          .orderBy("placement", "desc")
          .orderBy("ordinal"),
      ),
      ofJob: prepare<MachineRow>(
        db,
        q.selectFrom("machine").selectAll().where("job_id", "=", p("job_id")).orderBy("created_at"),
      ),
      open: prepare<MachineRow>(db, open.orderBy("created_at").orderBy("name")),
      ordered: prepare<{ n: number }>(
        db,
        q
          .selectFrom("machine")
          .select((e) => e.fn.countAll<number>().as("n"))
          .where("job_id", "=", p("job_id"))
          .where("node", "=", p("node"))
          .where("provider", "=", p("provider")),
      ),
      last: prepare<{ n: number | null }>(
        db,
        q
          .selectFrom("machine")
          .select((e) => e.fn.max("ordinal").as("n"))
          .where("job_id", "=", p("job_id"))
          .where("node", "=", p("node")),
      ),
      insert: prepare(
        db,
        q
          .insertInto("machine")
          .values(
            columns(
              "name",
              "job_id",
              "node",
              "ordinal",
              "provider",
              "state",
              "resource_id",
              "handle",
              "address",
              "price_micro",
              "spent_micro",
              "priced_at",
              "created_at",
              "horizon_at",
              "held_at",
              "empty_looks",
              "last_look_at",
              "released_at",
              "proof",
              "note",
              "account",
              "placement",
              "spot",
              "order_micro",
              "most_micro",
              "ends_from",
              "doubt_at",
            ),
          ),
      ),
      renew: prepare(db, change("horizon_at")),
      held: prepare(
        db,
        change(
          "state",
          "resource_id",
          "handle",
          "address",
          "price_micro",
          "held_at",
          "released_at",
          "proof",
          "note",
          "doubt_at",
        ),
      ),
      state: prepare(db, change("state")),
      look: prepare(db, change("empty_looks", "last_look_at")),
      released: prepare(db, change("state", "released_at", "proof", "note", "doubt_at")),
      note: prepare(db, change("note")),
      account: prepare(db, change("account")),
      accountOfKey: prepare(
        db,
        q
          .updateTable("machine")
          .set(columns("account"))
          .where("provider", "=", p("provider"))
          .where("account", "=", p("before"))
          .where("state", "<>", lit("released")),
      ),
      handle: prepare(db, change("handle", "address")),
      reprice: prepare(db, change("price_micro", "spent_micro", "priced_at")),
    };
  }

  get(name: string): MachineRow | undefined {
    return this.#s.get.get({ name });
  }
  openOf(jobId: string, node: number): MachineRow[] {
    return this.#s.openOf.all({ job_id: jobId, node });
  }
  /** All machines that the job has ever ordered. */
  ofJob(jobId: string): MachineRow[] {
    return this.#s.ofJob.all({ job_id: jobId });
  }
  open(): MachineRow[] {
    return this.#s.open.all({});
  }
  lastOrdinal(jobId: string, node: number): number {
    return this.#s.last.get({ job_id: jobId, node })?.n ?? 0;
  }
  ordered(jobId: string, node: number, provider: string): number {
    return this.#s.ordered.get({ job_id: jobId, node, provider })?.n ?? 0;
  }
  insert(row: MachineRow): void {
    this.#s.insert.run(row);
  }
  renew(name: string, horizonAt: number): void {
    this.#s.renew.run({ name, horizon_at: horizonAt });
  }
  held(
    row: Pick<MachineRow, "name" | "state" | "resource_id" | "handle" | "address" | "price_micro" | "held_at">,
  ): void {
    this.#s.held.run({ ...row, released_at: null, proof: null, note: null, doubt_at: null });
  }
  /** Keeps the note. */
  state(name: string, state: MachineRow["state"]): void {
    this.#s.state.run({ name, state });
  }
  look(name: string, emptyLooks: number, at: number): void {
    this.#s.look.run({ name, empty_looks: emptyLooks, last_look_at: at });
  }
  released(name: string, at: number, proof: string, note: Note | null, doubtAt: number | null): void {
    const row = { name, state: "released", released_at: at, proof, note: storedNote(note), doubt_at: doubtAt };
    this.#s.released.run(row);
  }
  /** Open orders of the account that the row had until now get the new one, too. */
  account(name: string, account: string): void {
    const before = this.get(name);
    if (before && before.account !== null)
      this.#s.accountOfKey.run({ provider: before.provider, before: before.account, account });
    this.#s.account.run({ name, account });
  }
  handle(name: string, handle: string, address: string | null): void {
    this.#s.handle.run({ name, handle, address });
  }
  reprice(name: string, price: Pick<MachineRow, "price_micro" | "spent_micro" | "priced_at">): void {
    this.#s.reprice.run({ name, ...price });
  }
  note(name: string, note: Note | null): void {
    this.#s.note.run({ name, note: storedNote(note) });
  }
}
