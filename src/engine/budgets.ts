// Watches what live runs spend, and sends their machines the warnings, the stop and the end of their downloads. It keeps no counter: every
// check adds up the rows of the ledger, so a restart, a sleep or a lost process changes nothing (ADR 0030).

import {
  ALL_FETCHED,
  budgetNow,
  givenRate,
  leastOf,
  machineLimit,
  ratesOf,
  warnsInMs,
  type BudgetNow,
  type MachineLimit,
  type Unfetched,
} from "../domain/budget.ts";
import { NO_RATES, spendingOf } from "../domain/billing.ts";
import type { TimerHandle } from "../domain/clock.ts";
import { usdOf } from "../domain/money.ts";
import { dollars } from "../errors/dollars.ts";
import { describeError } from "../errors/index.ts";
import type { FeedEvent, JobError } from "../schemas/job.ts";
import type { StartTimes } from "../schemas/plan.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { stopGraceSeconds } from "../domain/stop-grace.ts";
import { LedgerStore } from "../store/ledger-store.ts";
import type { Engine } from "./engine.ts";
import type { Transaction } from "./transaction.ts";

/** Prices, downloads and clocks change: even a budget for weeks is looked at again after this long. */
const LOOK_MS_MAX = 10_000;
const LOOK_MS_MIN = 250;

/** After these, a job may spend at another rate, or has another limit. */
const CHANGES_SPENDING = new Set(["job.created", "job.transition", "job.changed", "machine.changed"]);

export interface BudgetsOptions {
  engine: Engine;
  startTimes: (provider: string, gpus: string) => StartTimes | null;
  report: (message: string) => void;
}

export class Budgets {
  readonly #o: BudgetsOptions;
  readonly #rows: LedgerStore;
  readonly #timers = new Map<string, TimerHandle>();
  readonly #unfetched = new Map<string, Unfetched>();
  /** False in a process that only looks or changes a row: another one supervises the runs. */
  #begun = false;
  #stopped = false;

  constructor(options: BudgetsOptions) {
    this.#o = options;
    this.#rows = new LedgerStore(options.engine.store.db);
  }

  /** Looks at every live job once; after that, events and timers do. */
  begin(): void {
    this.#begun = true;
    for (const { id } of this.#o.engine.store.liveJobs()) this.#soon(id);
  }

  heard(events: readonly { type: string; job_id: FeedEvent["job_id"] }[]): void {
    const jobs = events.flatMap(({ type, job_id }) => (CHANGES_SPENDING.has(type) && job_id !== null ? [job_id] : []));
    for (const id of new Set(jobs)) this.#soon(id);
  }

  /** Records the bytes that the collector has still to download. A new process measures them again. */
  unfetched(jobId: string, seen: Unfetched): void {
    this.#unfetched.set(jobId, seen);
  }

  /** Null if the job has no budget, or has ended. */
  now(jobId: string, at: number): Now | null {
    const snapshot = this.#o.engine.now(jobId);
    const budgetMicro = snapshot?.context.budget_micro ?? null;
    // Most runs have no budget, and each of their transitions asks.
    if (snapshot === undefined || budgetMicro === null) return null;
    const row = this.#o.engine.store.job(jobId);
    if (row === undefined) return null;
    const spec = specOf(row);
    const machines = this.#rows.ofJob(jobId);
    const graceSeconds = stopGraceSeconds(spec);
    const unfetched = this.#unfetched.get(jobId) ?? ALL_FETCHED;
    const parts = { budgetMicro, machines, rates: ratesOf(spec, machines), now: at, graceSeconds, unfetched };
    const hasMachine = machines.some(({ held_at, released_at }) => held_at !== null && released_at === null);
    return { ...budgetNow(parts), graceSeconds, warned: snapshot.context.warned, state: snapshot.value, hasMachine };
  }

  /** The deadlines that the guards of the job's machines get with the next contact; null for none. */
  limit(jobId: string): MachineLimit | null {
    const now = this.now(jobId, this.#o.engine.clock.now());
    return now === null ? null : machineLimit(now.budgetMicro - now.spentMicro, now.rateMicro, now.graceSeconds);
  }

  /** The deadlines of a machine that is about to be ordered, at its offer's price. */
  limitOfOrder(jobId: string, priceMicro: number | null): (MachineLimit & { mostMicro: number }) | null {
    const now = this.now(jobId, this.#o.engine.clock.now());
    const row = this.#o.engine.store.job(jobId);
    if (now === null || row === undefined) return null;
    const spec = specOf(row);
    const each = priceMicro ?? givenRate(spec) ?? 0;
    // The order itself may be among the rows already, at an assumed rate: its own price replaces that.
    const held = this.#rows.ofJob(jobId).filter((machine) => machine.held_at !== null);
    const { rateMicro } = spendingOf(held, this.#o.engine.clock.now(), NO_RATES);
    const unspent = Math.max(0, now.budgetMicro - now.spentMicro);
    const allMicro = Math.max(rateMicro, each * spec.nodes);
    const limit = machineLimit(unspent, allMicro, now.graceSeconds);
    return limit && { ...limit, mostMicro: Math.ceil((unspent * each) / allMicro) };
  }

  /** Why the budget allows no further machine; null if it does. The rate of the job's last machines is expected again. */
  lack(jobId: string): JobError | null {
    const now = this.now(jobId, this.#o.engine.clock.now());
    const row = this.#o.engine.store.job(jobId);
    if (now === null || row === undefined) return null;
    const spec = specOf(row);
    const machines = this.#rows.ofJob(jobId);
    const { givenMicro } = ratesOf(spec, machines);
    const seen = machines.findLast(({ price_micro }) => price_micro !== null)?.price_micro;
    const ordered = machines.findLast(({ doubt_at }) => doubt_at !== null)?.order_micro;
    const rate = (seen ?? givenMicro ?? ordered ?? 0) * spec.nodes;
    const startSeconds = this.#o.startTimes(row.provider, row.gpus)?.seconds ?? null;
    const least = leastOf({ provider: row.provider, graceSeconds: now.graceSeconds }, rate, startSeconds);
    const unspent = now.budgetMicro - now.spentMicro;
    if (unspent > 0 && unspent >= least.micro) return null;
    const why = `The rest is not enough for another machine, whose start and end cost ${dollars(usdOf(least.micro))}.`;
    return errorOf(now, why);
  }

  /** Sends what is due. Resolves when it is durable. */
  async look(jobId: string): Promise<void> {
    await this.#o.engine.commitWithRetry((tx) => this.#send(tx, jobId));
  }

  #send(tx: Transaction, jobId: string): void {
    const now = this.now(jobId, tx.at);
    if (now === null) return;
    const { engine } = this.#o;
    if (
      now.hasMachine &&
      now.warning > now.warned &&
      engine.apply(tx, jobId, { type: "budget.warned", percent: now.warning }).accepted
    )
      tx.feed(jobId, "budget.warned", { percent: now.warning, ...told(now, tx.at) });
    const lack = this.#lackBetweenOrders(jobId, now);
    if (lack !== null && engine.apply(tx, jobId, { type: "budget.reached", error: lack }).accepted)
      tx.feed(jobId, "budget.reached", { ...told(now, tx.at), ends: "script", error: lack });
    if (!now.hasMachine || now.rateMicro <= 0) return;
    const isEnding = now.state === "terminating";
    if (isEnding ? now.releaseInMs <= 0 : now.stopInMs <= 0) {
      const error = errorOf(now);
      const sent = engine.apply(tx, jobId, { type: isEnding ? "budget.spent" : "budget.reached", error });
      const ends = isEnding ? "downloads" : "script";
      if (sent.accepted) tx.feed(jobId, "budget.reached", { ...told(now, tx.at), ends, error });
    }
  }

  /** Why the placement must not order its next machine: an earlier order of it may have used up what the next one needs (ADR 0035). */
  #lackBetweenOrders(jobId: string, { state, rateMicro, spentMicro }: Now): JobError | null {
    return state === "provisioning" && rateMicro <= 0 && spentMicro > 0 ? this.lack(jobId) : null;
  }

  #soon(jobId: string): void {
    this.#wait(jobId, 0);
  }

  #wait(jobId: string, ms: number): void {
    this.#timers.get(jobId)?.cancel();
    this.#timers.delete(jobId);
    if (this.#stopped || !this.#begun) return;
    const timer = this.#o.engine.clock.setTimer(ms, () => {
      this.#timers.delete(jobId);
      void this.#look(jobId);
    });
    this.#timers.set(jobId, timer);
  }

