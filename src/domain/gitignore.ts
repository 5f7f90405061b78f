// The rules of one ignore file, as git reads them (gitignore(5)).
//
// Only the path itself is matched, never its parents: the caller that walks the tree does not enter an excluded folder,
// and a nested file may include again what a file above it excluded, folders too. Libraries that look at parents as
// well get that case wrong, and a training run would miss code.
//
// The project may come from an untrusted author, so no rule takes longer than its length times the length of the path.

interface Rule {
  /** Position in the file: the last matching rule decides. */
  order: number;
  takesBack: boolean;
  foldersOnly: boolean;
  /** Matched against the last name of the path only. */
  byName: boolean;
  tokens: readonly Token[];
}
interface GlobRule extends Rule {
  /** The beginning that every matching text has: it excludes most texts, so most rules are never compiled. */
  starts: string;
  test(text: string): boolean;
}

/** Rules without a wildcard, or with the form `*.ending`, are found by their text; only the others are tried one by one. */
export class IgnoreRules {
  readonly #names = new Map<string, Rule[]>();
  readonly #paths = new Map<string, Rule[]>();
  readonly #endings = new Map<string, Rule[]>();
  /** Last rule first. */
  readonly #globs: readonly GlobRule[];
  readonly #fold: boolean;
  /** Whether any rule includes something again (`!`). */
  readonly takesBack: boolean;
  readonly empty: boolean;

