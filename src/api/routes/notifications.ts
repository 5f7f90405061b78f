// Routes of notifications: targets, rules, notices and deliveries. src/api/server.ts serves them by the list in index.ts.

import { z } from "zod";
import { Deliveries, Notices, Notifications, NotifyTargetBody, ShownTarget, Tested } from "../../schemas/notify.ts";
import { RULE_LENGTH_MAX } from "../../schemas/notify-rule.ts";
import { ok, route, type Call } from "../route.ts";

const nameOf = (call: Call): string => call.params["name"] ?? "";
const NAMES = "`name` is yours to choose: lower-case letters, digits, `-` and `_`.";
const CHANGES = ["invalid_request", "invalid_json", "unsupported_media_type"] as const;
const SENDING = ["notify_unknown", "notify_address", "notify_secret", "notify_refused", "notify_unreachable"] as const;

const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,80}$/, "must be the next_cursor of an earlier page")
    .optional(),
});

const Unread = z.object({ unread: z.int() }).meta({ id: "NoticesUnread" });
const RemovedTarget = z.object({ removed: z.string() }).meta({ id: "NotifyTargetRemoved" });
const Rules = z.object({ rules: z.array(z.string()) }).meta({ id: "NotifyRules" });

/** Targets, rules, notices and deliveries. */
export const NOTIFICATION_ROUTES = [
  route({
    method: "GET",
    path: "/v1/notifications",
    id: "notifications",
    summary: "Targets and rules of notifications, and how many notices are unread",
    responses: { 200: { description: "Without any secret.", schema: Notifications } },
    errors: [],
    handle: (call) => ok(call.cp.notifications.overview()),
  }),
  route({
    method: "PUT",
    path: "/v1/notifications/targets/{name}",
    id: "saveNotifyTarget",
    summary: "Add or change a target",
    description: `${NAMES} The body replaces its settings; without \`secret\` and \`secret_ref\` its secret stays. Messages that wait for it are sent at once.`,
    body: NotifyTargetBody,
    responses: { 200: { description: "The target, without its secret.", schema: ShownTarget } },
    errors: [...CHANGES, "notify_read_only", "notify_secret", "credentials_unusable"],
    handle: async (call) => ok(await call.cp.notifications.save(nameOf(call), call.body)),
  }),
  route({
    method: "DELETE",
    path: "/v1/notifications/targets/{name}",
    id: "removeNotifyTarget",
    summary: "Remove a target, and the messages that wait for it",
    responses: { 200: { description: "It is removed; its history stays.", schema: RemovedTarget } },
    errors: ["notify_unknown", "notify_read_only", "credentials_unusable"],
    async handle(call) {
      await call.cp.notifications.remove(nameOf(call));
      return ok({ removed: nameOf(call) });
    },
  }),
  route({
    method: "POST",
    path: "/v1/notifications/targets/{name}/test",
    id: "testNotifyTarget",
    summary: "Send a test message now",
    body: z.strictObject({}).optional(),
    responses: { 200: { description: "The target has accepted it.", schema: Tested } },
    errors: ["invalid_request", ...SENDING],
    handle: async (call) => ok(await call.cp.notifications.test(nameOf(call))),
  }),
  route({
    method: "PUT",
    path: "/v1/notifications/rules",
    id: "setNotifyRules",
    summary: "Replace the rules of this home",
    description:
      "A rule is one line: `waiting 30m`, `no checkpoint 60m`, `loss > 10`, `loss is nan`, `loss silent 20m`; `, stop` at its end also ends the run. They apply to every run, in addition to the run's own `notify`.",
    body: z.strictObject({ rules: z.array(z.string().max(RULE_LENGTH_MAX)).max(100) }),
    responses: { 200: { description: "The rules.", schema: Rules } },
    errors: [...CHANGES],
    handle: async (call) => ok({ rules: await call.cp.notifications.setRules(call.body.rules) }),
  }),
  route({
    method: "GET",
    path: "/v1/notices",
    id: "listNotices",
    summary: "Notices, newest first",
    query: PageQuery,
    responses: { 200: { description: "A page of notices.", schema: Notices } },
    errors: ["invalid_request"],
    handle: (call) => ok(call.cp.notifications.notices(call.query)),
  }),
  route({
    method: "POST",
    path: "/v1/notices/read",
    id: "readNotices",
    summary: "Mark notices as read, up to an id",
    body: z.strictObject({ up_to: z.int().min(0) }),
    responses: { 200: { description: "How many are unread now.", schema: Unread } },
    errors: [...CHANGES],
    handle: async (call) => ok({ unread: await call.cp.notifications.markRead(call.body.up_to) }),
  }),
  route({
    method: "GET",
    path: "/v1/notifications/deliveries",
    id: "listNotifyDeliveries",
    summary: "Every message with its target and how far it got, newest first",
    query: PageQuery,
    responses: { 200: { description: "A page of deliveries.", schema: Deliveries } },
    errors: ["invalid_request"],
    handle: (call) => ok(call.cp.notifications.deliveries(call.query)),
  }),
];
