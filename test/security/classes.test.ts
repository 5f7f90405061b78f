// Checks that the table of attack classes names existing files and tests, and that every class has one.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const rowsOf = (page: string): string[] => readFileSync(join(ROOT, page), "utf8").split("\n");

it("every class of attack names existing tests", () => {
  const rows = rowsOf("docs/quality/security-classes.md").filter((line) => /^\| [0-9]+ \|/.test(line));
  expect(rows.map((row) => Number(row.split("|")[1]))).toEqual(Array.from({ length: 39 }, (_, i) => i + 1));
  const wrong = rows.flatMap((row) => {
    const [number = "", name = "", , shown = ""] = row.replaceAll(/^\| | \|$/g, "").split(" | ");
    const files = [...shown.matchAll(/`(test\/[\w./-]+)`((?:,? "[^"]+")+)/g)];
    if (files.length === 0) return [`${number} ${name}: nothing tries it`];
    return files.flatMap(([, path = "", titles = ""]) => {
      const text = existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), "utf8") : "";
      const missing = [...titles.matchAll(/"([^"]+)"/g)].filter(([, title = ""]) => !text.includes(title));
      return missing.map(([, title]) => `${number} ${name}: ${path} has no test "${title}"`);
    });
  });
  expect(wrong).toEqual([]);
});

it("every promise of SECURITY.md names existing tests", () => {
  const rows = rowsOf("SECURITY.md").filter((line) => line.startsWith("| ") && !/^\| (threat|---)/.test(line));
  expect(rows.length).toBeGreaterThan(25);
  const wrong = rows.flatMap((row) => {
    const paths = [...row.matchAll(/`((?:test|src)\/[\w./-]+)(?:\*[\w.*]*)?`/g)].map(([, path = ""]) => path);
    return [...paths.filter((path) => !existsSync(join(ROOT, path))), ...(paths.length === 0 ? [row] : [])];
  });
  // The tests of one row are those of the row before it.
  expect(wrong.filter((row) => !row.includes("the same two"))).toEqual([]);
});
