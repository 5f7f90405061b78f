// Sends a message to a program of the user: JSON, signed so that the receiver can tell it from a forgery or an old copy.
//
//     svc-id         the same in every repeat of this message
//     svc-timestamp  seconds since the epoch, of this attempt
//     svc-signature  v1=<hex of HMAC-SHA256 over "<svc-timestamp>.<body>">, with the target's secret

import { createHmac } from "node:crypto";
import { post } from "./post.ts";
import type { Send } from "./sender.ts";
import { textOfMessage } from "./message.ts";

export const sendWebhook: Send<"webhook"> = async (message, target, context) => {
  const body = JSON.stringify({ ...message, text: textOfMessage(message) });
  const timestamp = String(Math.floor(context.now / 1_000));
  const signed =
    context.secret === null ? {} : { "svc-signature": `v1=${signatureOf(context.secret, timestamp, body)}` };
  await post({
    target: context.name,
    url: target.url,
    headers: { "content-type": "application/json", "svc-id": message.id, "svc-timestamp": timestamp, ...signed },
    body,
    allowPrivate: target.allow_private === true,
    ...context,
  });
};

export const signatureOf = (secret: string, timestamp: string, body: string): string =>
  createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex");
