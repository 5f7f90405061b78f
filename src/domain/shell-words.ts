// Quotes and splits text as words of a POSIX shell.

import { assert } from "../errors/assert.ts";

/** Words made only of these characters need no quoting anywhere in a POSIX shell. */
const PLAIN = /^[A-Za-z0-9_@%+:,./-]+$/;

/**
 * One word of a POSIX shell that means exactly this text. This is the only quoting function: every caller that puts
 * data into a command line uses it, or sends the data over stdin. Quoting does not stop a command from reading a word
 * that begins with `-` as an option: put `--` before it.
 */
export const quote = (text: string): string => (PLAIN.test(text) ? text : quoted(text));

/** Like `quote`, but always with quotes: for text that people read, and for the beginning of a longer word. */
export function quoted(text: string): string {
  assert(!text.includes("\0"), "a word of a command line cannot hold a NUL");
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * A command that runs `script` in `sh`, whatever the login shell is: csh accepts no line end and no `!` between quotes,
 * and fish has other escapes. Every character that one of them might interpret is written in octal. `script` may read
 * its stdin.
 */
export function inAnyShell(script: string): string {
  assert(!script.includes("\0"), "a script on a command line cannot hold a NUL");
  const octal = (byte: number): string => `\\${byte.toString(8).padStart(3, "0")}`;
  const spelled = [...Buffer.from(script)].map((byte) => {
    const sign = String.fromCharCode(byte);
    return /[A-Za-z0-9 ./_=]/.test(sign) ? sign : octal(byte);
  });
  return `exec sh -c 'eval "$(printf "${spelled.join("")}")"'`;
}

/** A command line of these words. */
export const commandLine = (words: readonly string[]): string => words.map(quote).join(" ");

/**
 * The words of a line as a shell splits it: blanks and line ends separate them, quotes and backslashes keep them together. Nothing is
 * expanded. Null where a quote is not closed.
 */
export function splitWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  const piece = /\s+|\\(?:\r?\n|([^]))|'([^']*)'|"((?:\\[^]|[^"\\])*)"|([^\s'"\\]+)|([^])/g;
  for (const [all, escaped, single, double, bare, wrong] of text.matchAll(piece)) {
    if (wrong !== undefined) return null;
    if (/^\s/.test(all)) {
      if (word !== null) words.push(word);
      word = null;
    } else if (!/^\\\r?\n$/.test(all))
      word =
        (word ?? "") +
        (escaped ??
          single ??
          bare ??
          (double ?? "").replaceAll(/\\(\r?\n|[$`"\\])/g, (_, one: string) => (/\n/.test(one) ? "" : one)));
  }
  return word === null ? words : [...words, word];
}
