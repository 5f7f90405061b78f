// How a script is started, decided from its content as Linux and a shell do; the file extension decides last.
//
// B1. A first line `#!INTERPRETER ARGUMENT` decides, as the kernel reads it: everything after the interpreter is one argument.
// B2. A Python script is started by the run's Python, so that launchers and installed packages are its own. If the line
//     names a specific Python (a path outside of the system's folders, or a version), a run on this computer uses that
//     one.
// B3. Without such a line the ending decides: `.py` is Python, `.sh` is a shell script. Without an ending, a file that may be
//     executed is a program, or a shell script where it is text, as every shell takes it.

import { basename, dirname } from "node:path";

/** The part of a file that must be read. */
export const HEAD_BYTES = 4_096;
/** Linux reads 256 bytes of a file, and refuses a first line that is longer. */
const LINE_BYTES_MAX = 255;

export interface Shebang {
  /** The first line, raw, with its `#!`. */
  line: string;
  /** The path that the kernel starts. */
  interpreter: string;
  /** The rest of the line, which the kernel passes as one argument. */
  argument: string | null;
  /** The program that runs the script in the end: the target of `env`. Null if none is named. */
  program: string | null;
  /** Options and variables of `env`, which come before the program. */
  before: readonly string[];
  /** The arguments between the program and the script. */
  options: readonly string[];
  /** Whether `env` is given several words without `-S`: it then looks for one program with a space in its name. */
  hasUnsplitWords: boolean;
  isCrlf: boolean;
  isTooLong: boolean;
}

/** How a file of the project is started. */
export interface Start {
  kind: "python" | "sh" | "exec" | "interpreter";
  /** `python`: options from the first line. `interpreter`: the command that receives the script. */
  words?: readonly string[];
  /** `python`: the specific Python that the first line names, as a path or as a name with a version. */
  named?: string;
  /** The parsed first line, for callers that check whether the interpreter exists. */
  shebang?: Shebang;
}

const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const SYSTEM_FOLDERS = new Set(["/bin", "/usr/bin", "/usr/local/bin"]);
const PYTHON = /^(?:python|pypy)[0-9.]*t?$/;

/** The first line of a file that begins with `#!`; null for any other file. */
export function parseShebang(head: Buffer): Shebang | null {
  const text = head.subarray(head.subarray(0, 3).equals(BOM) ? 3 : 0);
  if (text[0] !== 0x23 || text[1] !== 0x21) return null;
  const end = text.indexOf(0x0a);
  const raw = text.subarray(0, end < 0 ? text.length : end).toString("utf8");
  const isCrlf = raw.endsWith("\r");
  const line = isCrlf ? raw.slice(0, -1) : raw;
  const [, interpreter = "", rest = ""] = /^#![ \t]*([^ \t]*)[ \t]*(.*?)[ \t]*$/s.exec(line) ?? [];
  const argument = rest === "" ? null : rest;
  const isEnv = basename(interpreter) === "env";
  const split = isEnv ? /^(?:-v?S|--split-string(?:=|[ \t]+))[ \t]*(.*)$/s.exec(rest)?.[1] : undefined;
  const all = wordsOf(split ?? rest);
  const words = isEnv ? programWords(all) : all;
  const named = isEnv ? words[0] : interpreter;
  return {
    line,
    interpreter,
    argument,
    program: named === undefined || named === "" ? null : named,
    before: isEnv ? all.slice(0, all.length - words.length) : [],
    options: isEnv ? words.slice(1) : words,
    hasUnsplitWords: isEnv && split === undefined && wordsOf(rest).length > 1,
    isCrlf,
    isTooLong: Buffer.byteLength(line) > LINE_BYTES_MAX,
  };
}

/** `env`'s own options and variables come before the program that it starts. */
function programWords(words: readonly string[]): readonly string[] {
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? "";
    if (word === "-u" || word === "-C" || word === "--unset" || word === "--chdir") i += 1;
    else if (!word.startsWith("-") && !/^[A-Za-z_]\w*=/.test(word)) return words.slice(i);
  }
  return [];
}

