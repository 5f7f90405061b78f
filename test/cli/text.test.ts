import { expect, test } from "vitest";
import { wantsColor } from "../../src/cli/io.ts";
import type { Io } from "../../src/cli/io.ts";
import { width } from "../../src/cli/columns.ts";
import { safeField, toJson } from "../../src/domain/terminal-text.ts";
import { duration, table } from "../../src/cli/text.ts";

const io = (tty: boolean, columns = 80, color = false): Io => ({ tty, color, columns: () => columns }) as unknown as Io;
const columns = [{ title: "JOB" }, { title: "N", right: true }, { title: "LABEL", shrinks: true }];

test("a field contains no character that a terminal would obey", () => {
  const hostile = "\u001b]0;owned\u0007 a\rb\nc\td \u009b2J \u202egnp.exe \u2028 \u007f";
  const shown = safeField(hostile);
  // eslint-disable-next-line no-control-regex -- exactly these must be gone
  expect(shown).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e]/);
  expect(shown).toContain("\\x1b]0;owned\\x07");
});

test("JSON parses to the same value and holds no raw control character", () => {
  const value = { label: "\u001b[2J\u009b\u2028é😀" };
  const text = toJson(value);
  expect(JSON.parse(text)).toEqual(value);
  expect(text).not.toMatch(/[\u007f-\u009f\u2028]/);
});

test("in a pipe, a row is exactly its fields between tabs, whatever they contain", () => {
  const text = table(io(false), columns, [
    ["a", "1", "x\ty\nz"],
    ["b", "2", ""],
  ]);
  expect(text.split("\n").map((l) => l.split("\t").length)).toEqual([3, 3, 1]);
});

test("on a terminal, columns are aligned, also with wide and combining characters", () => {
  const text = table(
    io(true),
    [...columns, { title: "END" }],
    [
      ["a", "1", "日本語", "|"],
      ["bbb", "22", "e\u0301", "|"],
    ],
  );
  const [, one = "", two = ""] = text.split("\n");
  expect(width(one.slice(0, one.indexOf("|")))).toBe(width(two.slice(0, two.indexOf("|"))));
});

test("a row is never wider than the terminal while something can shrink", () => {
  const text = table(io(true, 30), columns, [
    ["abcdefgh", "1", "l".repeat(500)],
    ["a", "2", "漢".repeat(90)],
  ]);
  for (const line of text.split("\n")) expect(width(line)).toBeLessThanOrEqual(30);
});

test("columns are dropped in their order if shrinking is not enough; a pipe receives all of them", () => {
  const some = [
    { title: "JOB" },
    { title: "WHEN", leaves: 2 },
    { title: "LABEL", shrinks: true },
    { title: "FILE", shrinks: true, leaves: 1 },
  ];
  const rows = [["abcdefghijkl", "2026-01-01 12:00:00", "a long label of a run", "some_script.py"]];
  const heads = (columns: number) => table(io(true, columns), some, rows).split("\n")[0]?.split(/ {2,}/);
  expect(heads(80)).toEqual(["JOB", "WHEN", "LABEL", "FILE"]);
  expect(heads(50)).toEqual(["JOB", "WHEN", "LABEL"]);
  expect(heads(30)).toEqual(["JOB", "LABEL"]);
  for (const columns of [80, 50, 30, 22])
    for (const line of table(io(true, columns), some, rows).split("\n"))
      expect(width(line)).toBeLessThanOrEqual(columns);
  expect(table(io(false, 22), some, rows)).toBe(`${rows[0]?.join("\t")}\n`);
});

test("colour appears only on request", () => {
  const painted = [{ title: "S", paint: () => "32" }];
  expect(table(io(true, 80, false), painted, [["ok"]])).not.toContain("\u001b");
  expect(table(io(true, 80, true), painted, [["ok"]])).toContain("\u001b[32mok\u001b[0m");
});

test.each([
  [0, "0.00 s"],
  [999, "1.00 s"],
  [1_400, "1.4 s"],
  [59_900, "60 s"],
  [59_950, "1 min 0 s"],
  [200_000, "3 min 20 s"],
  [7_500_000, "2 h 05 min"],
  [273_600_000, "3 d 4 h"],
  [-5, "0.00 s"],
])("%d ms is shown as %s", (ms, told) => {
  expect(duration(ms)).toBe(told);
});

test.each([
  [{}, true, true],
  [{}, false, false],
  [{ TERM: "dumb" }, true, false],
  [{ FORCE_COLOR: "1" }, false, true],
  [{ FORCE_COLOR: "" }, false, true],
  [{ FORCE_COLOR: "0" }, true, false],
  [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true, false],
])("With %j and a terminal (%s) there are colours: %s", (env, tty, colours) =>
  expect(wantsColor(env, tty)).toBe(colours),
);
