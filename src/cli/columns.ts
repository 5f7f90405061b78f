// Measures the width of text on a terminal with `string-width`, and cuts text to a number of columns.

import { createRequire } from "node:module";
import type StringWidth from "string-width";

// eslint-disable-next-line no-control-regex -- printable ASCII is exactly one column a character
const PLAIN = /^[\u0020-\u007e]*$/;
let stringWidth: typeof StringWidth | undefined;
let graphemes: Intl.Segmenter | undefined;

/** Columns that the text takes on a terminal: two for East Asian wide characters and emoji, none for combining marks. */
export function width(text: string): number {
  if (PLAIN.test(text)) return text.length;
  stringWidth ??= loadStringWidth();
  return stringWidth(text);
}

/**
 * The package builds a segmenter and the expressions for all emoji when it is loaded, which takes as long as a start of
 * Node. So it is loaded with the first text beyond ASCII, and by `require`, because a table is made without waiting.
 */
function loadStringWidth(): typeof StringWidth {
  const isSource = import.meta.filename.endsWith(".ts");
  // scripts/build.ts puts it next to the other chunks.
  const loaded: unknown = createRequire(import.meta.url)(isSource ? "string-width" : "./string-width.mjs");
  return (loaded as { default: typeof StringWidth }).default;
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
