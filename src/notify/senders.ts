// Every kind of target, and what sends to it. The library for e-mail is loaded with the first message that needs it.

import type { NotifyTarget } from "../schemas/notify.ts";
import { sendDiscord, sendNtfy, sendSlack } from "./http-kinds.ts";
import { sendCommand, sendDesktop } from "./local-kinds.ts";
import type { NotifyMessage } from "./message.ts";
import type { SendContext } from "./sender.ts";
import { sendWebhook } from "./webhook.ts";

export async function sendTo(message: NotifyMessage, target: NotifyTarget, context: SendContext): Promise<void> {
  switch (target.kind) {
    case "ntfy":
      return sendNtfy(message, target, context);
    case "slack":
      return sendSlack(message, target, context);
    case "discord":
      return sendDiscord(message, target, context);
    case "webhook":
      return sendWebhook(message, target, context);
    case "email":
      return (await import("./email.ts")).sendEmail(message, target, context);
    case "desktop":
      return sendDesktop(message, target, context);
    case "command":
      return sendCommand(message, target, context);
  }
}
