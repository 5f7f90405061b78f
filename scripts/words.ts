// Prints how much of the prose carries a banned idiom, by folder, and each finding:  npm run words [-- FOLDER... [--list]]

import { fileURLToPath } from "node:url";
import { findings, sentences, type Kind } from "./lib/prose.ts";

const FOLDERS = ["src", "sdk", "dashboard/src", "python/svc", "runner", "scripts", "bench", "test"];
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const KINDS: readonly Kind[] = ["comment", "string", "title"];

const words = process.argv.slice(2);
const list = words.includes("--list");
const chosen = words.filter((word) => !word.startsWith("--"));

const rows: string[][] = [["folder", ...KINDS.map((kind) => `${kind}s`)]];
for (const folder of chosen.length > 0 ? chosen : FOLDERS) {
  const all = sentences(ROOT, [folder]);
  const found = findings(all);
  rows.push([
    folder,
    ...KINDS.map((kind) => {
      const total = all.filter((s) => s.kind === kind).length;
      const marked = new Set(found.filter((f) => f.kind === kind).map((f) => `${f.path}:${f.line}:${f.text}`)).size;
      return total === 0 ? "-" : `${marked} of ${total} (${((100 * marked) / total).toFixed(1)} %)`;
    }),
  ]);
  if (list) for (const f of found) console.log(`${f.path}:${f.line} [${f.kind}, ${f.idiom}] ${f.text}`);
}
const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0))) ?? [];
for (const row of rows)
  console.log(
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
