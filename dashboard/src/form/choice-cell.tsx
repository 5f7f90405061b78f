interface ChoiceCellProps {
  title: string;
  value: string;
  choices: readonly string[];
  /** Words for a value that is left out; without them one has to be chosen. */
  none?: string;
  onChange: (choice: string) => void;
}

/** One choice of a row, in a field that consists of rows. A value of a link that is none of the choices is shown, because it is sent. */
export function ChoiceCell({ title, value, choices, none, onChange }: ChoiceCellProps) {
  const all = value === "" || choices.includes(value) ? choices : [value, ...choices];
  return (
    <label>
      <span>{title}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {(none !== undefined || value === "") && <option value="">{none ?? "choose"}</option>}
        {all.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    </label>
  );
}