  /** @param ignoreCase as git's `core.ignoreCase` has it. */
  constructor(text: string, ignoreCase = false) {
    this.#fold = ignoreCase;
    const rules = bytesOf(text.replace(/^\ufeff/, ""))
      .split("\n")
      .map((line, order) => parseRule(line.replace(/\r$/, ""), order))
      .filter((rule) => rule !== null);
    this.takesBack = rules.some((rule) => rule.takesBack);
    this.empty = rules.length === 0;
    const globs: GlobRule[] = [];
    for (const rule of rules) {
      const literal = literalOf(rule.tokens);
      const ending = rule.byName ? endingOf(rule.tokens) : null;
      if (literal !== null) add(rule.byName ? this.#names : this.#paths, this.#folded(literal), rule);
      else if (ending !== null) add(this.#endings, this.#folded(ending), rule);
      else globs.push(globOf(rule, ignoreCase));
    }
    this.#globs = globs.reverse();
  }

  /**
   * True: excluded; false: included again; undefined: no rule matches. `text` is the path relative to the folder of the
   * ignore file.
   */
  decide(text: string, isFolder: boolean): boolean | undefined {
    if (this.empty) return undefined;
    const path = bytesOf(text);
    const name = this.#folded(path.slice(path.lastIndexOf("/") + 1));
    const dot = name.lastIndexOf(".");
    let last = lastOf(this.#names.get(name), isFolder, null);
    if (dot !== -1) last = lastOf(this.#endings.get(name.slice(dot)), isFolder, last);
    const whole = this.#paths.size > 0 || this.#globs.length > 0 ? this.#folded(path) : path;
    if (this.#paths.size > 0) last = lastOf(this.#paths.get(whole), isFolder, last);
    for (const rule of this.#globs) {
      if (last !== null && rule.order < last.order) break;
      if (rule.foldersOnly && !isFolder) continue;
      const subject = rule.byName ? name : whole;
      if (!subject.startsWith(rule.starts) || !rule.test(subject)) continue;
      last = rule;
      break;
    }
    return last === null ? undefined : !last.takesBack;
  }

  #folded(text: string): string {
    return this.#fold ? lower(text) : text;
  }
}

/** One character for each byte, as git compares them: `?` stands for one byte of a letter that takes two. */
// oxlint-disable-next-line no-control-regex -- all of ASCII
const bytesOf = (text: string): string => (/^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text).toString("latin1"));
const lower = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

function add(to: Map<string, Rule[]>, key: string, rule: Rule): void {
  const rules = to.get(key);
  if (rules) rules.push(rule);
  else to.set(key, [rule]);
}

function lastOf(rules: readonly Rule[] | undefined, isFolder: boolean, before: Rule | null): Rule | null {
  const rule = rules?.findLast(({ foldersOnly }) => isFolder || !foldersOnly);
  return rule === undefined || (before !== null && before.order > rule.order) ? before : rule;
}

/** The only text that the tokens match, if they hold no wildcard. */
const literalOf = (tokens: readonly Token[]): string | null =>
  tokens.every((token) => typeof token === "string") ? tokens.join("") : null;

/** `.ending` of `*.ending`, where it holds no other dot: a name then matches by what follows its last one. */
function endingOf([star, ...rest]: readonly Token[]): string | null {
  if (star !== STAR && star !== ANY) return null;
  const text = literalOf(rest);
  return text !== null && text.lastIndexOf(".") === 0 ? text : null;
}

function parseRule(line: string, order: number): Rule | null {
  if (line.startsWith("#")) return null;
  let glob = withoutTrailingBlanks(line);
  const takesBack = glob.startsWith("!");
  if (takesBack) glob = glob.slice(1);
  const foldersOnly = glob.endsWith("/");
  if (foldersOnly) glob = glob.slice(0, -1);
  if (glob === "") return null;
  const byName = !glob.includes("/");
  if (glob.startsWith("/")) glob = glob.slice(1);
  const tokens = tokensOf(glob);
  return tokens === null ? null : { order, takesBack, foldersOnly, byName, tokens };
}

/** Trailing blanks do not count unless a backslash escapes them. */
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

/** One character, a pattern for one, or any number of them: within a name, across folders, or whole folders only. */
type Token = string | RegExp | Many;
interface Many {
  many: string;
}
const STAR: Many = { many: "[^/]*" };
const ANY: Many = { many: ".*" };
const FOLDERS: Many = { many: "(?:.*/)?" };
const isMany = (token: Token | undefined): token is Many => typeof token === "object" && "many" in token;

function globOf(rule: Rule, ignoreCase: boolean): GlobRule {
  const wild = rule.tokens.findIndex((token) => typeof token !== "string");
  const starts = rule.tokens
    .slice(0, wild)
    .filter((token) => typeof token === "string")
    .join("");
  let glob: { test(text: string): boolean } | undefined;
  const test = (text: string): boolean => (glob ??= matcherOf(rule.tokens, ignoreCase)).test(text);
  return { ...rule, starts: ignoreCase ? lower(starts) : starts, test };
}

/** Compiles to a regular expression, which is faster by far, unless it could try several `*` in every combination. */
function matcherOf(tokens: readonly Token[], ignoreCase: boolean): { test(text: string): boolean } {
  const folded = ignoreCase
    ? tokens.map((t) => (typeof t === "string" ? lower(t) : isMany(t) ? t : new RegExp(t.source, "si")))
    : tokens;
  if (folded.filter(isMany).length > 1) return new Glob(folded);
  const source = folded.map((t) => (typeof t === "string" ? literal(t) : isMany(t) ? t.many : t.source)).join("");
  return new RegExp(`^(?:${source})$`, ignoreCase ? "si" : "s");
}

/** Matches a text in one pass, tracking every pattern position that is possible at each character. */
class Glob {
  readonly #tokens: readonly Token[];
  /** Characters that a text must have at least. */
  readonly #least: number;
  /**
   * For each position: the step at which it was last active, and the step at which it was last reached from the one
   * before.
   */
  readonly #taken: Int32Array;
  readonly #entered: Int32Array;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
    this.#least = tokens.filter((token) => !isMany(token)).length;
    this.#taken = new Int32Array(tokens.length + 1);
    this.#entered = new Int32Array(tokens.length + 1);
  }

  test(text: string): boolean {
    if (text.length < this.#least) return false;
    this.#taken.fill(0);
    this.#entered.fill(0);
    let places: number[] = [];
    this.#enter(0, 1, places);
    for (let i = 0; i < text.length && places.length > 0; i++) {
      const next: number[] = [];
      for (const place of places) this.#step(place, text.charAt(i), i + 2, next);
      places = next;
    }
    return places.includes(this.#tokens.length);
  }

  #step(place: number, c: string, step: number, next: number[]): void {
    const token = this.#tokens[place];
    if (token === undefined) return;
    if (token === FOLDERS) {
      // Within a folder's name; the rest of the pattern follows its slash.
      this.#take(place, step, next);
      if (c === "/") this.#enter(place + 1, step, next);
    } else if (isMany(token)) {
      if (token === ANY || c !== "/") this.#enter(place, step, next);
    } else if (typeof token === "string" ? token === c : token.test(c)) {
      this.#enter(place + 1, step, next);
    }
  }

  #take(place: number, step: number, into: number[]): void {
    if (this.#taken[place] === step) return;
    this.#taken[place] = step;
    into.push(place);
  }

  /** Enters a position, and those after it that can match nothing. */
  #enter(place: number, step: number, into: number[]): void {
    for (let at = place; this.#entered[at] !== step; at++) {
      this.#entered[at] = step;
      this.#take(at, step, into);
      if (!isMany(this.#tokens[at])) return;
    }
  }
}

/** The parts of a glob; null if git would never match it. */
function tokensOf(glob: string): Token[] | null {
  const tokens: Token[] = [];
  // Git compares the part before the first wildcard separately and matches the rest on its own, so `**` also counts as
  // leading directly after a literal beginning (`a**` reaches below the folder `ab`; seen with git 2.39).
  const literalLength = glob.search(/[*?[\\]/);
  for (let i = 0; i < glob.length;) {
    const c = glob.charAt(i);
    if (c === "*") {
      let end = i;
      while (glob[end] === "*") end++;
      const leading = end - i >= 2 && (i === literalLength || glob[i - 1] === "/");
      if (leading && glob[end] === "/") {
        tokens.push(FOLDERS);
        end++;
      } else {
        tokens.push(leading && end === glob.length ? ANY : STAR);
      }
      i = end;
    } else if (c === "?") {
      tokens.push(/[^/]/s);
      i++;
    } else if (c === "[") {
      const set = setOf(glob, i + 1);
      if (set === null) return null;
      tokens.push(new RegExp(set.source, "s"));
      i = set.next;
    } else {
      if (c === "\\") i++;
      if (i >= glob.length) return null;
      tokens.push(glob.charAt(i++));
    }
  }
  return tokens;
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
  space: " \\t\\n\\v\\f\\r",
  upper: "A-Z",
  xdigit: "A-Fa-f0-9",
};

/** `[a-c]`, `[!x]`, `[[:digit:]]`; `from` is the index after the opening bracket. */
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
      // A reversed range matches nothing.
      if (low <= high) body += `${literal(low)}-${literal(high)}`;
    } else {
      body += literal(low);
    }
  }
  const set = body === "" ? (not ? "[^/]" : "[]") : `(?!/)[${not ? "^" : ""}${body}]`;
  return { source: set, next: i + 1 };

  function one(): string | null {
    if (glob[i] === "\\") i++;
    return i < glob.length ? glob.charAt(i++) : null;
  }
}

const literal = (c: string): string => c.replace(/[\\^$.*+?()[\]{}|/-]/, "\\$&");
