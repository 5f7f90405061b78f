import { expect, test } from "vitest";
import { take, width } from "../../src/cli/columns.ts";

test.each([
  ["plain", 5],
  ["", 0],
  ["日本語", 6],
  ["e\u0301", 1],
  ["✅", 2],
  ["⚡", 2],
  ["⌚", 2],
  ["❤️", 2],
  ["👨‍👩‍👧‍👦", 2],
  ["🇩🇪", 2],
  ["ﬁ", 1],
  ["한글", 4],
])("a terminal shows %j in %d columns", (text, columns) => {
  expect(width(text)).toBe(columns);
});

test("cutting text keeps whole characters and never exceeds the columns", () => {
  expect(take("plain text", 5)).toBe("plain");
  expect(take("日本語", 5)).toBe("日本");
  expect(take("a👨‍👩‍👧‍👦b", 2)).toBe("a");
  expect(take("a👨‍👩‍👧‍👦b", 3)).toBe("a👨‍👩‍👧‍👦");
  expect(take("e\u0301x", 1)).toBe("e\u0301");
  expect(take("anything", 0)).toBe("");
});
