// The notifications of a home, as the API uses them: targets, rules, tests, notices and deliveries.

import { SvcError, type FieldError } from "../errors/index.ts";
import { parseNotifyRule, RULES_MAX } from "../schemas/notify-rule.ts";
import {
  TargetName,
  type Deliveries,
  type Notices,
  type Notifications,
  type NotifyTargetBody,
  type ShownTarget,
  type Tested,
} from "../schemas/notify.ts";
import type { NotifyStore } from "../store/notify-store.ts";
import {
  countUnread,
  readDeliveries,
  readNotices,
  readNotifyRules,
  readTargetStates,
  type NotifyPage,
} from "../store/notify-reads.ts";
import type { Notifier, NotifyCounts } from "./notifier.ts";
import type { Targets } from "./targets.ts";

export interface NotifyServiceParts {
  rows: NotifyStore;
  targets: Targets;
  notifier: Notifier;
  commit: <T>(fn: () => T) => Promise<T>;
  now: () => number;
  /** The rules of the home have changed. */
  ruled: () => void;
}

export class NotifyService {
  readonly #o: NotifyServiceParts;

  constructor(parts: NotifyServiceParts) {
    this.#o = parts;
  }

  overview(): Notifications {
    const { rows, targets } = this.#o;
    const select = rows.all;
    const states = readTargetStates(select);
    return {
      targets: targets.list().map((each) => targets.shown(each, states)),
      rules: readNotifyRules(select),
      registry_rules: [...targets.configuredRules()],
      ...countUnread(select),
    };
  }

  /** Throws `invalid_request`, `notify_read_only`, `notify_secret`, `credentials_unusable`. */
  async save(given: string, body: NotifyTargetBody): Promise<ShownTarget> {
    const { rows, targets, now, notifier } = this.#o;
    const name = nameOf(given);
    const target = targets.taken(name, body);
    const { kind } = target;
    await this.#o.commit(() => rows.putTarget({ name, kind, settings: JSON.stringify(target), created_at: now() }));
    await notifier.retry(name);
    return targets.shown({ name, target, from: "home" }, readTargetStates(this.#o.rows.all));
  }

  /** Its history stays. Throws `notify_unknown`, `notify_read_only`. */
  async remove(name: string): Promise<void> {
    const { from } = this.#found(name);
    if (from === "registry") throw new SvcError("notify_read_only", { name });
    await this.#o.commit(() => this.#o.rows.dropTarget(name));
    this.#o.targets.forget(name);
  }

  /** Sends a test message now. Throws `notify_*`. */
  async test(name: string): Promise<Tested> {
    return { sent: true, seconds: await this.#o.notifier.test(this.#found(name)) };
  }

  /** Replaces the rules of the home. Throws `invalid_request`. */
  async setRules(lines: readonly string[]): Promise<string[]> {
    const rules = lines.map((line) => line.trim()).filter((line) => line !== "");
    const errors = rules.flatMap((line, i): FieldError[] => {
      const rule = parseNotifyRule(line);
      return typeof rule === "string" ? [{ field: `rules[${i}]`, message: rule }] : [];
    });
    if (rules.length > RULES_MAX) errors.push({ field: "rules", message: `must be at most ${RULES_MAX} rules` });
    if (errors.length > 0) {
      const summary = `The rules are not valid: ${errors.map((e) => `${e.field} ${e.message}`).join("; ")}.`;
      throw new SvcError("invalid_request", { summary }, { errors });
    }
    await this.#o.commit(() => this.#o.rows.setRules(rules));
    this.#o.ruled();
    return rules;
  }

  notices(query: NotifyPage): Notices {
    const { unread } = countUnread(this.#o.rows.all);
    return { ...readNotices(this.#o.rows.all, query), unread };
  }

  async markRead(upTo: number): Promise<number> {
    const { latest } = countUnread(this.#o.rows.all);
    await this.#o.commit(() => this.#o.rows.markRead(Math.min(upTo, latest)));
    return countUnread(this.#o.rows.all).unread;
  }

  deliveries(query: NotifyPage): Deliveries {
    return readDeliveries(this.#o.rows.all, query);
  }

  /** Attempts of this process, by kind of target and result. */
  counts(): NotifyCounts[] {
    return this.#o.notifier.counts();
  }

  #found(name: string) {
    const found = this.#o.targets.get(name);
    if (found === undefined) throw new SvcError("notify_unknown", { name: name.slice(0, 64) });
    return found;
  }
}

function nameOf(given: string): string {
  const checked = TargetName.safeParse(given);
  if (checked.success) return checked.data;
  const message = checked.error.issues[0]?.message ?? "is not a name";
  throw new SvcError("invalid_request", { summary: `The name ${message}.` }, { errors: [{ field: "name", message }] });
}
