// The machine ledger: debts to providers, recorded before they can arise and closed only by proof. Steps and the sweep
// call it through `Ledger` of src/steps/ports.ts; each change is one transaction of the engine.

import type { Intent, Ledger, LedgerEntry, ReleaseFacts } from "../steps/ports.ts";
import { dollars } from "../errors/dollars.ts";
import type { MachineHandle } from "../providers/provider.ts";
import type { MachineRow } from "../store/tables.ts";
import { LedgerStore } from "../store/ledger-store.ts";
import { costUsd, microOf, usdOf } from "../domain/money.ts";
import type { Engine } from "./engine.ts";
import type { Transaction } from "./transaction.ts";
import type { Note } from "../schemas/job.ts";
import { noteOfMachine, storedNote } from "../store/stored-note.ts";

export function entryOf(row: MachineRow): LedgerEntry {
  return {
    name: row.name,
    jobId: row.job_id,
    node: row.node,
    ordinal: row.ordinal,
    provider: row.provider,
    placement: row.placement,
    state: row.state,
    // Written by `held` below, from a handle.
    handle: row.handle === null ? null : (JSON.parse(row.handle) as MachineHandle),
    createdAt: row.created_at,
    horizonAt: row.horizon_at,
    endsFrom: row.ends_from,
    emptyLooks: row.empty_looks,
    lastLookAt: row.last_look_at,
    account: row.account,
  };
}

