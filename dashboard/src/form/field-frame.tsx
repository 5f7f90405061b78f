import type { ReactNode } from "react";
import { withCode } from "../parts/with-code.tsx";
import type { Field } from "./schema-fields.ts";

interface FieldFrameProps {
  field: Field;
  error: string | undefined;
  children: ReactNode;
}

/** The frame of a field that consists of several inputs: its title, its help and the server's error. */
export function FieldFrame({ field, error, children }: FieldFrameProps) {
  const id = `field-${field.name}`;
  return (
    <fieldset
      className="field field-wide field-parts"
      aria-invalid={error ? true : undefined}
      aria-describedby={error ? `${id}-error` : undefined}
    >
      <legend>{field.title}</legend>
      {field.description !== "" && <p className="help">{withCode(field.description)}</p>}
      {children}
      {error && (
        <p className="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </fieldset>
  );
}
