// Rows of notifications: notices, targets and messages. Called within a transaction, except for reads.

import type { Statement } from "better-sqlite3";
import type { Insertable } from "kysely";
import type { Sqlite } from "./database.ts";
import type { All, MachineRow, MessageRow, NoticeRow, Tables, TargetRow } from "./tables.ts";

/** A shorter break of the connection to a machine counts as none: what the script logged meanwhile has been read since. */
const BREAK_MS = 2 * 60_000;

export type NewNotice = Pick<NoticeRow, "job_id" | "kind" | "at" | "key" | "title" | "data">;

export class NotifyStore {
  readonly #db: Sqlite;
  readonly #reads = new Map<string, Statement>();
  readonly #s;

  constructor(db: Sqlite) {
    this.#db = db;
    this.#s = {
      notice: db.prepare(
        `INSERT INTO notice (job_id, kind, at, key, title, data) VALUES (@job_id, @kind, @at, @key, @title, @data)
         ON CONFLICT DO NOTHING`,
      ),
      spread: db.prepare("UPDATE notice SET spread = 1 WHERE id = ?"),
      message: db.prepare(
        `INSERT INTO notify_message (id, target, job_id, kind, notices, title, state, attempts, created_at)
         VALUES (@id, @target, @job_id, @kind, @notices, @title, 'waiting', 0, @created_at)`,
      ),
      settle: db.prepare(
        "UPDATE notify_message SET state = @state, attempts = @attempts, next_at = @next_at, error = @error, ended_at = @ended_at WHERE id = @id AND state = 'waiting'",
      ),
      hurry: db.prepare("UPDATE notify_message SET next_at = NULL WHERE target = ? AND state = 'waiting'"),
      putTarget: db.prepare(
        "INSERT INTO notify_target (name, kind, settings, created_at) VALUES (@name, @kind, @settings, @created_at) ON CONFLICT (name) DO UPDATE SET kind = @kind, settings = @settings",
      ),
      dropTarget: db.prepare("DELETE FROM notify_target WHERE name = ?"),
      dropWaiting: db.prepare("DELETE FROM notify_message WHERE target = ? AND state = 'waiting'"),
      setRules: db.prepare("UPDATE notify_setting SET rules = ?"),
      read: db.prepare("UPDATE notify_setting SET read_up_to = max(read_up_to, ?)"),
      pruneNotices: db.prepare(
        "DELETE FROM notice WHERE spread = 1 AND (at < @before OR id <= (SELECT max(id) FROM notice) - @kept)",
      ),
      pruneMessages: db.prepare(
        `DELETE FROM notify_message WHERE state <> 'waiting' AND (created_at < @before OR created_at <=
           (SELECT created_at FROM notify_message ORDER BY created_at DESC LIMIT 1 OFFSET @kept))`,
      ),
    };
  }

  /** For the reads of notify-reads.ts too. Statements are prepared once. */
  readonly all: All = <Row>(sql: string, ...args: unknown[]) => {
    let statement = this.#reads.get(sql);
    if (!statement) this.#reads.set(sql, (statement = this.#db.prepare(sql)));
    return statement.all(...args) as Row[];
  };

  /** False if the same fact was recorded before. */
  insert(notice: NewNotice): boolean {
    return this.#s.notice.run(notice).changes > 0;
  }
  /** Notices without messages, oldest first. */
  fresh(max: number): NoticeRow[] {
    return this.all<NoticeRow>("SELECT * FROM notice WHERE spread = 0 ORDER BY id LIMIT ?", max);
  }
  spread(id: number): void {
    this.#s.spread.run(id);
  }
  notices(ids: readonly number[]): NoticeRow[] {
    return this.all<NoticeRow>(
      "SELECT * FROM notice WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
      JSON.stringify(ids),
    );
  }
  /** How many notices have a key that begins like this, and when the newest was made. */
  keyed(prefix: string): { n: number; at: number | null } {
    const [found] = this.all<{ n: number; at: number | null }>(
      "SELECT count(*) AS n, max(at) AS at FROM notice WHERE key >= ? AND key < ?",
      prefix,
      `${prefix}\u{10ffff}`,
    );
    return found ?? { n: 0, at: null };
  }
  insertMessage(
    message: Pick<
      Insertable<Tables["notify_message"]>,
      "id" | "target" | "job_id" | "kind" | "notices" | "title" | "created_at"
    >,
  ): void {
    this.#s.message.run(message);
  }
  waiting(target: string, max: number): MessageRow[] {
    return this.all<MessageRow>(
      "SELECT * FROM notify_message WHERE target = ? AND state = 'waiting' ORDER BY created_at, id LIMIT ?",
      target,
      max,
    );
  }
  waitingTargets(): string[] {
    return this.all<{ target: string }>("SELECT DISTINCT target FROM notify_message WHERE state = 'waiting'").map(
      ({ target }) => target,
    );
  }
  /** When messages were sent to the target, after an instant; ascending. */
  sentSince(target: string, after: number): number[] {
    return this.all<{ at: number }>(
      "SELECT ended_at AS at FROM notify_message WHERE target = ? AND ended_at > ? AND state = 'sent' AND kind <> 'test' ORDER BY ended_at",
      target,
      after,
    ).map(({ at }) => at);
  }
  /** Records the result of an attempt. */
  settle(row: Pick<MessageRow, "id" | "state" | "attempts" | "next_at" | "error" | "ended_at">): void {
    this.#s.settle.run(row);
  }
  /** The next attempt may be made at once. */
  hurry(target: string): void {
    this.#s.hurry.run(target);
  }
  putTarget(row: TargetRow): void {
    this.#s.putTarget.run(row);
  }
  target(name: string): TargetRow | undefined {
    return this.all<TargetRow>("SELECT * FROM notify_target WHERE name = ?", name)[0];
  }
  targets(): TargetRow[] {
    return this.all<TargetRow>("SELECT * FROM notify_target ORDER BY name");
  }
  /** Its history stays. */
  dropTarget(name: string): boolean {
    this.#s.dropWaiting.run(name);
    return this.#s.dropTarget.run(name).changes > 0;
  }
  dropWaiting(target: string): void {
    this.#s.dropWaiting.run(target);
  }
  rules(): string {
    return this.all<{ rules: string }>("SELECT rules FROM notify_setting")[0]?.rules ?? "[]";
  }
  setRules(rules: readonly string[]): void {
    this.#s.setRules.run(JSON.stringify(rules));
  }
  markRead(upTo: number): void {
    this.#s.read.run(upTo);
  }
  /** Deletes old rows, and the oldest of more than `kept`; waiting messages stay. */
  prune(limits: { before: number; kept: number }): void {
    this.#s.pruneNotices.run(limits);
    this.#s.pruneMessages.run(limits);
  }
  /** The names of metrics of a run, except the machine's own, with the last point of each; the newest first. */
  lastValues(jobId: string, max: number): { name: string; step: number; value: number | null }[] {
    return this.all<{ name: string; step: number; value: number | null }>(
      `SELECT s.name, p.step, p.value FROM series s JOIN point p ON p.series_id = s.id AND p.i = (SELECT max(i) FROM point WHERE series_id = s.id)
       WHERE s.job_id = ? AND s.name NOT LIKE 'system/%' ORDER BY p.time DESC, s.name LIMIT ?`,
      jobId,
      max,
    );
  }
  /** When a metric of a run last had a value, in milliseconds since the epoch; null if it never had one. */
  lastValueAt(jobId: string, name: string): number | null {
    const [found] = this.all<{ time: number }>(
      "SELECT p.time FROM series s JOIN point p ON p.series_id = s.id WHERE s.job_id = ? AND s.name = ? ORDER BY p.i DESC LIMIT 1",
      jobId,
      name,
    );
    return found === undefined ? null : found.time * 1_000;
  }
  /**
   * Since when svc has followed every script of a run without a break of BREAK_MS; null if it does not follow one of them now. An attempt writes
   * details once the machine has answered. One without details, or shorter than BREAK_MS, belongs to the break.
   */
  followedSince(jobId: string, now: number): number | null {
    const open = this.all<{ id: number; state: string; attempt: number; started_at: number; reached: number }>(
      `SELECT e.id, e.state, a.attempt, a.started_at, a.detail IS NOT NULL AS reached FROM effect e JOIN attempt a ON a.effect_id = e.id AND a.attempt = e.attempt
         WHERE e.job_id = ? AND e.step = 'stream' AND e.state IN ('running', 'retrying')`,
      jobId,
    );
    const isBreak = ({ state, reached, started_at }: (typeof open)[number]): boolean =>
      state === "retrying" || (reached === 0 && now - started_at >= BREAK_MS);
    if (open.length === 0 || open.some(isBreak)) return null;
    return Math.max(
      ...open.map(({ id, attempt, started_at }) =>
        now - started_at < BREAK_MS ? started_at : this.#heldSince(id, attempt, started_at),
      ),
    );
  }
  /** The start of the first of the attempts that lead to this one with short breaks between them. */
  #heldSince(effectId: number, attempt: number, startedAt: number): number {
    const earlier = this.all<{ started_at: number; ended_at: number }>(
      "SELECT started_at, ended_at FROM attempt WHERE effect_id = ? AND attempt < ? AND ended_at - started_at >= ? AND detail IS NOT NULL ORDER BY attempt DESC",
      effectId,
      attempt,
      BREAK_MS,
    );
    let since = startedAt;
    for (const { started_at, ended_at } of earlier) {
      if (since - ended_at >= BREAK_MS) break;
      since = started_at;
    }
    return since;
  }
  /** When the newest checkpoint of a run was saved; null if it has none. */
  lastCheckpointAt(jobId: string): number | null {
    const [found] = this.all<{ at: number | null }>(
      "SELECT max(saved_at) AS at FROM checkpoint WHERE job_id = ?",
      jobId,
    );
    return found?.at ?? null;
  }
  /** Machines that may cost money, with the state of their run; null without one. */
  owed(): (MachineRow & { job_state: string | null })[] {
    return this.all<MachineRow & { job_state: string | null }>(
      "SELECT m.*, j.state AS job_state FROM machine m LEFT JOIN job j ON j.id = m.job_id WHERE m.released_at IS NULL ORDER BY m.created_at",
    );
  }
  /** Machines that were reported as owed, are gone now, and whose end was not reported. */
  closed(): { name: string; job_id: string | null; provider: string; proof: string | null }[] {
    return this.all<{ name: string; job_id: string | null; provider: string; proof: string | null }>(
      `SELECT m.name, m.job_id, m.provider, m.proof FROM notice n JOIN machine m ON n.key = 'owed:' || m.name || ':1'
       WHERE n.kind = 'machine_owed' AND m.released_at IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM notice c WHERE c.key = 'closed:' || m.name)`,
    );
  }
}