export class DurableLedger implements Ledger {
  readonly #engine: Engine;
  readonly #rows: LedgerStore;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#rows = new LedgerStore(engine.store.db);
  }

  open(jobId: string, node: number): LedgerEntry[] {
    return this.#rows.openOf(jobId, node).map((row) => ({ ...entryOf(row), superseded: this.isSuperseded(row) }));
  }

  /** Every machine that may cost money, for any job. */
  owed(): MachineRow[] {
    return this.#rows.open();
  }

  row(name: string): MachineRow | undefined {
    return this.#rows.get(name);
  }

  /** Whether the job has ordered again for this node since; false for a machine without a job. */
  isSuperseded({ job_id, node, ordinal }: Pick<MachineRow, "job_id" | "node" | "ordinal">): boolean {
    return job_id !== null && ordinal < this.#rows.lastOrdinal(job_id, node);
  }

  nextOrdinal(jobId: string, node: number): number {
    return this.#rows.lastOrdinal(jobId, node) + 1;
  }

  ordered(jobId: string, node: number, provider: string): number {
    return this.#rows.ordered(jobId, node, provider);
  }

  intend(order: Intent): Promise<void> {
    return this.#engine.commit((tx) => {
      this.#rows.insert({
        ...blank(order.name, order.provider, tx.at),
        job_id: order.jobId,
        node: order.node,
        ordinal: order.ordinal,
        horizon_at: order.horizonAt,
        account: order.account ?? null,
        placement: Math.max(1, this.#engine.placement(order.jobId).n),
        spot: order.spot === true ? 1 : 0,
        order_micro: order.atMost?.rateMicro ?? null,
        most_micro: order.atMost?.micro ?? null,
        ends_from: order.atMost?.endsFrom ?? null,
      });
      this.#tell(tx, order.name);
    });
  }

  renew(name: string, horizonAt: number): Promise<void> {
    return this.#engine.commit(() => this.#rows.renew(name, horizonAt));
  }

  held(name: string, handle: MachineHandle): Promise<void> {
    return this.#commit(name, (tx) => {
      const row = this.#rows.get(name);
      // The answer to an order can come after the machine that it names was found, ended and proven gone.
      if (row?.state === "released" && row.resource_id === handle.id) return;
      this.#hold(tx, name, handle, row?.state === "releasing" ? "releasing" : "held");
    });
  }

  account(name: string, account: string): Promise<void> {
    return this.#commit(name, () => this.#rows.account(name, account));
  }

  unknown(name: string, note: Note, horizonAt = 0): Promise<void> {
    return this.#commit(name, () => {
      const row = this.#rows.get(name);
      if (row?.state !== "intended") return;
      this.#rows.state(name, "unknown");
      this.#rows.note(name, note);
      this.#rows.renew(name, Math.max(row.horizon_at, horizonAt));
    });
  }

  async emptyLook(name: string): Promise<number> {
    return await this.#engine.commitWithRetry((tx) => {
      const looks = (this.#rows.get(name)?.empty_looks ?? 0) + 1;
      this.#rows.look(name, looks, tx.at);
      return looks;
    });
  }

  releasing(name: string): Promise<void> {
    return this.#commit(name, () => this.#rows.state(name, "releasing"));
  }

  async released(
    name: string,
    proof: string,
    { of, left = null, doubtAt = null }: ReleaseFacts = {},
  ): Promise<boolean> {
    await this.#commit(name, (tx) => {
      const row = this.#rows.get(name);
      if (row?.state === "released" || (of !== undefined && row?.resource_id !== of)) return;
      this.#rows.released(name, tx.at, proof, left, doubtAt);
      if (left !== null) tx.feed(row?.job_id ?? null, "notice", { level: "warning", message: left.message });
    });
    return this.isClosed(name);
  }

  isClosed(name: string): boolean {
    return this.#rows.get(name)?.state === "released";
  }

  /** Updates the known facts of a held machine: its endpoints, its price. Money owed so far keeps the old price. */
  async known(name: string, handle: MachineHandle): Promise<void> {
    const text = JSON.stringify(handle);
    const before = this.#rows.get(name);
    if (!before || (before.handle === text && before.price_micro === priceOf(handle))) return;
    await this.#commit(name, (tx) => {
      const row = this.#rows.get(name);
      if (!row || row.state === "released" || row.resource_id !== handle.id) return;
      this.#rows.handle(name, text, handle.address);
      const price = priceOf(handle);
      if (price === null || price === row.price_micro) return;
      const last = row.handle === null ? null : (JSON.parse(row.handle) as MachineHandle).priceMicro;
      if (last !== null && handle.priceMicro !== null && handle.priceMicro > last) {
        const [from, to] = [usdOf(last), usdOf(handle.priceMicro)];
        const message = `The machine ${name} costs ${dollars(to, from)} an hour instead of ${dollars(from, to)}.`;
        tx.feed(row.job_id, "price.raised", { name, message });
      }
      // A price that was unknown applies to the whole time.
      const priced_at = row.price_micro === null ? row.priced_at : tx.at;
      this.#rows.reprice(name, {
        price_micro: price,
        spent_micro: row.price_micro === null ? row.spent_micro : microOf(costUsd(row, tx.at)),
        priced_at,
      });
    });
  }

  /**
   * Some providers bill only the disk until a machine runs. Time that nobody saw counts at the whole price, so what is
   * owed is never too low, whatever happened in it (ADR 0030).
   */
  async cheaper(name: string, until: number): Promise<void> {
    await this.#engine.commitWithRetry((tx) => {
      const row = this.#rows.get(name);
      const least = row?.handle ? (JSON.parse(row.handle) as MachineHandle).billedMicro : undefined;
      if (!row || row.state === "released" || row.price_micro === null || !isPrice(least)) return;
      const priced_at = Math.min(until, tx.at);
      if (priced_at <= (row.priced_at ?? row.created_at)) return;
      const spent = costUsd({ ...row, price_micro: Math.min(Math.round(least), row.price_micro) }, priced_at);
      this.#rows.reprice(name, { price_micro: row.price_micro, spent_micro: microOf(spent), priced_at });
    });
  }

  async note(name: string, note: Note | null): Promise<void> {
    if (this.#rows.get(name)?.note === storedNote(note)) return;
    await this.#commit(name, () => this.#rows.note(name, note));
  }

  /** Gives a row to a machine with our mark that has none, so that svc must release it like any other. */
  async adopt(handle: MachineHandle, note: Note): Promise<void> {
    await this.#commit(handle.name, (tx) => {
      if (!this.#rows.get(handle.name)) this.#rows.insert(blank(handle.name, handle.provider, tx.at));
      this.#hold(tx, handle.name, handle, "held");
      this.#rows.note(handle.name, note);
    });
  }

  #hold(tx: Transaction, name: string, handle: MachineHandle, state: "held" | "releasing"): void {
    const row = this.#rows.get(name);
    // Two machines of one order: what was seen of the other says nothing about the time of this one.
    if (row?.resource_id && row.resource_id !== handle.id)
      this.#rows.reprice(name, { price_micro: row.price_micro, spent_micro: 0, priced_at: null });
    this.#rows.held({
      name,
      state,
      resource_id: handle.id,
      handle: JSON.stringify(handle),
      address: handle.address,
      price_micro: priceOf(handle),
      held_at: row?.held_at ?? tx.at,
    });
  }

  #commit(name: string, fn: (tx: Transaction) => void): Promise<void> {
    return this.#engine.commitWithRetry((tx) => {
      fn(tx);
      this.#tell(tx, name);
    });
  }

  #tell(tx: Transaction, name: string): void {
    const row = this.#rows.get(name);
    if (row)
      tx.feed(row.job_id, "machine.changed", { name, state: row.state, node: row.node, note: noteOfMachine(row) });
  }
}

/** A machine is recorded as owed whatever its price: an invalid price is unknown, and must not prevent the row. */
const priceOf = ({ priceMicro }: MachineHandle): number | null => (isPrice(priceMicro) ? Math.round(priceMicro) : null);

const isPrice = (micro: number | null | undefined): micro is number =>
  typeof micro === "number" && Number.isFinite(micro) && micro >= 0;

function blank(name: string, provider: string, at: number): MachineRow {
  return {
    name,
    job_id: null,
    node: 0,
    ordinal: 0,
    provider,
    state: "intended",
    resource_id: null,
    handle: null,
    address: null,
    price_micro: null,
    spent_micro: 0,
    priced_at: null,
    account: null,
    created_at: at,
    horizon_at: at,
    held_at: null,
    empty_looks: 0,
    last_look_at: null,
    released_at: null,
    proof: null,
    note: null,
    placement: 1,
    spot: 0,
    order_micro: null,
    most_micro: null,
    ends_from: null,
    doubt_at: null,
  };
}
