// Checks that the tables of the specification's sentences and of the reported cases name existing files and tests.

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

it("every change of the dashboard that users asked for has a state, and names existing tests and pictures", () => {
  const read = (path: string): string => (existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), "utf8") : "");
  const page = read("docs/quality/dashboard-25.md");
  const rows = [...page.matchAll(/^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)];
  expect(rows.map(([, n]) => Number(n))).toEqual(Array.from({ length: 25 }, (_, i) => i + 1));
  const shots = read("scripts/screenshots.ts");
  const wrong = rows.flatMap(([, n = "", state = "", tests = "", pictures = ""]) => {
    const files = [...tests.matchAll(/`(test\/dashboard\/[\w.-]+)`((?:,? "[^"]+")+)/g)];
    const titles = files.flatMap(([, path = "", titles = ""]) =>
      [...titles.matchAll(/"([^"]+)"/g)].map(([, title = ""]) =>
        read(path).includes(title) ? "" : `${path}: ${title}`,
      ),
    );
    const names = pictures.split(", ").filter((name) => name !== "every page" && !shots.includes(`name: "${name}"`));
    const isStated = /^(done|partly: .+)$/.test(state);
    return [...titles, ...names, isStated && files.length > 0 ? "" : "state"]
      .filter(Boolean)
      .map((why) => `${n}: ${why}`);
  });
  expect(wrong).toEqual([]);
  const done = rows.filter(([, , state]) => state === "done").length;
  expect(page).toContain(`${done} of 25 are done, and ${25 - done} partly.`);
});

it("every reported case names existing tests, by their titles", () => {
  const rows = readFileSync(join(ROOT, "docs/quality/reported-cases.md"), "utf8")
    .split("\n")
    .filter((line) => line.startsWith("| ") && !/^\| (\| )?(fault|---)/.test(line));
  expect(rows.length).toBeGreaterThan(35);
  const wrong = rows.flatMap((row) => {
    const files = [...row.matchAll(/`(test\/[\w./-]+)`((?:,? "[^"]+")+)/g)];
    if (files.length === 0) return [`nothing shows it: ${row.slice(0, 80)}`];
    return files.flatMap(([, path = "", titles = ""]) => {
      const text = existsSync(join(ROOT, path)) ? readFileSync(join(ROOT, path), "utf8") : "";
      const missing = [...titles.matchAll(/"([^"]+)"/g)].filter(([, title = ""]) => !text.includes(title));
      return missing.map(([, title]) => `${path} has no test "${title}"`);
    });
  });
  expect(wrong).toEqual([]);
});
