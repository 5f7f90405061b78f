// The prose of the sources: comments, strings that people read, and test titles, cut into sentences, and the idioms that
// CONTRIBUTING bans. `npm run words` prints them; test/tidy.test.ts holds the numbers.
//
// The scanner knows strings, templates, comments and regular expressions of TypeScript, and comments and docstrings of
// Python. It is not a parser: text that it misreads counts as prose, on the safe side.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Kind = "comment" | "string" | "title";

export const KINDS: readonly Kind[] = ["comment", "string", "title"];

export interface Sentence {
  kind: Kind;
  path: string;
  line: number;
  text: string;
}

export interface Finding extends Sentence {
  /** The name of the idiom in `IDIOMS`. */
  idiom: string;
}

/** The idioms that CONTRIBUTING bans, and their replacements. */
export const IDIOMS: readonly { name: string; pattern: RegExp; instead: string; kinds?: readonly Kind[] }[] = [
  {
    name: "clause for a subject",
    pattern: /^(What|Who|Whose|Whoever|Whatever|That|Of|Where|Which)\s+(?!does\b|happens\b|if\b)[a-z]/,
    instead: "begin with the thing that acts: a noun and an active verb",
    kinds: ["comment", "string"],
  },
  {
    name: "title that is no sentence",
    pattern: /^(that|of|and|what|who|whose|which|where|whoever|whatever|also|but|nor)\b/,
    instead: "begin a title with its subject",
    kinds: ["title"],
  },
  { name: "anew", pattern: /\banew\b/i, instead: "again, from the start" },
  { name: "all the same", pattern: /\ball the same\b/i, instead: "anyway, still" },
  { name: "goes on", pattern: /\b(go|goes|going|gone|went) on\b/i, instead: "continues, resumes" },
  {
    name: "comes home",
    pattern: /\b(come|comes|coming|came|bring|brings|bringing|brought|is|are|was) home\b/i,
    instead: "is downloaded",
  },
  { name: "lets go of", pattern: /\blet(s|ting)? go of\b/i, instead: "releases" },
  {
    name: "gives back",
    pattern: /\b(give|gives|giving|given|gave) (it |them |the machine |the machines |its machine |machines )?back\b/i,
    instead: "releases, terminates",
  },
  { name: "is no", pattern: /\b(is|are|was|were) no (?!longer|more\b|such\b|sooner)[a-z]+/i, instead: "is not a …" },
  { name: "nobody", pattern: /\b(nobody|anybody|somebody)\b/i, instead: "no caller, no process, no user" },
  { name: "is told", pattern: /\b(is|are|was|were|been|be) told\b|\btold of\b/i, instead: "is reported, receives" },
  {
    name: "what is left",
    pattern: /\bwhat (is|was|are) (left|said|seen|given|told|asked|sent|made|kept|known)\b/i,
    instead: "the rest, the message, …",
  },
  {
    name: "who asks",
    pattern: /\bwho(ever)? (asks|looks|reads|comes|waits|takes|has|is|was)\b/i,
    instead: "the caller, the reader",
  },
  { name: "looks after", pattern: /\blook(s|ed|ing)? after\b/i, instead: "supervises, monitors" },
  {
    name: "lies",
    pattern: /\b(lies|lie|lay|lain) (in|on|at|below|beside|there|where|beneath|above)\b/i,
    instead: "is in",
  },
  { name: "beside", pattern: /\bbeside\b/i, instead: "next to, in addition to" },
  { name: "in vain", pattern: /\b(in vain|spoilt|thereby|whereof|therein|hence)\b/i, instead: "leaked, therefore" },
  { name: "stands", pattern: /\bstands? (in|at|there|here|for it|as|on|before|beside|between)\b/i, instead: "is" },
  { name: "as it is", pattern: /\bas (it is|they are)\b(?! (now|today)\b)/i, instead: "unchanged, raw" },
];

const abbreviations = /\b(e\.g|i\.e|etc|vs|cf|approx|no|fig)\.$/i;

/** Sentences of a piece of prose. Code in backticks is one word. */
export function sentencesOf(text: string): string[] {
  const flat = text
    .replace(/`[^`]*`/g, "`x`")
    .replace(/\s+/g, " ")
    .trim();
  const out: string[] = [];
  let from = 0;
  for (const match of flat.matchAll(/[.!?:;](?=\s+[A-Z`"(])/g)) {
    const end = match.index + 1;
    if (abbreviations.test(flat.slice(from, end))) continue;
    out.push(flat.slice(from, end).trim());
    from = end;
  }
  out.push(flat.slice(from).trim());
  return out.filter((sentence) => /[a-z]{2,} [a-z]/i.test(sentence));
}

