// The names of notifications: what happened, and where a message can go. This file loads no zod, so that the command
// line and the dashboard can list the names; `notify.ts` builds its schemas from it.

/** The kinds of notices. */
export const NOTICE_KINDS = [
  "finished",
  "failed",
  "stuck",
  "waiting_long",
  "placement_changed",
  "budget_75",
  "budget_90",
  "budget_100",
  "price_raised",
  "no_checkpoint",
  "machine_owed",
  "machine_closed",
  "alert",
  "metric",
  "runs_removed",
] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** Every target receives these: a machine that costs money for nothing must not depend on a filter. */
export const ALWAYS_SENT: readonly NoticeKind[] = ["machine_owed", "machine_closed"];

export const TARGET_KINDS = ["ntfy", "slack", "discord", "webhook", "email", "desktop", "command"] as const;
export type TargetKind = (typeof TARGET_KINDS)[number];

/** Their secret is the address itself, so there is none without it. */
const NEEDS_SECRET: ReadonlySet<TargetKind> = new Set(["slack", "discord"]);
export const needsSecret = (kind: TargetKind): boolean => NEEDS_SECRET.has(kind);

/** The fields of each kind in addition to `kind`, for the SDKs: the needed ones, and the others. `NotifyTarget` is their schema. */
export const TARGET_FIELDS: Record<TargetKind, { needed: readonly string[]; others: readonly string[] }> = {
  ntfy: { needed: ["topic"], others: ["url", "secret_ref", "events", "allow_private"] },
  slack: { needed: ["secret_ref"], others: ["events", "allow_private"] },
  discord: { needed: ["secret_ref"], others: ["events", "allow_private"] },
  webhook: { needed: ["url"], others: ["secret_ref", "events", "allow_private"] },
  email: { needed: ["host", "from", "to"], others: ["port", "user", "secret_ref", "events", "allow_private"] },
  desktop: { needed: [], others: ["events"] },
  command: { needed: ["argv"], others: ["events"] },
};

/** `merged`: a digest reports it instead. `gave_up`: svc has stopped retrying, or the target refuses the message for good. */
export const DELIVERY_STATES = ["waiting", "sent", "merged", "gave_up"] as const;

/** How urgent a notification is. */
export type NoticeLevel = "info" | "warning" | "urgent";

const LEVELS: Record<NoticeKind, NoticeLevel> = {
  finished: "info",
  failed: "warning",
  stuck: "warning",
  waiting_long: "info",
  placement_changed: "info",
  budget_75: "info",
  budget_90: "warning",
  budget_100: "warning",
  price_raised: "warning",
  no_checkpoint: "warning",
  machine_owed: "urgent",
  machine_closed: "info",
  alert: "warning",
  metric: "warning",
  runs_removed: "info",
};
export const levelOf = (kind: NoticeKind): NoticeLevel => LEVELS[kind];
