import type { Redactor } from "./redaction.ts";

/**
 * The value as JSON with every known secret masked. An answer without secrets, the usual case, is searched once as
 * text.
 */
export function maskedJson(value: unknown, redactor: Redactor): string {
  const text = JSON.stringify(value);
  return isClean(text, redactor) ? text : JSON.stringify(redactor.redactValue(value));
}

/** The same for a value of JSON; without secrets the value itself. A search of each of its strings would take longer. */
export function maskedValue<T>(value: T, redactor: Redactor): T {
  const text: string | undefined = JSON.stringify(value);
  return text !== undefined && isClean(text, redactor) ? value : redactor.redactValue(value);
}

/** Without a backslash the JSON contains the text of each string unescaped. */
const isClean = (json: string, redactor: Redactor): boolean =>
  redactor.empty || (!json.includes("\\") && redactor.redactText(json) === json);
