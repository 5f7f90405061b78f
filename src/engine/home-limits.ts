// Holds the limits of a home: decides which runs are let in, and when those that wait are. A run is let in within the transaction that moves
// it towards its order, by sums over rows of that moment, so no two decisions can use the same room (ADR 0033).

import type { Calendar } from "../domain/calendar.ts";
import type { TimerHandle } from "../domain/clock.ts";
import { claimOf, claimOfOpen, countsUnderLimits, type StartSeconds } from "../domain/limit-claims.ts";
import { limitWaitWords, shortageWords } from "../domain/limit-words.ts";
import {
  areSet,
  NO_LIMITS,
  NOTHING_TAKEN,
  plus,
  shortageOf,
  verdictsOf,
  type Amounts,
  type Shortage,
  type Admission,
  type Waiter,
} from "../domain/limits.ts";
import { descriptorOf, isBilled } from "../providers/descriptors.ts";
import { providersOf } from "../domain/candidates.ts";
import { microOf, usdOf } from "../domain/money.ts";
import { SvcError } from "../errors/index.ts";
import type { FeedEvent } from "../schemas/job.ts";
import { isMoney, LIMIT_NAMES } from "../schemas/limit-names.ts";
import type { LimitsChange } from "../schemas/limits.ts";
import type { RunSpec } from "../schemas/spec.ts";
import { specOf } from "../schemas/stored-spec.ts";
import { LedgerStore } from "../store/ledger-store.ts";
import { readAccounts, readLimits, type Accounts } from "../store/limit-reads.ts";
import { readWaits } from "../store/limit-waits.ts";
import { LimitStore } from "../store/limit-store.ts";
import type { Engine } from "./engine.ts";
import type { NewJob } from "./engine-options.ts";
import type { Transaction } from "./transaction.ts";

/** Clocks jump and laptops sleep: a wait until midnight is looked at again after this long. */
const LOOK_MS_MAX = 60_000;

/** After these there may be more room. */
const MAKES_ROOM = new Set(["job.transition", "job.changed", "machine.changed"]);

export interface LimitKeeperOptions {
  engine: Engine;
  calendar: Calendar;
  startSeconds: StartSeconds;
  report: (message: string) => void;
}

export class LimitKeeper {
  readonly #o: LimitKeeperOptions;
  readonly #rows: LimitStore;
  readonly #ledger: LedgerStore;
  #timer: TimerHandle | null = null;
  /** False in a process that only looks or changes a row: another one lets runs in. */
  #begun = false;
  #stopped = false;

  constructor(options: LimitKeeperOptions) {
    this.#o = options;
    const { db } = options.engine.store;
    this.#rows = new LimitStore(db);
    this.#ledger = new LedgerStore(db);
  }

  /** Lets in the runs that fit now; after that, events and a timer do. */
  begin(): void {
    this.#begun = true;
    this.#wait(0);
  }

