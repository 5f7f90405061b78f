// Chooses files of a repository by shell patterns, as the hub's own library interprets them.

type Token = "*" | ((char: string) => boolean);

/** Returns whether any pattern matches the whole path. Without a list all files match, with an empty list none. */
export function chooserOf(patterns: readonly string[] | null | undefined): (path: string) => boolean {
  if (patterns === null || patterns === undefined) return () => true;
  const compiled = patterns.map((pattern) => tokensOf(pattern.endsWith("/") ? `${pattern}*` : pattern));
  return (path) => {
    const chars = Array.from(path);
    return compiled.some((tokens) => matches(tokens, chars));
  };
}

/** `*` crosses `/`; `?`, `[seq]`, `[!seq]`; case matters; nothing is escaped. */
function tokensOf(pattern: string): Token[] {
  const chars = Array.from(pattern);
  const tokens: Token[] = [];
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i] as string;
    if (char === "*") {
      if (tokens.at(-1) !== "*") tokens.push("*");
    } else if (char === "?") tokens.push(() => true);
    else if (char === "[") {
      const end = closing(chars, i);
      tokens.push(end < 0 ? (c) => c === "[" : setOf(chars.slice(i + 1, end)));
      if (end >= 0) i = end;
    } else tokens.push((c) => c === char);
  }
  return tokens;
}

/** The end of the set that begins at `open`; -1 if it is not closed, and the bracket is literal. */
function closing(chars: readonly string[], open: number): number {
  let from = open + 1;
  if (chars[from] === "!") from++;
  // A bracket right after the opening one belongs to the set.
  return chars.indexOf("]", chars[from] === "]" ? from + 1 : from);
}

function setOf(inner: readonly string[]): (char: string) => boolean {
  const negated = inner[0] === "!";
  const items = negated ? inner.slice(1) : inner;
  const ranges: [low: string, high: string][] = [];
  for (let i = 0; i < items.length; i++) {
    const low = items[i] as string;
    const high = items[i + 2];
    if (items[i + 1] === "-" && high !== undefined) {
      ranges.push([low, high]);
      i += 2;
    } else ranges.push([low, low]);
  }
  const code = (char: string): number => char.codePointAt(0) ?? 0;
  return (char) => ranges.some(([low, high]) => code(low) <= code(char) && code(char) <= code(high)) !== negated;
}

/** Backtracks only to the last star, so that no pattern takes longer than pattern times path. */
function matches(tokens: readonly Token[], chars: readonly string[]): boolean {
  let t = 0;
  let c = 0;
  let star = -1;
  let starAt = 0;
  while (c < chars.length) {
    const token = tokens[t];
    if (token === "*") {
      star = t++;
      starAt = c;
    } else if (token !== undefined && token(chars[c] as string)) {
      t++;
      c++;
    } else if (star >= 0) {
      t = star + 1;
      c = ++starAt;
    } else return false;
  }
  while (tokens[t] === "*") t++;
  return t === tokens.length;
}
