import type { Redactor } from "./redaction.ts";

/** The value as JSON with every known secret masked. An answer without one, which is nearly every answer, is looked through once as text. */
export function maskedJson(value: unknown, redactor: Redactor): string {
  const text = JSON.stringify(value);
  if (redactor.empty) return text;
  // Without a backslash the text of each string stands in the JSON as it is.
  if (!text.includes("\\") && redactor.redactText(text) === text) return text;
  return JSON.stringify(redactor.redactValue(value));
}