/** The words of `env -S`: blanks separate them, quotes and backslashes keep blanks. */
function wordsOf(text: string): string[] {
  return [...text.matchAll(/(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+/gs)].map(([word]) =>
    word.replaceAll(
      /"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|\\(.)/gs,
      (_, double?: string, single?: string, one?: string) =>
        double !== undefined ? double.replaceAll(/\\(.)/gs, "$1") : (single ?? one ?? ""),
    ),
  );
}

/**
 * How to start a file with this name and these first bytes; or why it cannot be started, as text that follows its name.
 *
 * @param executable whether its execute bit is set.
 */
export function startOf(path: string, head: Buffer, executable: boolean): Start | { refused: string } {
  const shebang = parseShebang(head);
  if (shebang !== null && shebang.program !== null) return byShebang(shebang, head, executable);
  if (path.endsWith(".py")) return { kind: "python" };
  if (path.endsWith(".sh")) return head.includes("\r\n") ? { refused: WINDOWS_LINES } : { kind: "sh" };
  if (path.endsWith(".ipynb"))
    return { refused: "is a notebook: make a script of it with `jupyter nbconvert --to script`, and name that" };
  if (shebang !== null) return { refused: "begins with `#!`, and no interpreter is named after it" };
  if (!executable)
    return {
      refused:
        "cannot be started: it is not executable, and neither a first line `#!…` nor its ending names an interpreter",
    };
  return { kind: head.subarray(0, 1_024).includes(0) ? "exec" : "sh" };
}

const WINDOWS_LINES =
  "has the line ends of Windows (CRLF), which a shell takes for part of its commands: convert it, for example with `sed -i 's/\\r$//'`";

function byShebang(shebang: Shebang, head: Buffer, executable: boolean): Start | { refused: string } {
  const { program, options, line, before } = shebang;
  const name = basename(program ?? "");
  if (PYTHON.test(name) && before.length > 0) {
    const names = before.flatMap((word) => /^([A-Za-z_]\w*)=/.exec(word)?.[1] ?? []);
    if (names.length === before.length)
      return {
        refused: `sets ${names.join(" and ")} in its first line, and svc starts Python itself: set that in \`env\` of the run`,
      };
    return {
      refused: `passes ${before.join(" ")} to env in its first line, and svc starts Python itself: remove that, and set variables in \`env\` of the run`,
    };
  }
  if (PYTHON.test(name)) {
    const certain = !SYSTEM_FOLDERS.has(dirname(program ?? "")) && program?.startsWith("/") === true;
    const versioned = /^(?:python|pypy)(?:2|[0-9]+\.[0-9.]+t?)$/.test(name);
    const words = options.filter((word) => word !== "-u");
    return {
      kind: "python",
      ...(words.length > 0 ? { words } : {}),
      ...(certain || versioned ? { named: program ?? "", shebang } : {}),
    };
  }
  if (head.subarray(0, 3).equals(BOM))
    return {
      refused: `begins with a byte order mark (BOM), so that Linux does not see its first line \`${line}\`: save it as UTF-8 without one`,
    };
  if (shebang.isCrlf)
    return {
      refused: `has the line ends of Windows (CRLF), so that Linux would look for an interpreter \`${name}\\r\`: convert it, for example with \`sed -i 's/\\r$//'\``,
    };
  if (shebang.isTooLong)
    return {
      refused: `has a first line of more than ${LINE_BYTES_MAX} bytes, which Linux does not read as an interpreter`,
    };
  if (shebang.hasUnsplitWords) {
    const words = [program ?? "", ...options].join(" ");
    return {
      refused: `begins with \`${line}\`, and Linux passes all after env as one word, so that a program named \`${words}\` would be looked for: write \`#!${shebang.interpreter} -S ${words}\``,
    };
  }
  if (executable) return { kind: "exec", shebang };
  const { interpreter, argument } = shebang;
  return { kind: "interpreter", words: argument === null ? [interpreter] : [interpreter, argument], shebang };
}
