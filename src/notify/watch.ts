// Finds what no single event says: a machine that costs money for nothing, a run that waits, saves or logs nothing for too long, and
// metrics beyond a bound. The composition root calls `look` every few seconds, and `points` with each part of a log.
//
// K1. A machine is reported once it was in doubt for GRACE_MS, again after each of REPEATS_MS, and when its end is proven.
// K2. A rule reports once for a run; `silent`, `waiting` and `no checkpoint` again after the metric, the machine or a checkpoint came.
// K3. A rule with `stop` ends the run in the transaction of its notice.
// K4. The rules for a run are those of the home, those of configure() and the run's own; the same rule twice counts once.
// K5. Rules by time about a script count only time in which svc followed the run without a break: what it logs while this computer sleeps, while
//     svc does not run or while its machine cannot be reached is read later. A loss of the connection for less than two minutes is no break.

import type { LogRecord } from "../domain/log-stream.ts";
import { parseNotifyRule, type NotifyRule } from "../schemas/notify-rule.ts";
import { mayCostMoney } from "../schemas/names.ts";
import type { NotifyStore } from "../store/notify-store.ts";
import { noteOfMachine } from "../store/stored-note.ts";
import type { JobRow } from "../store/tables.ts";
import type { FoundNotice, NoticeTransaction, Outbox } from "./outbox.ts";

const MINUTE_MS = 60_000;
export const GRACE_MS = MINUTE_MS;
/** A release takes a while at some providers. */
const RELEASING_MS = 5 * MINUTE_MS;
const REPEATS_MS = [15 * MINUTE_MS, 60 * MINUTE_MS];
const REPEAT_MS = 120 * MINUTE_MS;
const MET_MAX = 10_000;
/** A longer time between two checks means that svc did not run, or that this computer slept. */
const GAP_MS = MINUTE_MS;
const SEARCHING: ReadonlySet<string> = new Set(["waiting", "provisioning"]);

export interface WatchParts<Tx extends NoticeTransaction> {
  rows: NotifyStore;
  outbox: Outbox;
  now: () => number;
  commit: (fn: (tx: Tx) => void) => Promise<void>;
  liveJobs: () => readonly JobRow[];
  /** When the last placement of a run closed; null without one. */
  closedAt: (jobId: string) => number | null;
  /** The rules for all runs that configure() set. */
  configured: () => readonly string[];
  /** The run's own rules. */
  ownOf: (jobId: string) => readonly string[];
  /** Ends a run, for this reason. */
  end: (tx: Tx, jobId: string, rule: string) => void;
}

export class Watch<Tx extends NoticeTransaction> {
  readonly #o: WatchParts<Tx>;
  #shared: readonly NotifyRule[] | null = null;
  /** By run. Runs that have ended are removed at the next check. */
  #rules = new Map<string, readonly NotifyRule[]>();
  /** Since when each machine is in doubt. */
  #doubt = new Map<string, number>();
  /** By run, at its entry `seq`: since when it waits. Read again only after a transition, because every check needs it for every run. */
  #waiting = new Map<string, { seq: number; since: number }>();
  /** The last check, and the first one since svc runs without a gap. */
  #looks = { last: -Infinity, first: -Infinity };
  /** Rules that a run has met already. */
  readonly #met = new Set<string>();

  constructor(parts: WatchParts<Tx>) {
    this.#o = parts;
  }

  /** The rules of the home or of configure() have changed. */
  ruled(): void {
    this.#shared = null;
    this.#rules.clear();
    this.#met.clear();
  }

