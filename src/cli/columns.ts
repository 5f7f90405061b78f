// Measures the width of text on a terminal with `string-width`, and cuts text to a number of columns.

import stringWidth from "string-width";

// eslint-disable-next-line no-control-regex -- printable ASCII is exactly one column a character
const PLAIN = /^[\u0020-\u007e]*$/;
let graphemes: Intl.Segmenter | undefined;

/** Columns that the text takes on a terminal: two for East Asian wide characters and emoji, none for combining marks. */
export function width(text: string): number {
  return PLAIN.test(text) ? text.length : stringWidth(text);
}

/** The longest beginning of the text that fits into the given number of columns. Never splits a character made of several code points. */
export function take(text: string, columns: number): string {
  if (PLAIN.test(text)) return text.slice(0, Math.max(0, columns));
  let out = "";
  let used = 0;
  graphemes ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
  for (const { segment } of graphemes.segment(text)) {
    used += width(segment);
    if (used > columns) break;
    out += segment;
  }
  return out;
}
