// Lets a run that waits for capacity search again as soon as another run has released a machine: the provider may offer that one now. The
// control plane passes it the events of each commit.
//
// F1. One waiting run, the oldest first, searches for each released machine: if all did, all would order the same machine.
// F2. An order that rented no machine frees nothing. A search costs no money, so a wrong guess costs one request.

import type { FeedEvent } from "../schemas/job.ts";
import { providersOf } from "../domain/candidates.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { LedgerStore } from "../store/ledger-store.ts";
import { WaitingReads } from "../store/waiting-reads.ts";
import type { Engine } from "./engine.ts";

export class FreedMachines {
  readonly #engine: Engine;
  readonly #ledger: LedgerStore;
  readonly #waiting: WaitingReads;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#ledger = new LedgerStore(engine.store.db);
    this.#waiting = new WaitingReads(engine.store.db);
  }

  heard(events: readonly Pick<FeedEvent, "type" | "job_id" | "data">[]): void {
    for (const { type, job_id, data } of events)
      if (type === "job.transition" && data["to"] === "terminal" && job_id !== null) this.#freedBy(job_id);
  }

  #freedBy(jobId: string): void {
    const waiting = this.#waiting.jobs("place");
    if (waiting.length === 0) return;
    const machines = this.#ledger.ofJob(jobId);
    const last = Math.max(...machines.map(({ placement }) => placement));
    // The machines of earlier placements were released before.
    const freed = machines.filter(({ placement, handle }) => placement === last && handle !== null);
    const woken = new Set<string>();
    for (const { provider } of freed) {
      const next = waiting.find((id) => !woken.has(id) && this.#mayUse(id, provider));
      if (next === undefined) continue;
      woken.add(next);
      this.#engine.hasten(next, "place");
    }
  }

  #mayUse(jobId: string, provider: string): boolean {
    const row = this.#engine.store.job(jobId);
    return row !== undefined && providersOf(specOf(row)).some((name) => name === provider);
  }
}
