// Notifications for the fake control plane: targets that work, retry and fail, notices of every level, and hostile words.

import type { Delivery, Notice, Notifications, ShownTarget } from "../../src/schemas/notify.ts";
import { HOSTILE } from "./hostile.ts";

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000).toISOString();

export const shownTarget = (name: string, rest: Partial<ShownTarget> = {}): ShownTarget => ({
  name,
  kind: "ntfy",
  settings: { url: "https://ntfy.sh", topic: "my-long-random-topic" },
  from: "home",
  has_secret: false,
  waiting: 0,
  last_sent_at: ago(600),
  error: null,
  next_attempt_at: null,
  ...rest,
});

export const notice = (id: number, kind: Notice["kind"], title: string, rest: Partial<Notice> = {}): Notice => ({
  id,
  job_id: "r1-digits",
  kind,
  at: ago(1_000 - id * 10),
  title,
  text: null,
  read: id < 4,
  ...rest,
});

const delivery = (id: string, state: Delivery["state"], rest: Partial<Delivery> = {}): Delivery => ({
  id,
  target: "phone",
  job_id: "r1-digits",
  kind: "finished",
  title: "digits succeeded",
  state,
  attempts: 1,
  error: null,
  created_at: ago(300),
  next_attempt_at: null,
  ended_at: ago(299),
  ...rest,
});

export const fakeNotifications = (): Notifications => ({
  targets: [
    shownTarget("phone"),
    shownTarget("team", {
      kind: "slack",
      settings: { secret_ref: "store://notify/team/secret", events: ["failed"] },
      has_secret: true,
      waiting: 2,
      error: `The message did not reach the target team: ${HOSTILE}.`,
      next_attempt_at: new Date(Date.now() + 240_000).toISOString(),
    }),
    shownTarget("fixed", { kind: "webhook", settings: { url: "https://example.com/hook" }, from: "registry" }),
  ],
  registry_rules: ["val/acc < 0.1, stop"],
  rules: ["waiting 30m", "loss is nan, stop"],
  unread: 3,
  latest: 6,
});

/** Answers by the path below /v1/. */
export function fakeNotify(): Record<string, unknown> {
  return {
    notifications: fakeNotifications(),
    notices: {
      notices: [
        notice(6, "machine_owed", "svc-r5-ending-0 may cost money", { job_id: "r5-ending", text: HOSTILE }),
        notice(5, "failed", `${HOSTILE} failed`, { job_id: "r2-failed", text: "The script ended with exit code 1." }),
        notice(4, "budget_75", "llama finetune has used 75 % of its budget", { text: "$31.25 of $40.00 are spent." }),
        notice(3, "finished", "digits succeeded"),
      ],
      unread: 3,
      next_cursor: null,
    },
    "notices/read": { unread: 0 },
    "notifications/deliveries": {
      deliveries: [
        delivery("d5", "waiting", { attempts: 0, ended_at: null, title: "svc-r5-ending-0 may cost money" }),
        delivery("d4", "waiting", {
          target: "team",
          attempts: 3,
          error: `It answered 503: ${HOSTILE}`,
          next_attempt_at: new Date(Date.now() + 240_000).toISOString(),
          ended_at: null,
        }),
        delivery("d3", "gave_up", { target: "team", error: "It answered 400: invalid_token" }),
        delivery("d2", "merged"),
        delivery("d1", "sent", { attempts: 2, title: `${HOSTILE} failed` }),
      ],
      next_cursor: null,
    },
    "notifications/rules": (body: { rules: string[] }) => body,
    "notifications/targets/phone/test": { sent: true, seconds: 0.42 },
  };
}

/** An answer of the fake server that refuses. */
export class Refusal {
  readonly status: number;
  readonly body: Record<string, unknown>;
  constructor(status: number, code: string, detail: string, errors: { field: string; message: string }[] = []) {
    this.status = status;
    this.body = { type: `urn:svc:error:${code}`, title: code, status, code, detail, hint: "Correct it.", errors };
  }
}
