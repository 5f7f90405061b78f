// Checks that the table of the specification's sentences names existing files and tests.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..");

it("every file and every test that the coverage of the specification names is there", () => {
  const rows = readFileSync(join(ROOT, "docs/quality/spec-coverage.md"), "utf8")
    .split("\n")
    .filter((line) => /^\| [0-9]/.test(line));
  expect(rows.length).toBeGreaterThan(60);
  const wrong = rows.flatMap((row) => {
    const [section = "", asked = "", home = "", shown = ""] = row.replaceAll(/^\| | \|$/g, "").split(" | ");
    const where = `${section}, ${asked}`;
    const places = [...`${home} ${shown}`.matchAll(/`([\w./-]+\/[\w./-]+)`/g)].map((m) => m[1] ?? "");
    const gone = places.filter((path) => !existsSync(join(ROOT, path))).map((path) => `${where}: no ${path}`);
    if (!shown.includes("`test/")) gone.push(`${where}: nothing shows it`);
    const titles = [...shown.matchAll(/`(test\/[^`]+)` "([^"]+)"/g)].flatMap(([, path = "", title = ""]) =>
      existsSync(join(ROOT, path)) && !readFileSync(join(ROOT, path), "utf8").includes(title)
        ? [`${where}: ${path} has no test "${title}"`]
        : [],
    );
    return [...gone, ...titles];
  });
  expect(wrong).toEqual([]);
});
