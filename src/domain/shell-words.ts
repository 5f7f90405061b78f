// Text as words of a POSIX shell.

import { assert } from "../errors/assert.ts";

/** Words of these characters alone mean themselves everywhere in a POSIX shell. */
const PLAIN = /^[A-Za-z0-9_@%+:,./-]+$/;

/**
 * One word of a POSIX shell that means exactly this text, whatever it holds. The only quoting there is: who puts data into a
 * command line does it with this, or sends the data over stdin. Whether a word that begins with `-` is an option is for the
 * command to say: put `--` before it.
 */
export const quote = (text: string): string => (PLAIN.test(text) ? text : quoted(text));

/** The same, in quotes also where it needs none: for text that people read, and that begins a longer word. */
export function quoted(text: string): string {
  assert(!text.includes("\0"), "a word of a command line cannot hold a NUL");
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A command line of these words. */
export const commandLine = (words: readonly string[]): string => words.map(quote).join(" ");
