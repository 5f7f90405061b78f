interface TextCellProps {
  title: string;
  placeholder: string;
  value: string;
  isNumber?: boolean;
  onChange: (text: string) => void;
}

/** One text of a row, in a field that consists of rows. */
export function TextCell({ title, placeholder, value, isNumber = false, onChange }: TextCellProps) {
  return (
    <label>
      <span>{title}</span>
      <input
        type="text"
        inputMode={isNumber ? "decimal" : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
    </label>
  );
}
