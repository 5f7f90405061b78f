/**
 * A name from a caller, made safe for a message: truncated if it is long, without characters that a terminal obeys, and
 * without quotes.
 */
export const quotedName = (name: string, lengthMax = 200): string =>
  JSON.stringify(name.slice(0, lengthMax)).slice(1, -1);
