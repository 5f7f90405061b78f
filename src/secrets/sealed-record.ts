// Stores a record without a secret in clear: the readable part is masked, and the original is kept sealed next to it.

import type { Redactor } from "../domain/redaction.ts";
import { sealText, unsealText } from "./sealed.ts";

/** The record itself if it holds no secret; otherwise the masked record, with `sealed`. */
export function sealRecord<T extends object>(record: T, key: Buffer, secrets: Redactor): T & { sealed?: string } {
  const masked = secrets.redactValue(record);
  const text = JSON.stringify(record);
  return JSON.stringify(masked) === text ? record : { ...masked, sealed: sealText(text, key).toString("base64") };
}

/** The original record; the stored one if nothing was sealed, or if another key sealed it. */
export function unsealRecord<T extends object>(record: T, key: Buffer): T {
  const { sealed, ...read } = record as { sealed?: unknown };
  const text = typeof sealed === "string" ? unsealText(Buffer.from(sealed, "base64"), key) : null;
  // Authenticated: only `sealRecord` can have written it.
  return (text === null ? read : JSON.parse(text)) as T;
}
