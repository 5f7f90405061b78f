// Prints the share of sentences with a banned idiom, by folder, and each finding:  npm run words [-- FOLDER...
// [--list]]

import { fileURLToPath } from "node:url";
import { KINDS, sharesOf, TOP_FOLDERS } from "./lib/prose.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

const words = process.argv.slice(2);
const list = words.includes("--list");
const chosen = words.filter((word) => !word.startsWith("--"));

const rows: string[][] = [["folder", ...KINDS.map((kind) => `${kind}s`)]];
for (const folder of chosen.length > 0 ? chosen : TOP_FOLDERS) {
  const shares = sharesOf(ROOT, folder);
  rows.push([
    folder,
    ...shares.map(({ marked, total }) =>
      total === 0 ? "-" : `${marked} of ${total} (${((100 * marked) / total).toFixed(1)} %)`,
    ),
  ]);
  if (list)
    for (const f of shares.flatMap(({ found }) => found))
      console.log(`${f.path}:${f.line} [${f.kind}, ${f.idiom}] ${f.text}`);
}
const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0))) ?? [];
for (const row of rows)
  console.log(
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
