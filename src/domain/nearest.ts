// Suggests the words that a user may have meant.

/** The nearest of `words` by edit distance, if it is near enough to be a typing error. */
export function nearest(typed: string, words: string[]): string | null {
  let best: string | null = null;
  let least = Math.max(1, Math.floor(Math.min(typed.replace(/^-+/, "").length, 64) / 3)) + 1;
  for (const word of words) {
    const d = typed.length > 64 ? Infinity : edits(typed, word);
    if (d < least) [best, least] = [word, d];
  }
  return best;
}

function edits(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  let before: number[] = row;
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let d = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) d = Math.min(d, (before[j - 2] ?? 0) + 1);
      next.push(d);
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}

/**
 * The words nearest to the typed one, best first: those that contain it, then by edit distance; distant ones are left
 * out.
 */
export function nearestFew(
  written: string,
  words: Iterable<string>,
  plain: (word: string) => string,
  max = 4,
): string[] {
  const wanted = plain(written).slice(0, 64);
  const far = Math.max(2, Math.ceil(wanted.length / 2));
  const away = (word: string): number => {
    const one = plain(word);
    const within = wanted.length > 1 && one.length > 1 && (one.includes(wanted) || wanted.includes(one));
    return within ? 0.5 : edits(wanted, one.slice(0, 64));
  };
  // The first of two spellings of one word counts.
  const once = new Map([...words].toReversed().map((word) => [plain(word), word]));
  return [...once.values()]
    .toReversed()
    .map((word) => ({ word, d: away(word) }))
    .filter(({ d }) => d < far)
    .toSorted((a, b) => a.d - b.d)
    .slice(0, max)
    .map(({ word }) => word);
}
