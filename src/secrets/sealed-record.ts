// A record on the disk without a secret in clear: what can be read is masked, and the record as it was is kept sealed beside it.

import type { Redactor } from "../domain/redaction.ts";
import { sealText, unsealText } from "./sealed.ts";

/** The record itself where it holds no secret; else the masked one, with `sealed`. */
export function sealRecord<T extends object>(record: T, key: Buffer, secrets: Redactor): T & { sealed?: string } {
  const masked = secrets.redactValue(record);
  const text = JSON.stringify(record);
  return JSON.stringify(masked) === text ? record : { ...masked, sealed: sealText(text, key).toString("base64") };
}

/** What was sealed; the record as it lies there where nothing was, or where it was not with this key. */
export function unsealRecord<T extends object>(record: T, key: Buffer): T {
  const { sealed, ...read } = record as { sealed?: unknown };
  const text = typeof sealed === "string" ? unsealText(Buffer.from(sealed, "base64"), key) : null;
  // Authenticated: nobody but `sealRecord` wrote it.
  return (text === null ? read : JSON.parse(text)) as T;
}
