// Sends the messages. It follows the rows alone: a process that ends at any moment leaves everything that the next one needs.
//
// N1. No run waits for a message, and no message for another target: each target has a lane of its own.
// N2. A message is sent at least once. Every repeat has its id.
// N3. Failures are retried with growing delays for a day; what a target refuses for good is not sent again.
// N4. More than BURST messages in a minute become one digest, and so do messages that wait behind a failing target: its reader
//     gets the present state once, instead of what was true.
// N5. Every attempt ends by ATTEMPT_MS.

import { nanoid } from "nanoid";
import type { Clock } from "../domain/clock.ts";
import { Redactor } from "../domain/redaction.ts";
import { asSvcError, SvcError } from "../errors/index.ts";
import { ALWAYS_SENT, type NoticeKind } from "../schemas/notify-names.ts";
import type { NotifyStore } from "../store/notify-store.ts";
import type { MessageRow, NoticeRow } from "../store/tables.ts";
import {
  digestMessage,
  digestTitle,
  noticeMessage,
  testMessage,
  type MessageParts,
  type NotifyMessage,
} from "./message.ts";
import { RetryAfter } from "./post.ts";
import { sendTo } from "./senders.ts";
import type { Resolver } from "./public-address.ts";
import { quotableIn } from "./target-secrets.ts";
import type { NamedTarget, Targets } from "./targets.ts";

export const ATTEMPT_MS = 15_000;
const DELAY_MS_MIN = 2_000;
const DELAY_MS_MAX = 3_600_000;
export const GIVE_UP_MS = 24 * 3_600_000;
/** Messages to one target in one minute; more become a digest. */
export const BURST = 10;
const MINUTE_MS = 60_000;
/** Messages that wait longer behind a failure are summed up. */
export const BEHIND_MS = 15 * MINUTE_MS;
const SPREAD_AT_ONCE = 500;
const KEPT = 5_000;
const KEPT_MS = 90 * 24 * 3_600_000;
const PRUNE_EVERY_MS = 3_600_000;
/** Even a long wait is checked again after this time: clocks jump and laptops sleep. */
const LOOK_MS = 30_000;

export interface NotifierParts {
  env: NodeJS.ProcessEnv;
  clock: Clock;
  rows: NotifyStore;
  targets: Targets;
  /** Durable when it resolves. */
  commit: <T>(fn: () => T) => Promise<T>;
  message: MessageParts;
  report: (line: string) => void;
  /** Called when notices or deliveries have changed. */
  changed?: () => void;
  resolver?: Resolver;
}

interface Lane {
  /** Ends the wait for new messages; null while it works. */
  wake: (() => void) | null;
  asked: boolean;
  ended: Promise<void>;
}

export interface NotifyCounts {
  kind: string;
  result: "sent" | "failed" | "gave_up";
  n: number;
}

export class Notifier {
  readonly #o: NotifierParts;
  readonly #stop = new AbortController();
  readonly #lanes = new Map<string, Lane>();
  readonly #counts = new Map<string, NotifyCounts>();
  #spreading: Promise<void> | null = null;
  #again = false;
  #active = false;
  #pruneAt = 0;

  constructor(parts: NotifierParts) {
    this.#o = parts;
  }

  begin(): void {
    this.#active = true;
    this.look();
  }

  /** Resumes everything that is waiting. Called again from time to time: a full disk may have ended a lane. */
  look(): void {
    if (!this.#active || this.#stop.signal.aborted) return;
    for (const name of this.#o.rows.waitingTargets()) this.#ask(name);
    this.wake();
  }

  /** There are new notices. */
  wake(): void {
    if (!this.#active || this.#stop.signal.aborted) return;
    this.#again = true;
    this.#spreading ??= this.#spreadAll().finally(() => {
      this.#spreading = null;
      // A notice may have arrived after the last query.
      if (this.#again) this.wake();
    });
  }

  /** Sends what waits for a target now: its settings have changed. */
  async retry(name: string): Promise<void> {
    await this.#o.commit(() => this.#o.rows.hurry(name));
    this.#ask(name);
  }

  /** Sends one message now, and records it. Throws what is wrong. */
  async test(found: NamedTarget): Promise<number> {
    const { clock, rows } = this.#o;
    const id = nanoid();
    const message = testMessage(id, found.name, clock.now());
    const begun = clock.monotonic();
    const row = { id, target: found.name, job_id: null, kind: "test", notices: "[]", title: message.title };
    const error = await this.#attempt(found, message);
    const now = clock.now();
    await this.#o.commit(() => {
      rows.insertMessage({ ...row, created_at: now });
      const state = error === null ? "sent" : "gave_up";
      rows.settle({ id, state, attempts: 1, next_at: null, error: error?.message ?? null, ended_at: now });
    });
    this.#o.changed?.();
    if (error !== null) throw error;
    return (clock.monotonic() - begun) / 1_000;
  }

