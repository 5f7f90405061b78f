// Edits the field `sinks` of the new run form as rows, one for each object store that receives copies.

import { ChoiceCell } from "./choice-cell.tsx";
import { FieldFrame } from "./field-frame.tsx";
import { FieldInput, type OneFieldProps } from "./field-input.tsx";
import { cellText, jsonRowsOf, jsonTextOf, withCell, type JsonRow } from "./json-rows.ts";
import { TextCell } from "./text-cell.tsx";

const COPIES = ["checkpoints", "logs", "checkpoints and logs"] as const;
const ADDED: JsonRow = { kind: "objstore_a", url: "", what: ["checkpoints"] };

/** The kind of object store follows from the address. */
function withUrl(row: JsonRow, url: string): JsonRow {
  const kind = url.startsWith("gs://") ? "objstore_b" : url.startsWith("s3://") ? "objstore_a" : row["kind"];
  return { ...row, kind, url };
}

const copiesOf = (row: JsonRow): string => (Array.isArray(row["what"]) ? row["what"].join(" and ") : "");

export function SinksInput({ field, value, error, onChange }: OneFieldProps) {
  const rows = jsonRowsOf(value);
  // From a link: only the text itself can be mended.
  if (rows === null) return <FieldInput field={field} value={value} error={error} onChange={onChange} />;
  const write = (next: readonly JsonRow[]) => onChange(jsonTextOf(next));
  const change = (index: number, row: JsonRow) => write(rows.map((each, i) => (i === index ? row : each)));
  return (
    <FieldFrame field={field} error={error}>
      {rows.length > 0 && (
        <ol className="plain">
          {rows.map((row, i) => (
            // A row has no id: its position identifies it.
            // eslint-disable-next-line react/no-array-index-key
            <li key={i} className="sink-row" role="group" aria-label={`Object store ${i + 1}`}>
              <TextCell
                title="Address"
                placeholder="s3://bucket/prefix or gs://bucket/prefix"
                value={cellText(row["url"])}
                onChange={(text) => change(i, withUrl(row, text))}
              />
              <ChoiceCell
                title="Copies"
                value={copiesOf(row)}
                choices={COPIES}
                onChange={(copies) => change(i, { ...row, what: copies.split(" and ") })}
              />
              <TextCell
                title="Endpoint"
                placeholder="the provider’s"
                value={cellText(row["endpoint"])}
                onChange={(text) => change(i, withCell(row, "endpoint", text))}
              />
              <button
                type="button"
                className="button small"
                aria-label={`Remove object store ${i + 1}`}
                onClick={() => write(rows.toSpliced(i, 1))}
              >
                ×
              </button>
            </li>
          ))}
        </ol>
      )}
      <button type="button" className="button small" onClick={() => write([...rows, ADDED])}>
        Add an object store
      </button>
    </FieldFrame>
  );
}
