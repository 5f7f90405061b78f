// Shapes of notifications: targets, rules, notices and their deliveries.

import { z } from "zod";
import { line } from "./line.ts";
import { DELIVERY_STATES, needsSecret, NOTICE_KINDS, TARGET_KINDS } from "./notify-names.ts";
import { SecretRef } from "./secret-ref.ts";

const Instant = z.iso.datetime();

export const TargetName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "must be 1 to 63 lower-case letters, digits, - or _, and not begin with - or _")
  .meta({ id: "NotifyTargetName", title: "Name" });

const webAddress = z
  .string()
  .max(2_048)
  .refine((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol), "must be an http or https address")
  .refine(
    (text) => !URL.canParse(text) || (new URL(text).username === "" && new URL(text).password === ""),
    "must not hold a password; use secret_ref",
  );
const address = line(320).regex(/^[^\s@<>,;"]+@[^\s@<>,;"]+$/, "must be an e-mail address, such as me@example.com");

const shared = {
  events: z.array(z.enum(NOTICE_KINDS)).max(NOTICE_KINDS.length).optional().meta({
    description:
      "What this target receives; everything by default. Messages about machines that may cost money are always sent.",
  }),
  allow_private: z.boolean().optional().meta({
    title: "Allow private addresses",
    description:
      "Allows an address inside your network or on this computer, and plain http there. Without it svc connects to public addresses over https only.",
  }),
};
const secret = { secret_ref: SecretRef.optional().meta({ title: "Reference to the secret" }) };

/** A target of messages. */
export const NotifyTarget = z
  .discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("ntfy"),
      url: webAddress.default("https://ntfy.sh").meta({ title: "Server" }),
      topic: z
        .string()
        .regex(/^[-_A-Za-z0-9]{1,64}$/, "must be 1 to 64 letters, digits, - or _")
        .meta({ description: "Anyone who knows its name can read it: choose a long random one." }),
      ...secret,
      ...shared,
    }),
    z.strictObject({ kind: z.literal("slack"), ...secret, ...shared }),
    z.strictObject({ kind: z.literal("discord"), ...secret, ...shared }),
    z.strictObject({ kind: z.literal("webhook"), url: webAddress.meta({ title: "Address" }), ...secret, ...shared }),
    z.strictObject({
      kind: z.literal("email"),
      host: z
        .string()
        .regex(/^[A-Za-z0-9.:[\]-]{1,253}$/, "must be a host name or an address")
        .meta({
          title: "SMTP host",
        }),
      port: z.int().min(1).max(65_535).default(587),
      user: line(320).optional().meta({ description: "Without it, the sender's address." }),
      from: address,
      to: z.array(address).min(1).max(20).meta({ title: "Recipients" }),
      ...secret,
      ...shared,
    }),
    z.strictObject({ kind: z.literal("desktop"), events: shared.events }),
    z.strictObject({
      kind: z.literal("command"),
      argv: z.array(line(4_096)).min(1, "must name a program").max(64).meta({
        title: "Program and arguments",
        description: "It runs without a shell and gets the message as JSON on its standard input.",
      }),
      events: shared.events,
    }),
  ])
  .meta({ id: "NotifyTarget", title: "Notification target" });
export type NotifyTarget = z.infer<typeof NotifyTarget>;

/** The fault of a target whose fields are valid one by one; null without one. */
export function targetProblem(target: NotifyTarget, hasSecret: boolean): { field: string; message: string } | null {
  if (needsSecret(target.kind) && !hasSecret)
    return { field: "secret_ref", message: `is required: it names the address of the ${target.kind} webhook` };
  if ("url" in target && target.url.startsWith("http:") && target.allow_private !== true)
    return {
      field: "url",
      message: "must begin with https://, unless allow_private=true allows an address of this network",
    };
  return null;
}

export const NotifyTargetBody = z
  .strictObject({
    target: NotifyTarget,
    secret: line(4_096).optional().meta({
      description:
        "The secret itself, instead of `secret_ref`: the address of a Slack or Discord webhook, the key that signs a webhook's messages, a token, a password. svc keeps it in credentials.json and never shows it.",
    }),
  })
  .meta({ id: "NotifyTargetBody" });
export type NotifyTargetBody = z.infer<typeof NotifyTargetBody>;

const Counted = z.int().min(0);

/** A target in the API's answers: without its secret. */
export const ShownTarget = z
  .object({
    name: z.string(),
    kind: z.enum(TARGET_KINDS),
    settings: z.record(z.string(), z.unknown()).meta({ description: "As given, without the secret." }),
    from: z.enum(["home", "registry"]).meta({ description: "`registry`: set by configure(), and read-only here." }),
    has_secret: z.boolean(),
    waiting: Counted.meta({ description: "Messages that are not sent yet." }),
    last_sent_at: Instant.nullable(),
    error: z.string().nullable().meta({ description: "Why the newest attempt failed; null if it did not." }),
    next_attempt_at: Instant.nullable(),
  })
  .meta({ id: "ShownNotifyTarget" });
export type ShownTarget = z.infer<typeof ShownTarget>;

export const Notifications = z
  .object({
    targets: z.array(ShownTarget),
    rules: z.array(z.string()).meta({ description: "The rules of this home, one a line." }),
    registry_rules: z
      .array(z.string())
      .meta({ description: "Further rules for all runs, set by configure() and read-only here." }),
    unread: Counted.meta({ description: "Notices that are newer than the last one marked as read." }),
    latest: z.int().meta({ description: "The id of the newest notice; 0 without any." }),
  })
  .meta({ id: "Notifications" });
export type Notifications = z.infer<typeof Notifications>;

export const Notice = z
  .object({
    id: z.int(),
    job_id: z.string().nullable(),
    kind: z.enum(NOTICE_KINDS),
    at: Instant,
    title: z.string(),
    text: z.string().nullable(),
    read: z.boolean(),
  })
  .meta({ id: "Notice" });
export type Notice = z.infer<typeof Notice>;
export const Notices = z
  .object({ notices: z.array(Notice), unread: Counted, next_cursor: z.string().nullable() })
  .meta({ id: "Notices" });
export type Notices = z.infer<typeof Notices>;

export const Delivery = z
  .object({
    id: z.string().meta({ description: "A repeat of the same message has the same id." }),
    target: z.string(),
    job_id: z.string().nullable(),
    kind: z.string().meta({ description: "The kind of the notice, or `digest` or `test`." }),
    title: z.string(),
    state: z.enum(DELIVERY_STATES),
    attempts: Counted,
    error: z.string().nullable(),
    created_at: Instant,
    next_attempt_at: Instant.nullable(),
    ended_at: Instant.nullable(),
  })
  .meta({ id: "NotifyDelivery" });
export type Delivery = z.infer<typeof Delivery>;
export const Deliveries = z
  .object({ deliveries: z.array(Delivery), next_cursor: z.string().nullable() })
  .meta({ id: "NotifyDeliveries" });
export type Deliveries = z.infer<typeof Deliveries>;

export const Tested = z
  .object({ sent: z.literal(true), seconds: z.number() })
  .meta({ id: "NotifyTested", description: "The target has accepted a test message." });
export type Tested = z.infer<typeof Tested>;
