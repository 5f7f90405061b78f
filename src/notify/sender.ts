// The contract of a kind of target: one message out, or an error that says whether another attempt can help.

import type { Redactor } from "../domain/redaction.ts";
import { oneLine } from "../domain/terminal-text.ts";
import type { NotifyTarget } from "../schemas/notify.ts";
import type { NotifyMessage } from "./message.ts";
import type { Resolver } from "./public-address.ts";

export interface SendContext {
  /** The target's name, for messages. */
  name: string;
  /** The resolved secret; null if the target has none. */
  secret: string | null;
  /** Masks what a receiver repeats of its secret and of its address. */
  quiet: Redactor;
  /** Ends the attempt. */
  signal: AbortSignal;
  env: NodeJS.ProcessEnv;
  now: number;
  resolver?: Resolver;
}

/**
 * Sends one message. Throws `notify_refused` if this message will never be accepted, and `notify_unreachable`,
 * `notify_address` or `notify_secret` if a later attempt may succeed.
 */
export type Send<Kind extends NotifyTarget["kind"]> = (
  message: NotifyMessage,
  target: Extract<NotifyTarget, { kind: Kind }>,
  context: SendContext,
) => Promise<void>;

const QUOTED_MAX = 200;

/**
 * What a receiver said, as one short line for an error. Its secrets are masked before the line is cut: half a secret at the cut
 * would be found by no redactor.
 */
export const saidBy = (said: string, { quiet }: Pick<SendContext, "quiet">): string =>
  oneLine(quiet.redactCut(said), QUOTED_MAX);
