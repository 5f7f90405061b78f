import type { Redactor } from "./redaction.ts";

/**
 * The value as JSON with every known secret masked. An answer without secrets, the usual case, is searched once as
 * text.
 */
export function maskedJson(value: unknown, redactor: Redactor): string {
  const text = JSON.stringify(value);
  if (redactor.empty) return text;
  // Without a backslash the JSON contains the text of each string unescaped.
  if (!text.includes("\\") && redactor.redactText(text) === text) return text;
  return JSON.stringify(redactor.redactValue(value));
}