  /** K4. A run's own rules never change. */
  rules(jobId: string): readonly NotifyRule[] {
    const known = this.#rules.get(jobId);
    if (known !== undefined) return known;
    if (this.#shared === null) {
      const lines: unknown = JSON.parse(this.#o.rows.rules());
      this.#shared = parsed([...(Array.isArray(lines) ? lines.map(String) : []), ...this.#o.configured()]);
    }
    const own = parsed(this.#o.ownOf(jobId));
    const all = own.length === 0 ? this.#shared : [...this.#shared, ...own];
    const rules = [...new Map(all.map((rule) => [rule.text, rule])).values()];
    this.#rules.set(jobId, rules);
    return rules;
  }

  async look(): Promise<void> {
    const found = [...this.#machines(), ...this.#lateRuns()];
    if (found.length === 0) return;
    await this.#o.commit((tx) => {
      for (const { rule, ...notice } of found) this.#tell(tx, notice, rule);
    });
  }

  /** K2, K3. Called within the transaction that stores the points. */
  points(tx: Tx, jobId: string, records: readonly LogRecord[]): void {
    const rules = this.rules(jobId);
    if (rules.length === 0) return;
    for (const record of records) {
      if (record.kind !== "metrics") continue;
      for (const [name, value] of record.values)
        for (const rule of rules) {
          if (!("metric" in rule) || rule.metric !== name || !isMet(rule, Number(value))) continue;
          const key = `metric:${jobId}:${rule.text}`;
          if (this.#met.has(key)) continue;
          const cause = `${name} is ${value} at step ${record.step}; the rule is \`${rule.text}\`.`;
          this.#tell(tx, { job_id: jobId, kind: "metric", words: `meets the rule ${rule.text}`, cause, key }, rule);
        }
    }
  }

  #tell(tx: Tx, notice: FoundNotice, rule: NotifyRule | undefined): void {
    const { key } = notice;
    if (key !== undefined && rule !== undefined) tx.after(() => this.#remember(key));
    if (!this.#o.outbox.add(tx, notice) || rule?.stop !== true || notice.job_id === null) return;
    this.#o.end(tx, notice.job_id, rule.text);
  }

  #remember(key: string): void {
    // The keys of the rows still hold a rule to one report; this only spares their look-ups.
    if (this.#met.size >= MET_MAX) this.#met.clear();
    this.#met.add(key);
  }

  /** K1. */
  #machines(): (FoundNotice & { rule?: NotifyRule })[] {
    const now = this.#o.now();
    const before = this.#doubt;
    this.#doubt = new Map();
    const found: FoundNotice[] = [];
    for (const row of this.#o.rows.owed()) {
      const note = noteOfMachine(row);
      const isOver = row.job_state === null || row.job_state === "terminal";
      const isDoubtful = note !== null && note.kind !== "terminating" && mayCostMoney(note.kind);
      const isReleasing = row.state === "releasing";
      if (row.price_micro === 0 || (!isOver && !isDoubtful && !isReleasing)) continue;
      const since = before.get(row.name) ?? now;
      this.#doubt.set(row.name, since);
      if (now - since < (isOver || isDoubtful ? GRACE_MS : RELEASING_MS)) continue;
      const { n, at } = this.#o.rows.keyed(`owed:${row.name}:`);
      if (at !== null && now - at < (REPEATS_MS[n - 1] ?? REPEAT_MS)) continue;
      const cause = note?.message ?? "svc has not seen a proof that it is gone.";
      const subject = `The machine ${row.name} (${row.provider})`;
      const words = n === 0 ? "may still cost money" : `may still cost money, reported ${n + 1} times`;
      found.push({ job_id: null, kind: "machine_owed", subject, words, cause, key: `owed:${row.name}:${n + 1}` });
    }
    for (const { name, provider, proof } of this.#o.rows.closed())
      found.push({
        job_id: null,
        kind: "machine_closed",
        subject: `The machine ${name} (${provider})`,
        words: "is gone and costs nothing more",
        cause: proof,
        key: `closed:${name}`,
      });
    return found;
  }

  #lateRuns(): (FoundNotice & { rule?: NotifyRule })[] {
    const now = this.#o.now();
    this.#looks = { last: now, first: now - this.#looks.last > GAP_MS ? now : this.#looks.first };
    const [waited, ruled] = [this.#waiting, this.#rules];
    this.#waiting = new Map();
    this.#rules = new Map();
    return this.#o.liveJobs().flatMap((row) => {
      const known = waited.get(row.id);
      if (known?.seq === row.seq) this.#waiting.set(row.id, known);
      const rules = ruled.get(row.id);
      if (rules !== undefined) this.#rules.set(row.id, rules);
      return this.rules(row.id).flatMap((rule) => this.#late(row, rule) ?? []);
    });
  }

  #late(row: JobRow, rule: NotifyRule): (FoundNotice & { rule: NotifyRule }) | null {
    if (!("minutes" in rule)) return null;
    const { id } = row;
    const isSearching = SEARCHING.has(row.state);
    if (rule.kind === "waiting" ? !isSearching : row.state !== "running" || row.started_at === null) return null;
    const since = this.#since(row, rule);
    const key = `${rule.text}:${id}:${since}`;
    const isEarly = (from: number): boolean => this.#o.now() - from < rule.minutes * MINUTE_MS;
    if (isEarly(since) || this.#met.has(key)) return null;
    if (rule.kind !== "waiting" && (isEarly(this.#looks.first) || isEarly(this.#followedSince(id)))) return null;
    const cause = `The rule is \`${rule.text}\`.`;
    if (rule.kind === "waiting")
      return {
        job_id: id,
        kind: "waiting_long",
        words: `has waited ${rule.minutes} min for a machine`,
        cause,
        key,
        rule,
      };
    if (rule.kind === "silent")
      return {
        job_id: id,
        kind: "metric",
        words: `has logged no ${rule.metric} for ${rule.minutes} min`,
        cause,
        key,
        rule,
      };
    return {
      job_id: id,
      kind: "no_checkpoint",
      words: `has saved no checkpoint for ${rule.minutes} min`,
      cause,
      key,
      rule,
    };
  }

  /** K5 */
  #followedSince(jobId: string): number {
    return this.#o.rows.followedSince(jobId, this.#o.now()) ?? Infinity;
  }

  #since(row: JobRow, rule: NotifyRule): number {
    const started = row.started_at ?? row.created_at;
    if (rule.kind === "waiting") return this.#waitingSince(row);
    if (rule.kind === "silent")
      return Math.max(started, Math.round(this.#o.rows.lastValueAt(row.id, rule.metric) ?? 0));
    return Math.max(started, this.#o.rows.lastCheckpointAt(row.id) ?? 0);
  }

  #waitingSince({ id, seq, created_at }: JobRow): number {
    const known = this.#waiting.get(id);
    if (known !== undefined) return known.since;
    const since = this.#o.closedAt(id) ?? created_at;
    this.#waiting.set(id, { seq, since });
    return since;
  }
}

const parsed = (lines: readonly string[]): NotifyRule[] =>
  lines.map((line) => parseNotifyRule(line)).filter((rule) => typeof rule !== "string");

function isMet(rule: NotifyRule, value: number): boolean {
  if (rule.kind === "nan") return !Number.isFinite(value);
  if (rule.kind === "above") return value > rule.bound || (rule.or_equal && value === rule.bound);
  if (rule.kind === "below") return value < rule.bound || (rule.or_equal && value === rule.bound);
  return false;
}
