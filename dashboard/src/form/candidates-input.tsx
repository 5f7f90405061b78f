// Edits the field `candidates` of the new run form as rows, one for each machine that the run may use.

import { descriptorOf, PROVIDER_NAMES } from "../../../src/providers/descriptors.ts";
import { SPOT_CHOICES } from "../../../src/schemas/names.ts";
import { withCode } from "../parts/with-code.tsx";
import type { Field } from "./schema-fields.ts";

/** Providers whose machines are rented: only these can be candidates. */
const RENTED = PROVIDER_NAMES.filter((name) => descriptorOf(name)?.capabilities.bills === true);

type Row = Record<string, unknown>;

/** The rows of the field's JSON; null for text that is not a list of machines, which stays as it is. */
export function rowsOf(text: string): Row[] | null {
  if (text.trim() === "") return [];
  try {
    const parsed: unknown = JSON.parse(text);
    const isList = Array.isArray(parsed) && parsed.every((row) => typeof row === "object" && row !== null);
    return isList ? (parsed as Row[]) : null;
  } catch {
    return null;
  }
}

/** A value that was emptied is left out, so that the run's own counts. */
export function withValue(row: Row, name: string, text: string): Row {
  const { [name]: _old, ...rest } = row;
  if (text.trim() === "") return rest;
  const isNumeric = name === "price_cap" && !Number.isNaN(Number(text));
  return { ...rest, [name]: isNumeric ? Number(text) : text };
}

const shown = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");

const textOf = (rows: readonly Row[]): string => (rows.length === 0 ? "" : JSON.stringify(rows, null, 2));

interface CandidatesInputProps {
  field: Field;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}

/** A row for each machine that the run may use, in the order in which they are tried. */
export function CandidatesInput({ field, value, error, onChange }: CandidatesInputProps) {
  const rows = rowsOf(value) ?? [];
  const write = (next: readonly Row[]) => onChange(textOf(next));
  const set = (index: number, name: string, text: string) =>
    write(rows.map((row, i) => (i === index ? withValue(row, name, text) : row)));
  const move = (index: number, by: number) => {
    const next = rows.toSpliced(index, 1);
    write(next.toSpliced(index + by, 0, rows[index] ?? {}));
  };
  const input = (index: number, row: Row, name: string, title: string, placeholder: string) => (
    <label>
      <span>{title}</span>
      <input
        type="text"
        inputMode={name === "price_cap" ? "decimal" : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        value={shown(row[name])}
        onChange={(event) => set(index, name, event.target.value)}
      />
    </label>
  );
  return (
    <fieldset
      className="field field-wide candidates"
      aria-invalid={error ? true : undefined}
      aria-describedby={error ? "field-candidates-error" : undefined}
    >
      <legend>{field.title}</legend>
      <p className="help">{withCode(field.description)}</p>
      {rows.length > 0 && (
        <ol className="plain">
          {rows.map((row, i) => (
            // A row has no id: its position in the order identifies it.
            // eslint-disable-next-line react/no-array-index-key
            <li key={i} className="candidate" aria-label={`Candidate ${i + 1}`} role="group">
              <label>
                <span>Provider</span>
                <select value={shown(row["provider"])} onChange={(event) => set(i, "provider", event.target.value)}>
                  {RENTED.map((name) => (
                    <option key={name} value={name}>
                      {name}
                    </option>
                  ))}
                </select>
              </label>
              {input(i, row, "gpus", "GPUs", "the run’s")}
              {input(i, row, "price_cap", "Price cap", "none")}
              {input(i, row, "region", "Region", "any")}
              <label>
                <span>Spot</span>
                <select value={shown(row["spot"])} onChange={(event) => set(i, "spot", event.target.value)}>
                  <option value="">the run’s</option>
                  {SPOT_CHOICES.map((choice) => (
                    <option key={choice} value={choice}>
                      {choice}
                    </option>
                  ))}
                </select>
              </label>
              <span className="candidate-actions">
                <button
                  type="button"
                  className="button small"
                  disabled={i === 0}
                  aria-label={`Try candidate ${i + 1} earlier`}
                  onClick={() => move(i, -1)}
                >
                  ↑
                </button>
                <button
                  type="button"
                  className="button small"
                  disabled={i === rows.length - 1}
                  aria-label={`Try candidate ${i + 1} later`}
                  onClick={() => move(i, 1)}
                >
                  ↓
                </button>
                <button
                  type="button"
                  className="button small"
                  aria-label={`Remove candidate ${i + 1}`}
                  onClick={() => write(rows.toSpliced(i, 1))}
                >
                  ×
                </button>
              </span>
            </li>
          ))}
        </ol>
      )}
      <button
        type="button"
        className="button small"
        onClick={() => write([...rows, { provider: rows.at(-1)?.["provider"] ?? RENTED[0] }])}
      >
        Add a machine
      </button>
      {error && (
        <p className="field-error" id="field-candidates-error">
          {error}
        </p>
      )}
    </fieldset>
  );
}