export function sentences(root: string, folders: readonly string[]): Sentence[] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(ts|tsx|mjs|py)$/.test(name) && !/(^|\/)(node_modules|dist|__pycache__|corpus)\//.test(name))
      .toSorted()
      .flatMap((name) => fromFile(join(folder, name), readFileSync(join(root, folder, name), "utf8"))),
  );
}

export function fromFile(path: string, source: string): Sentence[] {
  const pieces = path.endsWith(".py")
    ? piecesOfPython(source)
    : [
        ...piecesOfTypeScript(source, /\.test\.tsx?$|\.check\.ts$/.test(path)),
        ...(path.endsWith(".tsx") ? piecesOfJsx(source) : []),
      ];
  return pieces.flatMap(({ kind, line, text }) =>
    sentencesOf(text).map((sentence) => ({ kind, path, line, text: sentence })),
  );
}

export function findings(all: readonly Sentence[]): Finding[] {
  return all.flatMap((sentence) =>
    IDIOMS.filter(({ pattern, kinds }) => (kinds?.includes(sentence.kind) ?? true) && pattern.test(sentence.text)).map(
      ({ name }) => ({
        ...sentence,
        idiom: name,
      }),
    ),
  );
}

/** Percent of a folder's sentences that may carry a banned idiom: a little above the share that was reached. */
const CEILINGS: Readonly<Record<Kind, number>> = { comment: 2, string: 2, title: 1 };

/** Folders whose strings are above that ceiling. Lower a number when a folder gets better; never raise one. */
const STRING_CEILINGS: Readonly<Record<string, number>> = {
  scripts: 11,
  bench: 6,
  test: 5,
};

/** So many sentences of a folder may carry an idiom in any case: a percentage of a small folder is less than one sentence. */
const ALWAYS_ALLOWED = 2;

export const TOP_FOLDERS = ["src", "sdk", "dashboard/src", "python/svc", "runner", "scripts", "bench", "test"];

