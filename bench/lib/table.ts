// The rows as one table of plain text.

import { figureOf, type Row } from "./measure.ts";

const COLUMNS: { title: string; cell: (row: Row) => string; right?: true }[] = [
  { title: "measured", cell: (r) => r.what },
  { title: "figure", cell: (r) => `${figureOf(r.figure)} ${r.unit}`, right: true },
  { title: "spread", cell: (r) => `${figureOf(r.spread[0])} … ${figureOf(r.spread[1])}`, right: true },
  { title: "n", cell: (r) => String(r.rounds), right: true },
  { title: "baseline", cell: (r) => (r.baseline === null ? "-" : `${figureOf(r.baseline)} ${r.unit}`), right: true },
  { title: "against it", cell: (r) => r.compared || "-", right: true },
  { title: "target", cell: (r) => r.target },
  { title: "met", cell: (r) => (r.met ? "yes" : "NO") },
];

export function table(rows: readonly Row[]): string {
  const lines = [COLUMNS.map((c) => c.title), ...rows.map((row) => COLUMNS.map((c) => c.cell(row)))];
  const widths = COLUMNS.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  const drawn = lines.map((line) =>
    line
      .map((cell, i) => (COLUMNS[i]?.right ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  return [drawn[0], widths.map((w) => "-".repeat(w)).join("  "), ...drawn.slice(1)].join("\n");
}
