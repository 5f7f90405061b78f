// Computes which lines change one text into another: Myers' greedy search for the shortest edit script, within a bound.

/**
 * Beyond this many added and removed lines, the middle is reported as replaced: correct, but not the shortest. Time and
 * memory grow with it.
 */
const EDITS_MAX = 2_000;

/** A run of consecutive lines that were kept, removed or added. Ranges are half-open, in lines from 0. */
export interface Edit {
  fromStart: number;
  fromEnd: number;
  toStart: number;
  toEnd: number;
}

/** A text as lines, each with its line end; only the last may lack one. */
export const textLines = (text: string): string[] => (text === "" ? [] : text.split(/(?<=\n)/));

/** The edits, in order; between two edits the lines are the same. */
export function editsOf(from: readonly string[], to: readonly string[]): Edit[] {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let [fromEnd, toEnd] = [from.length, to.length];
  while (fromEnd > start && toEnd > start && from[fromEnd - 1] === to[toEnd - 1])
    [fromEnd, toEnd] = [fromEnd - 1, toEnd - 1];
  if (start === fromEnd && start === toEnd) return [];
  const numbers = new Map<string, number>();
  const numbered = (lines: readonly string[]): Int32Array =>
    Int32Array.from(lines, (line) => {
      let n = numbers.get(line);
      if (n === undefined) numbers.set(line, (n = numbers.size));
      return n;
    });
  const matches = matchesOf(numbered(from.slice(start, fromEnd)), numbered(to.slice(start, toEnd)));
  const edits: Edit[] = [];
  let [x, y] = [0, 0];
  for (const [a, b] of [...matches, [fromEnd - start, toEnd - start] as const]) {
    if (a > x || b > y) edits.push({ fromStart: start + x, fromEnd: start + a, toStart: start + y, toEnd: start + b });
    [x, y] = [a + 1, b + 1];
  }
  return edits;
}

/** Pairs of equal lines on a shortest path; empty if that path is longer than the bound. */
function matchesOf(a: Int32Array, b: Int32Array): [number, number][] {
  const bound = Math.min(EDITS_MAX, a.length + b.length);
  /** reach[k + bound + 1]: how far in `a` diagonal k reaches with the current number of edits. */
  const reach = new Int32Array(2 * bound + 3);
  const before: Int32Array[] = [];
  for (let d = 0; d <= bound; d++) {
    before.push(reach.slice(bound + 1 - d - 1, bound + 1 + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const at = k + bound + 1;
      let x = k === -d || (k !== d && reach[at - 1]! < reach[at + 1]!) ? reach[at + 1]! : reach[at - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach[at] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(before, d, a.length, b.length);
    }
  }
  return [];
}

function walkBack(before: Int32Array[], edits: number, aLength: number, bLength: number): [number, number][] {
  const matches: [number, number][] = [];
  let [x, y] = [aLength, bLength];
  for (let d = edits; d >= 0; d--) {
    const reach = before[d]!;
    const of = (k: number): number => reach[k + d + 1]!;
    const k = x - y;
    const down = k === -d || (k !== d && of(k - 1) < of(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const [fromX, fromY] = d === 0 ? [0, 0] : [of(fromK), of(fromK) - fromK];
    const [afterX, afterY] = d === 0 ? [0, 0] : down ? [fromX, fromY + 1] : [fromX + 1, fromY];
    for (; x > afterX && y > afterY; x--, y--) matches.push([x - 1, y - 1]);
    [x, y] = [fromX, fromY];
  }
  return matches.reverse();
}
