// The ticket in the link by which a browser signs in: whoever has the token of a home can make one, and it never contains the token.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

export const LINK_MINUTES = 10;

/** `time.random.proof` */
export function linkTicket(token: string, nowMs: number): string {
  const text = `${nowMs.toString(36)}.${randomBytes(16).toString("base64url")}`;
  return `${text}.${proofOf(token, text)}`;
}

/**
 * Whether the token's owner made this ticket within the last minutes, and after `since`. The caller lets it count once.
 * @param times in milliseconds since the epoch
 */
export function isTicket(given: string, token: string, times: { now: number; since: number }): boolean {
  const [, text = "", time = "", proof = ""] = /^(([0-9a-z]{1,9})\.[\w-]{22})\.([\w-]{43})$/.exec(given) ?? [];
  const madeAt = parseInt(time, 36);
  if (!(Math.abs(times.now - madeAt) <= LINK_MINUTES * 60_000) || madeAt < times.since) return false;
  return timingSafeEqual(Buffer.from(proof), Buffer.from(proofOf(token, text)));
}

const proofOf = (token: string, text: string): string =>
  createHmac("sha256", token).update(`link ${text}`).digest("base64url");
