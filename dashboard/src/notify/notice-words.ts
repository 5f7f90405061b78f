// Notifications in words: the kinds of notices, the state of a delivery, and what svc understands of a rule.

import type { Delivery } from "../../../src/schemas/notify.ts";
import { parseNotifyRule, type NotifyRule } from "../../../src/schemas/notify-rule.ts";
import type { NoticeKind } from "../../../src/schemas/notify-names.ts";
import { duration, number, plural } from "../format.ts";

export const NOTICE_WORDS: Readonly<Record<NoticeKind, string>> = {
  finished: "A run succeeded or was cancelled",
  failed: "A run failed, timed out or was interrupted",
  stuck: "A run may be stuck",
  waiting_long: "A run has waited long for a machine",
  placement_changed: "A run continues on another machine",
  budget_75: "75 % of a budget is spent",
  budget_90: "90 % of a budget is spent",
  budget_100: "A run has reached its budget",
  price_raised: "A provider has raised a price",
  no_checkpoint: "A run saves no checkpoint",
  machine_owed: "A machine may cost money and no run needs it",
  machine_closed: "Such a machine is proven gone",
  alert: "A script called svc.alert()",
  metric: "A rule about a metric was met",
  runs_removed: "The retention rule has removed runs",
};

type Tone = "good" | "warn" | "bad" | "quiet";

/** Targets whose oldest waiting message is retried: their other messages wait for it. */
export const failingTargets = (deliveries: readonly Delivery[]): ReadonlySet<string> =>
  new Set(deliveries.flatMap(({ state, attempts, target }) => (state === "waiting" && attempts > 0 ? [target] : [])));

/**
 * The state of a message and its next attempt.
 *
 * @param now milliseconds since the epoch
 * @param failing targets that have not accepted an earlier message yet
 */
export function deliveryWords(
  delivery: Delivery,
  now: number,
  failing: ReadonlySet<string>,
): { words: string; tone: Tone } {
  const { state, attempts, next_attempt_at: next } = delivery;
  const tries = attempts > 1 ? ` after ${plural(attempts, "attempt")}` : "";
  if (state === "sent") return { words: `delivered${tries}`, tone: "good" };
  if (state === "merged") return { words: "part of a digest", tone: "quiet" };
  if (state === "gave_up") return { words: `failed${tries}`, tone: "bad" };
  if (attempts === 0)
    return { words: failing.has(delivery.target) ? "waits for the message before it" : "being sent", tone: "quiet" };
  const due = next === null ? 0 : Date.parse(next) - now;
  const when = due <= 0 ? "now" : `in ${duration(Math.ceil(due / 1_000) * 1_000)}`;
  return { words: `retrying ${when}, ${plural(attempts, "attempt")} so far`, tone: "warn" };
}

/** Says how svc reads the line, or why it cannot. */
export function ruleWords(line: string): { words: string; isWrong: boolean } {
  const rule = parseNotifyRule(line);
  if (typeof rule === "string") return { words: rule, isWrong: true };
  return { words: `${reportOf(rule)}${rule.stop ? ", and ends it like a kill" : ""}.`, isWrong: false };
}

function reportOf(rule: NotifyRule): string {
  switch (rule.kind) {
    case "waiting":
      return `Reports a run that gets no machine for ${plural(rule.minutes, "minute")}`;
    case "no_checkpoint":
      return `Reports a running script that saves no checkpoint for ${plural(rule.minutes, "minute")}`;
    case "silent":
      return `Reports a run that logs no ${rule.metric} for ${plural(rule.minutes, "minute")}`;
    case "nan":
      return `Reports a run whose ${rule.metric} is NaN or infinite`;
    case "above":
      return `Reports a run whose ${rule.metric} is ${rule.or_equal ? "at least" : "above"} ${number(rule.bound)}`;
    case "below":
      return `Reports a run whose ${rule.metric} is ${rule.or_equal ? "at most" : "below"} ${number(rule.bound)}`;
  }
}