  counts(): NotifyCounts[] {
    return [...this.#counts.values()];
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error("the control plane is shutting down"));
    for (const lane of this.#lanes.values()) lane.wake?.();
    await this.#spreading;
    await Promise.all([...this.#lanes.values()].map((lane) => lane.ended));
  }

  // From notices to messages

  /** Never rejects. */
  async #spreadAll(): Promise<void> {
    try {
      while (this.#again && !this.#stop.signal.aborted) {
        this.#again = false;
        const fresh = this.#o.rows.fresh(SPREAD_AT_ONCE);
        if (fresh.length === 0) break;
        this.#again = fresh.length === SPREAD_AT_ONCE;
        await this.#spread(fresh);
      }
      await this.#prune();
    } catch (e) {
      // The rows stay: the next pass spreads them.
      this.#again = false;
      this.#o.report(`Notifications could not be recorded: ${asSvcError(e).message}`);
    }
  }

  async #spread(fresh: readonly NoticeRow[]): Promise<void> {
    const { rows, targets } = this.#o;
    const all = targets.list();
    const asked = new Set<string>();
    await this.#o.commit(() => {
      for (const notice of fresh) {
        for (const one of all.filter((each) => wants(each, notice))) {
          const { job_id, kind, title } = notice;
          const notices = JSON.stringify([notice.id]);
          rows.insertMessage({ id: nanoid(), target: one.name, job_id, kind, notices, title, created_at: notice.at });
          asked.add(one.name);
        }
        rows.spread(notice.id);
      }
    });
    this.#o.changed?.();
    for (const name of asked) this.#ask(name);
  }

  async #prune(): Promise<void> {
    const now = this.#o.clock.now();
    if (now < this.#pruneAt) return;
    this.#pruneAt = now + PRUNE_EVERY_MS;
    await this.#o.commit(() => this.#o.rows.prune({ before: now - KEPT_MS, kept: KEPT }));
  }

  // Lanes

  #ask(name: string): void {
    if (!this.#active || this.#stop.signal.aborted) return;
    const lane = this.#lanes.get(name);
    if (lane) {
      lane.asked = true;
      lane.wake?.();
      return;
    }
    const made: Lane = { wake: null, asked: true, ended: Promise.resolve() };
    this.#lanes.set(name, made);
    let failed = false;
    made.ended = this.#drive(name, made)
      .catch((e: unknown) => {
        failed = true;
        this.#o.report(`Messages to ${name}: ${asSvcError(e).message}`);
      })
      .finally(() => {
        this.#lanes.delete(name);
        // A message may have arrived after the last query.
        if (made.asked && !failed) this.#ask(name);
      });
  }

  /** Ends when nothing is waiting for the target. */
  async #drive(name: string, lane: Lane): Promise<void> {
    while (!this.#stop.signal.aborted) {
      lane.asked = false;
      const open = this.#o.rows.waiting(name, SPREAD_AT_ONCE);
      const [first] = open;
      if (first === undefined) {
        if (!lane.asked) return;
        continue;
      }
      const now = this.#o.clock.now();
      const due = Math.min(first.next_at ?? now, now + DELAY_MS_MAX);
      const room = this.#roomAt(name, now);
      const at = Math.max(due, room.at);
      if (at > now) {
        await this.#wait(lane, Math.min(at - now, LOOK_MS));
        continue;
      }
      const found = this.#o.targets.get(name);
      if (found === undefined) {
        await this.#o.commit(() => this.#o.rows.dropWaiting(name));
        continue;
      }
      const late = first.attempts > 0 && now - first.created_at > BEHIND_MS;
      const row = open.length > 1 && (late || open.length > room.left) ? await this.#merged(name, open) : first;
      await this.#send(found, row);
    }
  }

  /** N4: how many messages may still go out in this minute, and when the next one may. */
  #roomAt(name: string, now: number): { left: number; at: number } {
    const sent = this.#o.rows.sentSince(name, now - MINUTE_MS);
    const left = BURST - sent.length;
    return { left, at: left > 0 ? now : (sent[sent.length - BURST] ?? now) + MINUTE_MS };
  }

  /** N4: one new message in place of these. */
  async #merged(target: string, open: readonly MessageRow[]): Promise<MessageRow> {
    const { rows, clock } = this.#o;
    const ids = open.flatMap((row) => idsOf(row));
    const now = clock.now();
    const row: MessageRow = {
      id: nanoid(),
      target,
      job_id: null,
      kind: "digest",
      notices: JSON.stringify(ids),
      title: digestTitle(ids.length),
      state: "waiting",
      attempts: 0,
      next_at: null,
      error: null,
      // Its day of retries begins with the newest of them.
      created_at: open.at(-1)?.created_at ?? now,
      ended_at: null,
    };
    await this.#o.commit(() => {
      for (const { id, attempts, error } of open)
        rows.settle({ id, state: "merged", attempts, next_at: null, error, ended_at: now });
      rows.insertMessage(row);
    });
    return row;
  }

  /** Resolves after ms, or when the lane is woken to check again. */
  #wait(lane: Lane, ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stop.signal.aborted) return resolve();
      const done = (): void => {
        timer.cancel();
        lane.wake = null;
        resolve();
      };
      const timer = this.#o.clock.setTimer(ms, () => done());
      timer.unref?.();
      lane.wake = done;
    });
  }

  async #send(found: NamedTarget, row: MessageRow): Promise<void> {
    const { rows, clock, message: parts } = this.#o;
    const notices = rows.notices(idsOf(row));
    const [only] = notices;
    const ended = { id: row.id, next_at: null, ended_at: clock.now() };
    if (only === undefined) {
      // Its run was removed.
      await this.#o.commit(() => rows.settle({ ...ended, state: "merged", attempts: row.attempts, error: null }));
      return;
    }
    const message = row.kind === "digest" ? digestMessage(row.id, notices, parts) : noticeMessage(row.id, only, parts);
    const error = await this.#attempt(found, message);
    if (this.#stop.signal.aborted && error !== null) return;
    const attempts = row.attempts + 1;
    const now = clock.now();
    if (error === null) {
      await this.#o.commit(() => rows.settle({ ...ended, state: "sent", attempts, error: null, ended_at: now }));
    } else {
      const over = error.code === "notify_refused" || now - row.created_at > GIVE_UP_MS;
      if (over) this.#count(found, "gave_up");
      await this.#o.commit(() =>
        rows.settle({
          id: row.id,
          state: over ? "gave_up" : "waiting",
          attempts,
          next_at: over ? null : now + delayMs(attempts, error),
          error: error.message,
          ended_at: over ? now : null,
        }),
      );
    }
    this.#o.changed?.();
  }

  /** N5. Resolves with the error, in which no secret of the target is left. */
  async #attempt(found: NamedTarget, message: NotifyMessage): Promise<SvcError | null> {
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(ATTEMPT_MS)]);
    const { env, clock, targets, resolver } = this.#o;
    let secret: string | null = null;
    try {
      secret = targets.secretOf(found);
      const quiet = new Redactor(quotableIn(found.target, secret));
      const shared = { name: found.name, secret, quiet, signal, env, now: clock.now() };
      await sendTo(message, found.target, resolver ? { ...shared, resolver } : shared);
      this.#count(found, "sent");
      return null;
    } catch (e) {
      this.#count(found, "failed");
      return quietError(asSvcError(e), new Redactor(quotableIn(found.target, secret)));
    }
  }

  #count({ target }: NamedTarget, result: NotifyCounts["result"]): void {
    const key = `${target.kind} ${result}`;
    const count = this.#counts.get(key) ?? { kind: target.kind, result, n: 0 };
    this.#counts.set(key, { ...count, n: count.n + 1 });
  }
}

/** Whether the target is to receive the notice. */
function wants({ target }: NamedTarget, { kind }: NoticeRow): boolean {
  const names: readonly string[] | undefined = target.events;
  const always: readonly string[] = ALWAYS_SENT satisfies readonly NoticeKind[];
  return names === undefined || names.includes(kind) || always.includes(kind);
}

function idsOf({ notices }: Pick<MessageRow, "notices">): number[] {
  const ids: unknown = JSON.parse(notices);
  return Array.isArray(ids) ? ids.filter((id) => typeof id === "number") : [];
}

/** N3: doubling from two seconds to an hour, or what the target asks for. */
function delayMs(attempts: number, error: SvcError): number {
  const grown = Math.min(DELAY_MS_MAX, DELAY_MS_MIN * 2 ** Math.min(20, attempts - 1));
  return error instanceof RetryAfter ? Math.max(grown, error.delayMs) : grown;
}

/** The error without the target's secret: a server may repeat what it received. */
function quietError(error: SvcError, redactor: Redactor): SvcError {
  if (error instanceof RetryAfter)
    return new RetryAfter(error.data.target, redactor.redactText(error.data.why), error.delayMs);
  return new SvcError(error.code, redactor.redactValue(error.data));
}
