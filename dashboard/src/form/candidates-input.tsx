// Edits the field `candidates` of the new run form as rows, one for each machine that the run may use.

import { descriptorOf, PROVIDER_NAMES } from "../../../src/providers/descriptors.ts";
import { SPOT_CHOICES } from "../../../src/schemas/names.ts";
import { ChoiceCell } from "./choice-cell.tsx";
import { FieldFrame } from "./field-frame.tsx";
import { FieldInput, type OneFieldProps } from "./field-input.tsx";
import { cellText, jsonRowsOf, jsonTextOf, withCell, type JsonRow } from "./json-rows.ts";
import { isNumber } from "./schema-fields.ts";
import { TextCell } from "./text-cell.tsx";

/** Providers whose machines are rented: only these can be candidates. */
const RENTED = PROVIDER_NAMES.filter((name) => descriptorOf(name)?.capabilities.bills === true);

/** A cap that is a number is sent as one; other text goes to the server, which names the field. */
const withValue = (row: JsonRow, name: string, text: string): JsonRow =>
  withCell(row, name, name === "price_cap" && text.trim() !== "" && isNumber(text) ? Number(text) : text);

/** A row for each machine that the run may use, in the order in which they are tried. */
export function CandidatesInput({ field, value, error, onChange }: OneFieldProps) {
  const rows = jsonRowsOf(value);
  // From a link: only the text itself can be mended.
  if (rows === null) return <FieldInput field={field} value={value} error={error} onChange={onChange} />;
  const write = (next: readonly JsonRow[]) => onChange(jsonTextOf(next));
  const set = (index: number, name: string, text: string) =>
    write(rows.map((row, i) => (i === index ? withValue(row, name, text) : row)));
  const move = (index: number, by: number) => {
    const next = rows.toSpliced(index, 1);
    write(next.toSpliced(index + by, 0, rows[index] ?? {}));
  };
  const input = (index: number, row: JsonRow, name: string, title: string, placeholder: string) => (
    <TextCell
      title={title}
      placeholder={placeholder}
      isNumber={name === "price_cap"}
      value={cellText(row[name])}
      onChange={(text) => set(index, name, text)}
    />
  );
  return (
    <FieldFrame field={field} error={error}>
      {rows.length > 0 && (
        <ol className="plain">
          {rows.map((row, i) => (
            // A row has no id: its position in the order identifies it.
            // eslint-disable-next-line react/no-array-index-key
            <li key={i} className="candidate" aria-label={`Candidate ${i + 1}`} role="group">
              <ChoiceCell
                title="Provider"
                value={cellText(row["provider"])}
                choices={RENTED}
                onChange={(choice) => set(i, "provider", choice)}
              />
              {input(i, row, "gpus", "GPUs", "the run’s")}
              {input(i, row, "price_cap", "Price cap", "none")}
              {input(i, row, "region", "Region", "any")}
              <ChoiceCell
                title="Spot"
                value={cellText(row["spot"])}
                choices={SPOT_CHOICES}
                none="the run’s"
                onChange={(choice) => set(i, "spot", choice)}
              />
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
    </FieldFrame>
  );
}
