// Sends to receivers with a published format: ntfy, Slack, Discord. Each text is cut to a limit, so that
// no message is refused for its length.
//
// Limits on which the code relies: 4,096 bytes of a message at ntfy (docs.ntfy.sh/publish); 150 characters in a header and 3,000 in a
// section's text at Slack (docs.slack.dev/reference/block-kit); 256 in a title, 4,096 in a description, 25 fields of 256 and 1,024, and
// 6,000 in all at Discord (discord.com/developers/docs/resources/message). Should a receiver take less, it refuses the message, and the
// history of deliveries shows its answer. A title of 250 characters at ntfy is a choice of svc.

import { SvcError } from "../errors/index.ts";
import { withoutMarkdown, withoutMarkup } from "../domain/terminal-text.ts";
import type { NoticeLevel } from "../schemas/notify-names.ts";
import { factLine, textOfMessage, type NotifyMessage } from "./message.ts";
import { post, type PostRequest } from "./post.ts";
import type { Send, SendContext } from "./sender.ts";

const NTFY_BYTES = 4_096;
const NTFY_TITLE = 250;
const SLACK_HEADER = 150;
const SLACK_TEXT = 3_000;
const DISCORD_TITLE = 256;
const DISCORD_FIELDS = 25;
const DISCORD_NAME = 256;
const DISCORD_VALUE = 1_024;
const DISCORD_TEXT = 4_096;
const DISCORD_ALL = 6_000;

const PRIORITY: Record<NoticeLevel, number> = { info: 3, warning: 4, urgent: 5 };
const TAG: Record<NoticeLevel, string> = { info: "white_check_mark", warning: "warning", urgent: "rotating_light" };
const COLOUR: Record<NoticeLevel, number> = { info: 0x2e7d32, warning: 0xed6c02, urgent: 0xc62828 };

/** Cut by characters as the receivers count them, and never within one. */
const cut = (text: string, max: number): string => {
  if (text.length <= max) return text;
  return `${text
    .slice(0, max - 1)
    .toWellFormed()
    .replace(/\uFFFD$/, "")}…`;
};

function cutBytes(text: string, max: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= max) return text;
  return `${bytes.toString("utf8", 0, max - 3).replace(/\uFFFD+$/, "")}…`;
}

const json = (
  context: SendContext,
  target: { allow_private?: boolean | undefined },
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): PostRequest => ({
  target: context.name,
  url,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
  allowPrivate: target.allow_private === true,
  signal: context.signal,
  env: context.env,
  quiet: context.quiet,
  ...(context.resolver ? { resolver: context.resolver } : {}),
});

export const ntfyBody = (message: NotifyMessage, topic: string) => ({
  topic,
  title: cut(message.title, NTFY_TITLE),
  message: cutBytes(textOfMessage(message), NTFY_BYTES),
  priority: PRIORITY[message.level],
  tags: [TAG[message.level]],
});

export const sendNtfy: Send<"ntfy"> = (message, target, context) => {
  const headers: Record<string, string> = context.secret === null ? {} : { authorization: `Bearer ${context.secret}` };
  // Messages as JSON go to the server's root.
  return post(json(context, target, target.url, ntfyBody(message, target.topic), headers));
};

/** Shortens before escaping, so that the result has at most `max` characters and no half of an escape. */
function escapedTo(max: number, text: string, escape: (text: string) => string): string {
  for (let length = max; ; length = Math.floor(length * 0.8)) {
    const escaped = escape(cut(text, length));
    if (escaped.length <= max) return escaped;
  }
}

/** Without markup, in which `<!channel>` would call everybody. */
const slackText = (text: string, max: number): string => escapedTo(max, text, withoutMarkup);

/** Three grave accents would end a block of code. */
const inCode = (text: string): string => text.replaceAll("```", "'''");

export function slackBody(message: NotifyMessage) {
  const section = (text: string) => ({ type: "section", text: { type: "mrkdwn", text, verbatim: true } });
  const { facts, events, log, next } = message;
  const lines = [...facts.map(factLine), ...events].join("\n");
  const code = (text: string) => section(`\`\`\`${slackText(inCode(text), SLACK_TEXT - 6)}\`\`\``);
  return {
    // A phone shows this before it opens the message.
    text: slackText(message.title, SLACK_TEXT),
    blocks: [
      { type: "header", text: { type: "plain_text", text: cut(message.title, SLACK_HEADER), emoji: false } },
      ...(lines === "" ? [] : [section(slackText(lines, SLACK_TEXT))]),
      ...(log.length > 0 ? [code(log.join("\n"))] : []),
      ...(next.length > 0 ? [code(next.join("\n"))] : []),
    ],
  };
}

export const sendSlack: Send<"slack"> = (message, target, context) =>
  post(json(context, target, addressOf(context, "Slack"), slackBody(message)));

export function discordBody(message: NotifyMessage) {
  const { facts, events, log, next } = message;
  const title = escapedTo(DISCORD_TITLE, message.title, withoutMarkdown);
  let left = DISCORD_ALL - title.length;
  /** Cuts to the rest of the whole message's limit. */
  const take = (text: string, max: number, escape = withoutMarkdown): string => {
    const taken = left <= 0 ? "" : escapedTo(Math.min(max, left), text, escape);
    left -= taken.length;
    return taken;
  };
  const fields = facts.slice(0, DISCORD_FIELDS).flatMap(({ name, value }) => {
    const field = { name: take(name, DISCORD_NAME), value: take(value, DISCORD_VALUE), inline: value.length < 30 };
    return field.name === "" || field.value === "" ? [] : [field];
  });
  const code = (lines: readonly string[]): string =>
    lines.length === 0 ? "" : `\`\`\`\n${cut(inCode(lines.join("\n")), 1_800)}\n\`\`\``;
  const description = take(
    [withoutMarkdown(events.join("\n")), code(log), code(next)].filter((part) => part !== "").join("\n"),
    DISCORD_TEXT,
    (text) => text,
  );
  return {
    // A name in a log must not notify a person.
    allowed_mentions: { parse: [] },
    embeds: [
      {
        title,
        color: COLOUR[message.level],
        timestamp: message.at,
        fields,
        ...(description === "" ? {} : { description }),
      },
    ],
  };
}

export const sendDiscord: Send<"discord"> = (message, target, context) =>
  post(json(context, target, addressOf(context, "Discord"), discordBody(message)));

function addressOf({ name, secret }: SendContext, receiver: string): string {
  if (secret !== null && URL.canParse(secret) && /^https?:$/.test(new URL(secret).protocol)) return secret;
  throw new SvcError("notify_secret", { target: name, why: `its secret is not the address of a ${receiver} webhook` });
}
