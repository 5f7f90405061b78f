// Values of the form that are lists of objects. The form keeps them as JSON text, as the spec has them.

export type JsonRow = Record<string, unknown>;

/** The rows of the text; null for text that is not a list of objects, which a person must mend. */
export function jsonRowsOf(text: string): JsonRow[] | null {
  if (text.trim() === "") return [];
  try {
    const parsed: unknown = JSON.parse(text);
    const isRow = (row: unknown): boolean => typeof row === "object" && row !== null && !Array.isArray(row);
    const isList = Array.isArray(parsed) && parsed.every(isRow);
    return isList ? (parsed as JsonRow[]) : null;
  } catch {
    return null;
  }
}

export const jsonTextOf = (rows: readonly JsonRow[]): string =>
  rows.length === 0 ? "" : JSON.stringify(rows, null, 2);

/** A value that was emptied is left out, so that the default counts. */
export function withCell(row: JsonRow, name: string, value: string | number): JsonRow {
  const { [name]: _old, ...rest } = row;
  return typeof value === "string" && value.trim() === "" ? rest : { ...rest, [name]: value };
}

export const cellText = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";