/** The folders with a ceiling; those of `src` one by one. */
export const proseFolders = (root: string): string[] => [
  ...readdirSync(join(root, "src"), { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [`src/${entry.name}`] : [],
  ),
  ...TOP_FOLDERS.slice(1),
];

/** One row of the table, for one kind of sentence in one folder. */
export interface Share {
  kind: Kind;
  marked: number;
  total: number;
  /** The number of sentences that may be marked. */
  allowed: number;
  found: Finding[];
}

/** The marked sentences of a folder, by kind. A sentence with two idioms counts once. */
export function sharesOf(root: string, folder: string): Share[] {
  const all = sentences(root, [folder]);
  const found = findings(all);
  return KINDS.map((kind) => {
    const own = found.filter((finding) => finding.kind === kind);
    const total = all.filter((sentence) => sentence.kind === kind).length;
    const percent = kind === "string" ? (STRING_CEILINGS[folder] ?? CEILINGS.string) : CEILINGS[kind];
    return {
      kind,
      marked: new Set(own.map(({ path, line, text }) => `${path}:${line}:${text}`)).size,
      total,
      allowed: Math.max(ALWAYS_ALLOWED, Math.floor((percent * total) / 100)),
      found: own,
    };
  });
}

interface Piece {
  kind: Kind;
  line: number;
  text: string;
}

/** A string that a person reads has at least three words, and is not a path, a query, a pattern or a class list. */
const isProse = (text: string): boolean =>
  /[A-Za-z]{2,}[,;:]? [A-Za-z`$]+[,;:.]? [A-Za-z`$]/.test(text) &&
  !/^(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|PRAGMA|ALTER|BEGIN)\b/.test(text.trim()) &&
  !/^\s*(import|from|def|for|if|while|print|const|let|exec|set)\b.*[=({]/.test(text);

export function piecesOfTypeScript(source: string, isTest: boolean): Piece[] {
  const out: Piece[] = [];
  let line = 1;
  let comment: Piece | null = null;
  let significant = "";
  const flush = (): void => {
    if (comment) out.push(comment);
    comment = null;
  };
  for (let i = 0; i < source.length; i++) {
    const c = source[i];
    if (c === "\n") {
      line += 1;
      continue;
    }
    if (c === "/" && source[i + 1] === "/") {
      const end = endOf(source, "\n", i);
      const text = source.slice(i + 2, end).trim();
      const isRule = /^(eslint|oxlint|@ts-|prettier|#)/.test(text);
      const before: Piece | null = comment;
      if (!isRule) {
        if (before && text !== "" && lineOfEnd(before) === line - 1 && !/^[A-Z]+-?\d+\./.test(text))
          before.text += `\n${text}`;
        else {
          flush();
          comment = { kind: "comment", line, text: text.replace(/^[A-Z]+-?\d+\.\s*/, "") };
        }
      }
      i = end - 1;
      continue;
    }
    if (c === "/" && source[i + 1] === "*") {
      flush();
      const end = source.indexOf("*/", i + 2);
      const raw = source.slice(i + 2, end < 0 ? source.length : end);
      for (const part of raw.replace(/^\s*\*+ ?/gm, "").split(/\n(?=@|\s*\n)/))
        out.push({ kind: "comment", line, text: part.replace(/^@\w+ (\w+ )?/, "").trim() });
      line += raw.split("\n").length - 1;
      i = end < 0 ? source.length : end + 1;
      continue;
    }
    if (c === '"' || c === "'" || c === "`") {
      const { end, text, lines } = stringAt(source, i, c);
      const isTitle =
        isTest &&
        /(\b(it|test|describe)(\.\w+(\([^)]*\))?|\.each\([\s\S]{0,2000}?\])?|\]\)|`\))\s*\($/.test(
          source.slice(Math.max(0, i - 60), i),
        );
      if (isTitle) out.push({ kind: "title", line, text });
      else if (!isTest && isProse(text)) out.push({ kind: "string", line, text });
      line += lines;
      i = end;
      significant = '"';
      continue;
    }
    if (c === "/" && /[=(,:!&|?{};[\n]|^$/.test(significant) && source[i + 1] !== "/") {
      const end = regexEnd(source, i);
      if (end > i) {
        i = end;
        significant = "/";
        continue;
      }
    }
    if (c !== undefined && !/\s/.test(c)) {
      flush();
      significant = c;
    }
  }
  flush();
  return out;
}

/** The texts between the tags of a page. Code between a `>` and a `<` has characters that such texts do not need. */
function piecesOfJsx(source: string): Piece[] {
  return [...source.matchAll(/>([^<>{}=;&|]{12,})(?=[<{])/g)].flatMap((match) =>
    isProse(match[1] ?? "")
      ? [{ kind: "string" as const, line: source.slice(0, match.index).split("\n").length, text: match[1] ?? "" }]
      : [],
  );
}

const lineOfEnd = (piece: Piece): number => piece.line + piece.text.split("\n").length - 1;

function endOf(source: string, what: string, from: number): number {
  const end = source.indexOf(what, from);
  return end < 0 ? source.length : end;
}

function stringAt(source: string, from: number, quote: string): { end: number; text: string; lines: number } {
  let text = "";
  let lines = 0;
  let i = from + 1;
  for (; i < source.length && source[i] !== quote; i++) {
    if (source[i] === "\\") {
      text += source[i + 1] === "n" ? "\n" : (source[i + 1] ?? "");
      i += 1;
    } else if (quote === "`" && source[i] === "$" && source[i + 1] === "{") {
      let depth = 1;
      for (i += 2; i < source.length && depth > 0; i++) {
        if (source[i] === "\n") lines += 1;
        if (source[i] === "`") {
          const inner = stringAt(source, i, "`");
          lines += inner.lines;
          i = inner.end;
        } else if (source[i] === "{") depth += 1;
        else if (source[i] === "}") depth -= 1;
      }
      i -= 1;
      text += "X";
    } else {
      if (source[i] === "\n") lines += 1;
      text += source[i];
    }
  }
  return { end: i, text, lines };
}

function regexEnd(source: string, from: number): number {
  let inClass = false;
  for (let i = from + 1; i < source.length; i++) {
    const c = source[i];
    if (c === "\n") return from;
    if (c === "\\") i += 1;
    else if (c === "[") inClass = true;
    else if (c === "]") inClass = false;
    else if (c === "/" && !inClass) return i;
  }
  return from;
}

export function piecesOfPython(source: string): Piece[] {
  const out: Piece[] = [];
  let comment: Piece | null = null;
  const lines = source.split("\n");
  for (const [n, text] of lines.entries()) {
    const found: RegExpExecArray | null = /^\s*#(?!!)\s?(.*)$/.exec(text);
    if (!found) {
      if (comment) out.push(comment);
      comment = null;
    } else if (comment) comment.text += `\n${found[1]}`;
    else comment = { kind: "comment", line: n + 1, text: found[1] ?? "" };
  }
  if (comment) out.push(comment);
  for (const match of source.matchAll(/"""([\s\S]*?)"""/g))
    for (const part of (match[1] ?? "").split(/\n\s*\n/))
      out.push({ kind: "comment", line: source.slice(0, match.index).split("\n").length, text: part });
  for (const match of source.matchAll(/(?<!")"((?:[^"\\\n]|\\.)+)"(?!")/g))
    if (isProse(match[1] ?? ""))
      out.push({ kind: "string", line: source.slice(0, match.index).split("\n").length, text: match[1] ?? "" });
  return out;
}
