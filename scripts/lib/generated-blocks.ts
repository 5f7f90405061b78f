// Files that are written by hand except for the parts between two marks, `generated: NAME` and `end: NAME`.

import { readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");

/** The text before and after the words of a mark. */
type Marks = readonly [string, string];
const IN_MARKDOWN: Marks = ["<!-- ", " -->"];
export const IN_PYTHON: Marks = ["# ", ""];

/** Replaces the text between two marks. The marks stay. */
function replaced(text: string, name: string, block: string, [open, close]: Marks): string {
  const [begin, end] = [`${open}generated: ${name}${close}\n`, `${open}end: ${name}${close}`];
  const [i, j] = [text.indexOf(begin), text.indexOf(end)];
  // A file without its marks stays unchanged, and the tidy test of the marks names it.
  return i < 0 || j < i ? text : `${text.slice(0, i + begin.length)}${block}\n${text.slice(j)}`;
}

/** The expected text of a file: its blocks by name. */
export const withBlocks = (path: string, blocks: Readonly<Record<string, string>>, marks: Marks = IN_MARKDOWN) => ({
  path,
  text: Object.entries(blocks).reduce(
    (text, [name, block]) => replaced(text, name, block, marks),
    readFileSync(join(ROOT, path), "utf8"),
  ),
});
