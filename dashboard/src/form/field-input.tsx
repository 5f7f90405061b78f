// One field of the new run form, with the input that its kind needs.

import { splitWords } from "../../../src/domain/shell-words.ts";
import { withCode } from "../parts/with-code.tsx";
import type { Field } from "./schema-fields.ts";

/** The properties of an input for one field of the form. */
export interface OneFieldProps {
  field: Field;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}

interface FieldInputProps extends OneFieldProps {
  /** Id of a datalist with suggestions. */
  suggestions?: string;
  placeholder?: string;
  /** Notes next to each choice, by its value. */
  notes?: Record<string, string>;
  /** Words for choices that are not shown by their value. */
  names?: Record<string, string>;
  wide?: boolean;
}

/** One field with its label, its help and the server's error. */
export function FieldInput(props: FieldInputProps) {
  const { field, value, error, onChange, suggestions, placeholder, notes, names, wide } = props;
  const id = `field-${field.name}`;
  const hasHelp = field.description !== "" || field.kind === "json";
  const described = [hasHelp ? `${id}-help` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  const common = {
    id,
    name: field.name,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": described || undefined,
    "aria-required": field.required || undefined,
    placeholder,
  };
  const help = (
    <>
      {hasHelp && (
        <p className="help" id={`${id}-help`}>
          {withCode(field.description)}
          {field.kind === "lines" && " One per line."}
          {field.kind === "words" &&
            " As in a shell: spaces separate arguments, quotes group them; nothing is expanded."}
          {field.kind === "json" && " A list in JSON."}
          {field.kind === "pairs" &&
            ` One NAME=value per line${field.names ? `; NAME is ${field.names.all.join(", ")}` : String.raw`; a value of several lines as "one\ntwo"`}.`}
        </p>
      )}
      {field.kind === "words" && <Chips words={splitWords(value) ?? []} />}
      {error && (
        <p className="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </>
  );
  if (field.kind === "switch") {
    return (
      <div className="field">
        <label className="switch" htmlFor={id}>
          <input
            {...common}
            type="checkbox"
            checked={value === "true"}
            onChange={(event) => onChange(String(event.target.checked))}
          />
          {field.title}
        </label>
        {help}
      </div>
    );
  }
  const rows = field.kind === "json" ? 3 : Math.min(12, Math.max(2, value.split("\n").length));
  return (
    <div
      className={
        wide || field.kind === "lines" || field.kind === "words" || field.kind === "pairs" || field.kind === "json"
          ? "field field-wide"
          : "field"
      }
    >
      <label htmlFor={id}>
        {field.title}
        {field.unit && <span className="unit"> {field.unit}</span>}
        {field.required && <span className="unit"> required</span>}
      </label>
      {field.kind === "choice" ? (
        <select {...common} value={value} onChange={(event) => onChange(event.target.value)}>
          {field.choices.map((choice) => (
            <option key={choice} value={choice}>
              {notes?.[choice] ? `${choice} (${notes[choice]})` : (names?.[choice] ?? choice)}
            </option>
          ))}
        </select>
      ) : field.kind === "lines" || field.kind === "words" || field.kind === "pairs" || field.kind === "json" ? (
        <textarea
          {...common}
          rows={rows}
          spellCheck={false}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <input
          {...common}
          type="text"
          inputMode={field.kind === "number" ? "decimal" : undefined}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          list={suggestions}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {help}
    </div>
  );
}

/** Shows each argument as the script receives it. */
function Chips({ words }: { words: readonly string[] }) {
  if (words.length === 0) return null;
  return (
    <ul
      className="chips"
      aria-label={`${words.length === 1 ? "One argument" : `${words.length} arguments`}, as passed to the script`}
    >
      {words.map((word, i) => (
        <li key={`${i} ${word}`}>
          <code>{word === "" ? "(empty)" : word}</code>
        </li>
      ))}
    </ul>
  );
}
