import { expect, test } from "vitest";
import { findings, fromFile, sentencesOf } from "../../scripts/lib/prose.ts";

const texts = (path: string, source: string) =>
  fromFile(path, source).map(({ kind, line, text }) => [kind, line, text]);

test("sentences end at full stops, not at abbreviations, and code counts as one word", () => {
  expect(sentencesOf("It reads `a.b. C` first. Then, e.g. Two, it writes.")).toEqual([
    "It reads `x` first.",
    "Then, e.g. Two, it writes.",
  ]);
});

test("the scanner finds comments of several lines, strings that people read, and titles of tests", () => {
  const source = [
    "// The first line of it",
    "// and the second.",
    'const pattern = /"not a string" \\/\\/ not a comment/;',
    "const shown = `A run of ${count(`two`)} nodes ended.`;",
    'const id = "not-prose";',
    "/** It documents the next function. */",
  ].join("\n");
  expect(texts("src/a.ts", source)).toEqual([
    ["comment", 1, "The first line of it and the second."],
    ["string", 4, "A run of X nodes ended."],
    ["comment", 6, "It documents the next function."],
  ]);
  expect(texts("test/a.test.ts", 'it("that is no sentence at all", () => {});')).toEqual([
    ["title", 1, "that is no sentence at all"],
  ]);
  const each = `it.each([\n${"  [1, 2],\n".repeat(40)}])("%d of a long table gives %d", () => {});`;
  expect(texts("test/a.test.ts", each)).toEqual([["title", 42, "%d of a long table gives %d"]]);
});

test("the scanner finds the texts between the tags of a page", () => {
  const page =
    "const Page = () => (\n  <p className={quiet}>\n    The run has ended.\n    Its files stay. {more}\n  </p>\n);\n";
  expect(texts("dashboard/src/page.tsx", page)).toEqual([
    ["string", 2, "The run has ended."],
    ["string", 2, "Its files stay."],
  ]);
});

test("the scanner finds comments and docstrings of Python", () => {
  expect(texts("python/a.py", '# It is a\n# comment.\ndef f():\n    """It is a docstring."""\n')).toEqual([
    ["comment", 1, "It is a comment."],
    ["comment", 4, "It is a docstring."],
  ]);
});

test.each([
  ["What is left goes with the machine.", ["clause for a subject", "what is left"]],
  ["The file is no directory.", ["is no"]],
  ["The collector downloads the rest and is no longer needed.", []],
  ["A run goes on from a checkpoint.", ["goes on"]],
])("the idioms of %j are found", (text, expected) => {
  const found = findings([{ kind: "comment", path: "a.ts", line: 1, text }]);
  expect(found.map(({ idiom }) => idiom).toSorted()).toEqual(expected.toSorted());
});
