// Parses JSON that a stranger has written: a machine, a script, a model from a hub, an object store. A byte limit alone does not bound the
// work: in one MiB of `[[[]]],` are 450,000 lists, and parsing tens of MiB of them stops the whole control plane for a minute.

export interface JsonBounds {
  /** How many values the text may hold, lists and objects included. */
  values: number;
  /** How deep lists and objects may be nested. */
  depth: number;
}

/** Enough for the header of a model with 200,000 tensors; parsing so many values takes less than a second. */
const MANY: JsonBounds = { values: 2_000_000, depth: 64 };

/** The JSON value of a text; undefined if it is not JSON, or is beyond the bounds. `reviver` as for `JSON.parse`. */
export function boundedJson(
  text: string,
  bounds: JsonBounds = MANY,
  reviver?: Parameters<typeof JSON.parse>[1],
): unknown {
  if (!isWithin(text, bounds)) return undefined;
  try {
    return JSON.parse(text, reviver);
  } catch {
    return undefined;
  }
}

/** Counts each value that follows a comma or an opening bracket, in one pass. The text need not be JSON. */
function isWithin(text: string, { values, depth }: JsonBounds): boolean {
  // Every value but the first has at least one character before it.
  if (text.length <= Math.min(values, depth)) return true;
  let [count, open] = [1, 0];
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) {
      i = endOfText(text, i);
      continue;
    }
    if (c === CLOSING_LIST || c === CLOSING_OBJECT) {
      open--;
      continue;
    }
    if (c === LIST || c === OBJECT) {
      if (++open > depth) return false;
    } else if (c !== COMMA) continue;
    if (++count > values) return false;
  }
  return true;
}

const [QUOTE, COMMA, BACKSLASH, LIST, CLOSING_LIST, OBJECT, CLOSING_OBJECT] = [
  0x22, 0x2c, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d,
];

/** Where the text ends that begins at `start`; the last character if it does not end. */
function endOfText(text: string, start: number): number {
  let at = start;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let first = at;
    while (text.charCodeAt(first - 1) === BACKSLASH) first--;
    if ((at - first) % 2 === 0) return at;
  }
}
