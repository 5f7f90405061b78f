// The newest figures of `npm run bench`, one line of a file for each group, and the table that the page of benchmarks shows.

import { writeFileSync } from "node:fs";
import { jsonLinesIn } from "./json-lines.ts";
import { figureOf, type Row } from "../../bench/lib/measure.ts";

/** The last measurement of one group. */
export interface Measured {
  group: string;
  /** The day of its end, in UTC. */
  day: string;
  /** The abbreviated commit that was measured; empty if unknown. */
  commit: string;
  /** Number and model of the processors. */
  cpu: string;
  node: string;
  /** The load average of the last minute at its start. */
  load: number;
  minutes: number;
  rows: Row[];
}

export const measuredIn = (file: string): Measured[] => jsonLinesIn(file);

/** Replaces the line of the same group, or adds one. Figures of earlier commits are in the history of the file. */
export function keepMeasured(file: string, one: Measured): void {
  const all = measuredIn(file);
  const at = all.findIndex(({ group }) => group === one.group);
  all.splice(at < 0 ? all.length : at, at < 0 ? 0 : 1, one);
  writeFileSync(file, all.map((line) => `${JSON.stringify(line)}\n`).join(""));
}

const cell = (text: string): string => text.replaceAll("|", "\\|");

function line(row: Row): string {
  const spread = row.rounds > 1 ? ` (${figureOf(row.spread[0])} to ${figureOf(row.spread[1])})` : "";
  const figure = `${figureOf(row.figure)} ${row.unit}`.trim();
  const baseline = row.baseline === null ? "" : `${figureOf(row.baseline)} ${row.unit}`.trim();
  const target = row.target === "none" ? "" : row.target;
  const missed = row.met ? "" : ": **missed**";
  return `| ${[row.what, target, `${figure}${spread}${missed}`, baseline, row.compared].map(cell).join(" | ")} |`;
}

const listed = (values: readonly string[]): string => [...new Set(values)].join(", ");

/** What was measured, on which computer, and one table for each group. */
export function benchTables(all: readonly Measured[]): string {
  if (all.length === 0) return "Nothing was measured yet.";
  const rows = all.flatMap((one) => one.rows).filter(({ target }) => /^[^(]/.test(target) && target !== "none");
  const met = rows.filter((row) => row.met).length;
  const heads = ["measured", "target", "figure", "baseline", "against it"];
  const about = `${met} of ${rows.length} targets are met, on ${listed(all.map(({ cpu }) => cpu))}, ${listed(all.map(({ node }) => `Node ${node}`))}. A figure is the median, with the lowest and the highest round in brackets.`;
  const groups = all.flatMap(({ group, commit, day, load, minutes, rows: mine }) => [
    "",
    `### ${group}`,
    "",
    `Commit ${commit}, ${day}, load ${load.toFixed(1)} at the start, ${minutes.toFixed(1)} minutes.`,
    "",
    `| ${heads.join(" | ")} |`,
    `|${" --- |".repeat(heads.length)}`,
    ...mine.map(line),
  ]);
  return ["", about, ...groups, ""].join("\n");
}
