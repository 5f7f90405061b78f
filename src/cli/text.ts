// Prints tables, durations and instants on the command line.

import { shortDuration } from "../domain/long-duration.ts";
import { safeField, toJson } from "../domain/terminal-text.ts";
import { take, width } from "./columns.ts";
import type { Input } from "./command.ts";
import type { Io } from "./io.ts";

/** The only way in which commands print JSON: readable on a terminal, one line in a pipe. */
export const printJson = (io: Io, value: unknown): Promise<void> =>
  io.out(`${toJson(value, io.tty ? 2 : undefined)}\n`);

/** `--json` of a command that lists objects: `whole`, or with `--json FIELDS` an array of objects with these alone. */
export const printList = (io: Io, input: Input, whole: object, list: readonly object[]): Promise<void> =>
  printJson(io, input.fields === null ? whole : picked(list, input.fields));

/** These fields of each object, in the order in which they were named. */
export const picked = (list: readonly object[], fields: readonly string[]): Record<string, unknown>[] =>
  list.map((each) => Object.fromEntries(fields.map((field) => [field, Reflect.get(each, field) ?? null])));

/** Lines of a few fields: aligned on a terminal, separated by tabs for programs. */
export const printFields = (io: Io, lines: readonly (readonly string[])[]): Promise<void> =>
  io.out(lines.map((fields) => `${fields.map(safeField).join(io.tty ? "  " : "\t")}\n`).join(""));

export interface Column {
  title: string;
  /** Aligns to the right, for numbers. */
  right?: boolean;
  /** Shrinks first on a narrow terminal. */
  shrinks?: boolean;
  /** Omitted if the terminal is too narrow for all: 1 is omitted first. */
  leaves?: number;
  paint?: (cell: string) => string | null;
}

/**
 * A table on a terminal; when piped, rows of tab-separated fields without a heading.
 *
 * @param below one line of text for each row, or null: under the row on a terminal, and the last field of each row in a
 * pipe.
 */
export function table(io: Io, columns: Column[], rows: string[][], below: (string | null)[] = []): string {
  const cells = rows.map((row) => row.map(safeField));
  const words = below.map((text) => safeField(text ?? ""));
  if (!io.tty) return cells.map((row, i) => `${[...row, ...words.slice(i, i + 1)].join("\t")}\n`).join("");
  const shown = columns.map((_, i) => i);
  let widths = fitted(columns, cells, io.columns());
  const leaving = shown.filter((i) => columns[i]?.leaves !== undefined);
  leaving.sort((a, b) => (columns[a]?.leaves ?? 0) - (columns[b]?.leaves ?? 0));
  const pick = <T>(row: readonly T[]): T[] => shown.flatMap((i) => row.slice(i, i + 1));
  for (const i of leaving) {
    if (span(widths) <= io.columns()) break;
    shown.splice(shown.indexOf(i), 1);
    widths = fitted(pick(columns), cells.map(pick), io.columns());
  }
  const kept = pick(columns);
  const line = (row: string[], paint: boolean): string =>
    pick(row)
      .map((cell, i) => {
        const w = widths[i] ?? 0;
        const cut = width(cell) > w ? `${take(cell, w - 1)}…` : cell;
        const space = " ".repeat(Math.max(0, w - width(cut)));
        const style = paint && io.color ? kept[i]?.paint?.(cell) : null;
        const painted = style ? `\u001b[${style}m${cut}\u001b[0m` : cut;
        return kept[i]?.right ? space + painted : painted + space;
      })
      .join("  ")
      .trimEnd();
  const head = line(
    columns.map((c) => c.title),
    false,
  );
  return `${io.color ? `\u001b[1m${head}\u001b[0m` : head}\n${cells.map((row, i) => `${line(row, true)}\n${wordsBelow(io, words[i] ?? "")}`).join("")}`;
}

const span = (widths: readonly number[]): number => widths.reduce((sum, w) => sum + w + 2, -2);

/** Widths of the columns; some shrink to their minimum if there is not enough room. */
function fitted(columns: readonly Column[], rows: readonly string[][], room: number): number[] {
  const widths = columns.map((c, i) => Math.max(width(c.title), ...rows.map((row) => width(row[i] ?? ""))));
  for (let over = span(widths) - room; over > 0; over = span(widths) - room) {
    const i = columns.findIndex((c, n) => c.shrinks && (widths[n] ?? 0) > 8);
    if (i < 0) break;
    widths[i] = Math.max(8, (widths[i] ?? 0) - over);
  }
  return widths;
}

function wordsBelow(io: Io, words: string): string {
  if (words === "") return "";
  const room = Math.max(20, io.columns() - 3);
  const cut = width(words) > room ? `${take(words, room - 1)}…` : words;
  return io.color ? `   \u001b[2m${cut}\u001b[0m\n` : `   ${cut}\n`;
}

/** Colour of a status, as the parameter of an SGR sequence. */
export function statusPaint(status: string): string | null {
  if (status === "succeeded" || status === "done") return "32";
  if (status === "failed" || status === "timed_out" || status === "gave_up") return "31";
  if (status === "cancelled" || status === "interrupted" || status === "retrying") return "33";
  return status === "terminating" ? "35" : "36";
}

/** `1.4 s`, `3 min 20 s`, `2 h 05 min`, `3 d 4 h`. */
export const duration = shortDuration;

/** Local time on a terminal; stored RFC 3339 time for programs. */
export function instant(io: Io, at: string | null): string {
  if (at === null) return io.tty ? "-" : "";
  if (!io.tty) return at;
  const d = new Date(at);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
