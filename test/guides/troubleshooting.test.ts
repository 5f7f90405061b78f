import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CATALOGUE } from "../../src/errors/index.ts";

it("the codes in troubleshooting are codes of the catalogue", () => {
  const text = readFileSync(join(import.meta.dirname, "../../docs/guide/troubleshooting.md"), "utf8");
  const tables = text.split("\n## ").filter((part) => part.includes("| code |"));
  const cells = tables.flatMap((part) => part.split("\n").map((line) => /^\|([^|]*)\|/.exec(line)?.[1] ?? ""));
  const codes = cells.flatMap((cell) => [...cell.matchAll(/`([a-z_]+)`/g)].map((match) => match[1] ?? ""));
  expect(codes.length).toBeGreaterThan(15);
  expect(codes.filter((code) => !(code in CATALOGUE))).toEqual([]);
});
