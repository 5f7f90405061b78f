// Parses a request body as strict JSON. Input that JSON.parse accepts but a caller cannot have meant is refused: a
// repeated key (the last would win), unbounded nesting, bytes that are not UTF-8, and `__proto__`.

import { SvcError, messageOf } from "../errors/index.ts";

const DEPTH_MAX = 32;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The parsed body. Throws `invalid_json` with the reason. */
export function parseStrictJson(body: Buffer): unknown {
  let text: string;
  try {
    text = utf8.decode(body);
  } catch (cause) {
    throw new SvcError("invalid_json", { reason: "it is not valid UTF-8" }, { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SvcError("invalid_json", { reason: unquoted(messageOf(cause)) }, { cause });
  }
  const fault = faultOf(text);
  if (fault !== null) throw new SvcError("invalid_json", { reason: fault });
  return value;
}

/** The parser's message without its quotes of the text, which may contain a secret. */
const unquoted = (words: string): string =>
  words.replace(/, (\.\.\.)?".*"(\.\.\.)? is not valid JSON$/s, "").slice(0, 200);

/** One pass over text that is known to be valid JSON; null if it has no fault. */
function faultOf(text: string): string | null {
  /** One entry for each open bracket: the keys seen in an object, null for a list. */
  const open: (Set<string> | null)[] = [];
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "{" || c === "[") {
      open.push(c === "{" ? new Set() : null);
      if (open.length > DEPTH_MAX) return `it is nested more than ${DEPTH_MAX} deep`;
    } else if (c === "}" || c === "]") {
      open.pop();
    } else if (c === '"') {
      const start = i;
      for (i++; text[i] !== '"'; i++) if (text[i] === "\\") i++;
      const keys = open.at(-1);
      if (!keys || !isKey(text, i + 1)) continue;
      const key = String(JSON.parse(text.slice(start, i + 1)));
      if (key === "__proto__") return "the key __proto__ is not allowed";
      if (keys.has(key)) return `the key ${JSON.stringify(key.slice(0, 100))} appears twice in one object`;
      keys.add(key);
    }
  }
  return null;
}

/** Whether the string that ended just before `at` is followed by a colon. */
function isKey(text: string, at: number): boolean {
  while (text[at] === " " || text[at] === "\n" || text[at] === "\r" || text[at] === "\t") at++;
  return text[at] === ":";
}
