// Quoting, as real shells read it.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { commandLine, inAnyShell, quote, quoted, splitWords } from "../../src/domain/shell-words.ts";

const HOSTILE = [
  "",
  " ",
  "'",
  "''",
  "'\\''",
  '"',
  "\\",
  "\\\\'",
  "a b",
  "$(touch /tmp/svc-owned)",
  "`id`",
  "$HOME",
  "${IFS}",
  "!!",
  "a;b",
  "a&&b|c>d<e",
  "*",
  "?",
  "[a-z]",
  "{a,b}",
  "~",
  "~root",
  "#x",
  "-n",
  "--",
  "a\nb",
  "\n",
  "a\tb",
  "\r",
  "\u001b[31m",
  "\u0007",
  "ü",
  "日本語",
  "🙂",
  "\u202e",
  "=",
  "a=b",
  "%s",
  "^",
  "x".repeat(5000),
];
const SHELLS = ["/bin/sh", "/bin/bash", "/bin/dash"].filter((shell) => existsSync(shell));

/** Every word, as a shell hands it to a program. */
function read(shell: string, words: readonly string[]): string[] {
  const line = commandLine(["printf", "%s\\0", ...words]);
  const { stdout } = spawnSync(shell, ["-c", line], { encoding: "utf8", maxBuffer: 1 << 26 });
  return stdout.split("\0").slice(0, -1);
}

describe.each(SHELLS)("%s", (shell) => {
  test("reads each word unchanged", () => {
    expect(read(shell, HOSTILE)).toEqual(HOSTILE);
  });

  test("reads quoted text unchanged in every case", () => {
    const line = `printf '%s\\0' ${HOSTILE.map(quoted).join(" ")}`;
    const { stdout } = spawnSync(shell, ["-c", line], { encoding: "utf8" });
    expect(stdout.split("\0").slice(0, -1)).toEqual(HOSTILE);
  });

  test("reads any words unchanged", () => {
    const word = fc.string({ unit: "grapheme" }).map((text) => text.replaceAll("\0", ""));
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 30 }), (words) => {
        expect(read(shell, words)).toEqual(words);
      }),
      { numRuns: 40 },
    );
  });

  test("reads a script within a script", () => {
    const inner = `printf %s ${quote("it's $HOME")}`;
    expect(spawnSync(shell, ["-c", `exec sh -c ${quote(inner)}`], { encoding: "utf8" }).stdout).toBe("it's $HOME");
  });
});

// Login shells; most are not installed everywhere.
const LOGINS = ["sh", "dash", "bash", "zsh", "fish", "csh", "tcsh", "ksh"].filter(
  (shell) => spawnSync(shell, ["-c", "true"]).status === 0,
);

describe.each(LOGINS)("a login by %s", (shell) => {
  const run = (script: string, input = ""): string =>
    spawnSync(shell, ["-c", inAnyShell(script)], { encoding: "utf8", input }).stdout;

  test("runs a script of several lines, with all characters that shells interpret, and passes it its input", () => {
    const words = HOSTILE.map((word) => quoted(word)).join(" ");
    const script = `umask 077\nif true; then\n  printf '%s\\0' ${words}\nfi\ncat; exit 0`;
    expect(run(script, "it's input\n").split("\0")).toEqual([...HOSTILE, "it's input\n"]);
    expect(run("-x 2>/dev/null || echo no")).toBe("no\n");
  });

  test("reports how it ended", () => {
    expect(spawnSync(shell, ["-c", inAnyShell("trap 'exit 72' EXIT\nexit 3")]).status).toBe(72);
  });
});

test("plain words stay readable; a NUL is refused", () => {
  expect(quote("/a/b-c_d.e")).toBe("/a/b-c_d.e");
  expect(quoted("/a/b-c_d.e")).toBe("'/a/b-c_d.e'");
  expect(() => quote("a\0b")).toThrow("NUL");
  expect(() => quoted("a\0b")).toThrow("NUL");
});

describe("a line is split into words", () => {
  test("into the words that were quoted", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.constantFrom(...HOSTILE))), (words) => {
        expect(splitWords(words.map(quote).join(" "))).toEqual(words);
      }),
    );
  });

  test.each([
    "--epochs 10 --lr 0.1",
    `--name 'first try' --note "it's \\"good\\" \\\\ \\x" plain\\ blank ''`,
    "a\"b\"'c'd  e\\\nf",
    '"a\\\nb" \\\n c',
    "line\n--other\tword",
  ])("as sh splits it: %j", (line) => {
    const program = `for w in "$@"; do printf '%s\\0' "$w"; done`;
    const script = `set -f; set -- ${line.replaceAll(/(?<!\\)\n/g, " ")}\n${program}`;
    const told = spawnSync("sh", ["-c", script], { encoding: "utf8" }).stdout;
    expect(splitWords(line)).toEqual(told.split("\0").slice(0, -1));
  });

  test("except if a quote is not closed", () => {
    for (const line of ["'", 'a "b', "it's", "\\"]) expect(splitWords(line)).toBeNull();
    expect(splitWords("  \n")).toEqual([]);
  });
});
