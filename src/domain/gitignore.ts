// The rules of one ignore file, as git reads them (gitignore(5)).
//
// Only the path itself is matched, never its parents: whoever walks the tree does not enter a folder that is left out, and
// a nested file may take back what a file above it left out, folders included. Libraries that look at parents as well get
// that case wrong, and a training run would miss code.

interface Rule {
  pattern: RegExp;
  takesBack: boolean;
  foldersOnly: boolean;
  /** Matched against the last name alone. */
  byName: boolean;
}

export class IgnoreRules {
  /** Last rule first: the last that matches decides. */
  readonly #rules: readonly Rule[];

  constructor(text: string) {
    this.#rules = text
      .replace(/^\ufeff/, "")
      .split("\n")
      .map((line) => parseRule(line.replace(/\r$/, "")))
      .filter((rule) => rule !== null)
      .reverse();
  }

  /** True: left out; false: taken back; undefined: nothing said. `path` is relative to the folder of the ignore file. */
  decide(path: string, isFolder: boolean): boolean | undefined {
    const name = path.slice(path.lastIndexOf("/") + 1);
    for (const rule of this.#rules) {
      if (rule.foldersOnly && !isFolder) continue;
      if (rule.pattern.test(rule.byName ? name : path)) return !rule.takesBack;
    }
    return undefined;
  }
}

function parseRule(line: string): Rule | null {
  if (line.startsWith("#")) return null;
  let glob = withoutTrailingBlanks(line);
  const takesBack = glob.startsWith("!");
  if (takesBack) glob = glob.slice(1);
  const foldersOnly = glob.endsWith("/");
  if (foldersOnly) glob = glob.slice(0, -1);
  if (glob === "") return null;
  const byName = !glob.includes("/");
  if (glob.startsWith("/")) glob = glob.slice(1);
  const source = sourceOf(glob);
  return source === null ? null : { pattern: new RegExp(`^${source}$`, "s"), takesBack, foldersOnly, byName };
}

/** Blanks at the end do not count unless a backslash stands before them. */
function withoutTrailingBlanks(line: string): string {
  let end = line.length;
  while (end > 0 && line[end - 1] === " " && !escaped(line, end - 1)) end--;
  return line.slice(0, end);
}

function escaped(line: string, at: number): boolean {
  let slashes = 0;
  while (line[at - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}

/** The glob as a regular expression; null where git takes it for one that matches nothing. */
function sourceOf(glob: string): string | null {
  let out = "";
  // Git compares what comes before the first wildcard by itself and matches the rest alone: so `**` also counts as leading
  // right behind a literal beginning (`a**` reaches below the folder `ab`; seen with git 2.39).
  const literalLength = glob.search(/[*?[\\]/);
  for (let i = 0; i < glob.length;) {
    const c = glob[i]!;
    if (c === "*") {
      let end = i;
      while (glob[end] === "*") end++;
      const fromSlash = i === literalLength || glob[i - 1] === "/";
      if (end - i >= 2 && fromSlash && glob[end] === "/") {
        out += "(?:.*/)?";
        end++;
      } else if (end - i >= 2 && fromSlash && end === glob.length) {
        out += ".*";
      } else {
        out += "[^/]*";
      }
      i = end;
    } else if (c === "?") {
      out += "[^/]";
      i++;
    } else if (c === "[") {
      const set = setOf(glob, i + 1);
      if (set === null) return null;
      out += set.source;
      i = set.next;
    } else {
      if (c === "\\") i++;
      if (i >= glob.length) return null;
      out += literal(glob[i]!);
      i++;
    }
  }
  return out;
}

const CLASSES: Record<string, string> = {
  alnum: "A-Za-z0-9",
  alpha: "A-Za-z",
  blank: " \\t",
  cntrl: "\\x00-\\x1f\\x7f",
  digit: "0-9",
  graph: "\\x21-\\x7e",
  lower: "a-z",
  print: "\\x20-\\x7e",
  punct: "!-\\/:-@\\[-`{-~",
  space: "\\s",
  upper: "A-Z",
  xdigit: "A-Fa-f0-9",
};

/** `[a-c]`, `[!x]`, `[[:digit:]]`; `from` is behind the opening bracket. */
function setOf(glob: string, from: number): { source: string; next: number } | null {
  let i = from;
  const not = glob[i] === "!" || glob[i] === "^";
  if (not) i++;
  let body = "";
  for (let first = true; ; first = false) {
    if (i >= glob.length) return null;
    if (glob[i] === "]" && !first) break;
    if (glob[i] === "[" && glob[i + 1] === ":") {
      const end = glob.indexOf(":]", i + 2);
      const chars = end < 0 ? undefined : CLASSES[glob.slice(i + 2, end)];
      if (chars === undefined) return null;
      body += chars;
      i = end + 2;
      continue;
    }
    const low = one();
    if (low === null) return null;
    if (glob[i] === "-" && i + 1 < glob.length && glob[i + 1] !== "]") {
      i++;
      const high = one();
      if (high === null) return null;
      // A range the wrong way round holds nothing.
      if (low <= high) body += `${literal(low)}-${literal(high)}`;
    } else {
      body += literal(low);
    }
  }
  const set = body === "" ? (not ? "[^/]" : "[]") : `(?!/)[${not ? "^" : ""}${body}]`;
  return { source: set, next: i + 1 };

  function one(): string | null {
    if (glob[i] === "\\") i++;
    return i < glob.length ? glob[i++]! : null;
  }
}

const literal = (c: string): string => c.replace(/[\\^$.*+?()[\]{}|/-]/, "\\$&");
