import { useState } from "react";

interface TextCellProps {
  title: string;
  placeholder: string;
  value: string;
  isNumber?: boolean;
  onChange: (text: string) => void;
}

/** One text of a row, in a field that consists of rows. */
export function TextCell({ title, placeholder, value, isNumber = false, onChange }: TextCellProps) {
  // The row keeps a number: `2.` on the way to `2.5` must not become `2`.
  const [typed, setTyped] = useState("");
  const isSame = isNumber && typed.trim() !== "" && value !== "" && Number(typed) === Number(value);
  return (
    <label>
      <span>{title}</span>
      <input
        type="text"
        inputMode={isNumber ? "decimal" : undefined}
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        value={isSame ? typed : value}
        onChange={(event) => {
          setTyped(event.target.value);
          onChange(event.target.value);
        }}
      />
    </label>
  );
}