  heard(events: readonly Pick<FeedEvent, "type">[]): void {
    if (this.#begun && events.some(({ type }) => MAKES_ROOM.has(type)) && readWaits(this.#rows.all).length > 0)
      this.#wait(0);
  }

  /** Throws `limit_never_fits` or `limit_cost_unknown` for a run that the limits can never admit. */
  check(spec: RunSpec): void {
    const limits = readLimits(this.#rows.all);
    if (areSet(limits) && countsUnderLimits(spec)) refuseNever(spec, limits, claimOf(spec, this.#o.startSeconds));
  }

  /** Whether a new job has to wait; if so, within the transaction, it is in the queue from now on. */
  holds(tx: Transaction, { id, row }: NewJob): boolean {
    const spec = specOf(row);
    const limits = readLimits(this.#rows.all);
    const isFree = !areSet(limits) && readWaits(this.#rows.all).length === 0;
    if (isFree || !countsUnderLimits(spec)) return false;
    const claim = claimOf(spec, this.#o.startSeconds);
    refuseNever(spec, limits, claim);
    const own = this.#admit(tx, { id, claim, passes: 0 }).find((verdict) => verdict.id === id);
    if (own === undefined || own.isIn) return false;
    this.#rows.enter(id, reasonOf(own));
    tx.after(() => this.#wait(0));
    tx.feed(id, "notice", {
      level: "info",
      message: `${limitWaitWords(own)}. No machine exists and nothing is billed.`,
    });
    return true;
  }

  /** Why the run would wait if it were submitted now; null if it would not. */
  wouldWait(spec: RunSpec): string | null {
    const accounts = this.#accounts(this.#o.engine.clock.now());
    if (!areSet(accounts.limits) || !countsUnderLimits(spec)) return null;
    const claim = claimOf(spec, this.#o.startSeconds);
    const own = decide(accounts, { id: "", claim, passes: 0 }).at(-1);
    if (own === undefined || own.isIn) return null;
    const why = limitWaitWords(own).replace(/^Waits( for another limit)?: /, "");
    return `The run would wait, at no cost: ${why}.`;
  }

  /** Why a live run must not get this spec; null if it may. Its present claim is not a reason. */
  refuses(tx: Transaction, jobId: string, before: RunSpec, next: RunSpec): string | null {
    const { limits, used, reserved } = this.#accounts(tx.at, jobId);
    if (!areSet(limits) || !countsUnderLimits(next)) return null;
    const isWaiting = readWaits(this.#rows.all).some(({ job_id }) => job_id === jobId);
    if (isWaiting) {
      const never = shortageOf(limits, NOTHING_TAKEN, claimOf(next, this.#o.startSeconds));
      return never === null ? null : shortageWords(never);
    }
    const machines = this.#ledger.ofJob(jobId);
    const now = claimOfOpen(before, machines, tx.at, this.#o.startSeconds).claim;
    const { claim } = claimOfOpen(next, machines, tx.at, this.#o.startSeconds);
    const grows = LIMIT_NAMES.filter((name) => (claim[name] ?? Infinity) > (now[name] ?? Infinity));
    const own = Object.fromEntries(grows.map((name) => [name, limits[name]]));
    const shortage = shortageOf({ ...NO_LIMITS, ...own }, plus(used, reserved), claim);
    return shortage === null ? null : shortageWords(shortage);
  }

  /** Resolves when the limits are durable. Runs that fit then are let in with the same commit. */
  async set(change: LimitsChange): Promise<void> {
    await this.#o.engine.commit((tx) => {
      const set = LIMIT_NAMES.flatMap((name) => {
        const value = change[name];
        if (value === undefined) return [];
        this.#rows.set(name, value === null ? null : isMoney(name) ? microOf(value) : value);
        return [[name, value]];
      });
      tx.feed(null, "limits.changed", Object.fromEntries(set) as Record<string, unknown>);
      // In a process that only looks, nothing may begin: the next control plane lets them in.
      if (this.#begun && readWaits(this.#rows.all).length > 0) this.#admit(tx);
    });
  }

  /** Lets in every run that fits. Resolves when that is durable. */
  async look(): Promise<void> {
    const { engine } = this.#o;
    const isNews = this.#newsSince();
    const due = decide(this.#accounts(engine.clock.now()));
    if (due.some((verdict) => verdict.isIn || isNews(verdict)))
      await engine.commitWithRetry((tx) => void this.#admit(tx));
  }

  #admit(tx: Transaction, fresh?: Waiter): Admission[] {
    const isNews = this.#newsSince();
    const verdicts = decide(this.#accounts(tx.at), fresh);
    for (const verdict of verdicts) {
      const { id, isIn, passes } = verdict;
      if (id === fresh?.id) continue;
      if (isIn) {
        this.#rows.leave(id);
        this.#o.engine.apply(tx, id, { type: "job.admitted" });
        tx.feed(id, "job.admitted", { passes });
      } else if (isNews(verdict)) this.#rows.change(id, passes, reasonOf(verdict));
    }
    return verdicts;
  }

  /** Whether a verdict differs from the row that its run has now. */
  #newsSince(): (verdict: Admission) => boolean {
    const rows = new Map(readWaits(this.#rows.all).map((row) => [row.job_id, row]));
    return (verdict) => {
      const row = rows.get(verdict.id);
      return row !== undefined && (row.passes !== verdict.passes || row.reason !== JSON.stringify(reasonOf(verdict)));
    };
  }

  #accounts(now: number, without?: string): Accounts {
    const { calendar, startSeconds } = this.#o;
    return readAccounts(this.#rows.all, { now, calendar, startSeconds, ...(without === undefined ? {} : { without }) });
  }

  #wait(ms: number): void {
    this.#timer?.cancel();
    this.#timer = this.#stopped || !this.#begun ? null : this.#o.engine.clock.setTimer(ms, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#timer = null;
    const { engine, calendar, report } = this.#o;
    try {
      if (readWaits(this.#rows.all).length === 0) return;
      await this.look();
    } catch (e) {
      report(`The limits could not be checked: ${e instanceof Error ? e.message : String(e)}`);
    }
    if (this.#timer !== null || this.#stopped) return;
    const now = engine.clock.now();
    this.#wait(Math.min(LOOK_MS_MAX, Math.max(1, calendar.nextDay(now) - now)));
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }
}

const decide = ({ limits, used, reserved, waiters }: Accounts, fresh?: Waiter): Admission[] =>
  verdictsOf(limits, plus(used, reserved), fresh === undefined ? waiters : [...waiters, fresh]);

function refuseNever(spec: RunSpec, limits: Amounts, claim: Amounts): void {
  const shortage = shortageOf(limits, NOTHING_TAKEN, claim);
  if (shortage !== null) throw refusalOf(spec, shortage);
}

const reasonOf = ({ shortage, behind, never }: Admission) => ({ shortage, behind, never });

function refusalOf(spec: RunSpec, { limit, of, needs }: Shortage): SvcError {
  const amount = (n: number): number => (isMoney(limit) ? usdOf(n) : n);
  const unpriced = providersOf(spec).find(
    (name) => isBilled(name) && descriptorOf(name)?.capabilities.reports_price === false,
  );
  const isGiven = spec.rate_usd_per_hour !== undefined;
  if (needs === null) {
    const field =
      unpriced !== undefined && !isGiven ? "rate_usd_per_hour" : limit === "usd_per_hour" ? "price_cap" : "budget_usd";
    const data = { limit, of: amount(of), field, provider: unpriced !== undefined && !isGiven ? unpriced : null };
    return withField(new SvcError("limit_cost_unknown", data), field);
  }
  const byLimit = {
    usd_per_hour: isGiven ? "rate_usd_per_hour" : "price_cap",
    max_machines: "nodes",
    max_gpus: "gpus",
  };
  const ofDollars =
    spec.budget_usd !== undefined && microOf(spec.budget_usd) <= needs
      ? "budget_usd"
      : spec.max_runtime_minutes
        ? "max_runtime_minutes"
        : "budget_usd";
  const field = limit === "usd_per_day" || limit === "usd_per_month" ? ofDollars : byLimit[limit];
  return withField(new SvcError("limit_never_fits", { limit, of: amount(of), needs: amount(needs), field }), field);
}

const withField = (error: SvcError, field: string): SvcError =>
  new SvcError(error.code, error.data, { errors: [{ field: `spec.${field}`, message: error.message }] });