  async #look(jobId: string): Promise<void> {
    const { engine, report } = this.#o;
    // A store that cannot be read now must not end the watch.
    let waitMs: number | null = LOOK_MS_MAX;
    try {
      const due = this.now(jobId, engine.clock.now());
      if (due === null) return void this.#unfetched.delete(jobId);
      if (isDue(due) || this.#lackBetweenOrders(jobId, due) !== null) await this.look(jobId);
      const next = this.now(jobId, engine.clock.now());
      waitMs = next && nextMs(next);
    } catch (e) {
      report(`The budget of ${jobId} could not be checked: ${e instanceof Error ? e.message : String(e)}`);
    }
    if (waitMs !== null && !this.#stopped && !this.#timers.has(jobId)) this.#wait(jobId, waitMs);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}

interface Now extends BudgetNow {
  graceSeconds: number;
  warned: number;
  state: string;
  /**
   * Whether there is a machine to stop. Without one, an order whose outcome is unknown may use up the sum, and the list that svc asks for in this
   * state decides: it finds the machine, or proves that nothing was rented.
   */
  hasMachine: boolean;
}

const isDue = (now: Now): boolean =>
  now.hasMachine &&
  (now.warning > now.warned ||
    (now.rateMicro > 0 && (now.state === "terminating" ? now.releaseInMs : now.stopInMs) <= 0));

function nextMs(now: Now): number {
  const until = [warnsInMs(now, now.warned), now.stopInMs, now.releaseInMs].filter((ms) => ms > 0);
  return Math.ceil(Math.max(LOOK_MS_MIN, Math.min(LOOK_MS_MAX, ...until)));
}

const told = (now: Now, at: number) => ({
  budget_usd: usdOf(now.budgetMicro),
  spent_usd: usdOf(now.spentMicro),
  kept_usd: usdOf(now.keptMicro),
  left_usd: usdOf(Math.max(0, now.leftMicro)),
  stops_at: Number.isFinite(now.stopInMs) ? new Date(at + now.stopInMs).toISOString() : null,
});

const errorOf = (now: Now, why?: string): JobError =>
  describeError("budget_reached", {
    budget: usdOf(now.budgetMicro),
    spent: usdOf(now.spentMicro),
    kept: usdOf(Math.min(now.keptMicro, Math.max(0, now.budgetMicro - now.spentMicro))),
    ...(why === undefined ? {} : { why }),
  });
