// Finds what is secret in a target of notifications: its secret, and tokens that its address or its arguments hold.

import { couldBeSecret, secretArguments, secretParts } from "../domain/secret-names.ts";
import { Redactor, REDACTED } from "../domain/redaction.ts";
import type { NotifyTarget } from "../schemas/notify.ts";

/** The end of a webhook's path is its token; a shorter one is a word. */
const TOKEN_MIN = 16;

/** Everything that svc masks from now on. @param secret the resolved secret; null without one */
export function secretsIn(target: NotifyTarget, secret: string | null): string[] {
  if (target.kind === "command") return secretArguments(target.argv);
  const own = secret === null ? [] : [...secretParts(secret), ...namedIn(secret), ...tokenOf(secret)];
  return "url" in target ? [...own, ...namedIn(target.url)] : own;
}

/** In addition, what may not stand in an error that quotes a receiver: it may repeat the path that it was asked for. */
export function quotableIn(target: NotifyTarget, secret: string | null): string[] {
  const addresses = [secret ?? "", "url" in target ? target.url : ""].filter((text) => URL.canParse(text));
  const paths = addresses.flatMap((text) => {
    const { pathname, search } = new URL(text);
    return [`${pathname}${search}`, pathname, ...pathname.split("/").filter((part) => couldBeSecret(part))];
  });
  return [...secretsIn(target, secret), ...paths];
}

/** Values in the query of an address that have the name of a secret. */
const namedIn = (address: string): string[] =>
  URL.canParse(address)
    ? secretArguments([...new URL(address).searchParams].map(([name, value]) => `${name}=${value}`))
    : [];

/** The token at the end of a secret address, and the path that it ends. */
function tokenOf(address: string): string[] {
  if (!URL.canParse(address)) return [];
  const { pathname } = new URL(address);
  const last = pathname.split("/").at(-1) ?? "";
  return last.length >= TOKEN_MIN && couldBeSecret(last) ? [last, pathname] : [];
}

/** The target of a caller who read it from the API: a value that was only masked there is the stored one. */
export function unmasked(target: NotifyTarget, stored: NotifyTarget | undefined): NotifyTarget {
  if (stored === undefined) return target;
  const shown = new Redactor(secretsIn(stored, null)).redactValue(stored);
  if (target.kind === "command" && shown.kind === "command" && stored.kind === "command")
    return JSON.stringify(target.argv) === JSON.stringify(shown.argv) ? { ...target, argv: stored.argv } : target;
  if ("url" in target && "url" in shown && "url" in stored && target.url === shown.url)
    return { ...target, url: stored.url };
  return target;
}

/** The field that holds a mask instead of a value; null without one. */
export function maskedField(target: NotifyTarget): string | null {
  const found = Object.entries(target).find(([, value]) => JSON.stringify(value)?.includes(REDACTED));
  return found?.[0] ?? null;
}
