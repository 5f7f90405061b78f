import { useRef, useState, type FormEvent, type InputHTMLAttributes } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";

/** The text of a field, trimmed; empty if the field does not exist. */
type TextOf = (name: string) => string;

/** A form that sends one call: cleared on success, left unchanged on failure. */
export function useSmallForm(send: (text: TextOf, given: FormData) => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const ref = useRef<HTMLFormElement>(null);
  const work = async (given: FormData) => {
    const text: TextOf = (name) => {
      const value = given.get(name);
      return typeof value === "string" ? value.trim() : "";
    };
    setBusy(true);
    setProblem(null);
    try {
      await send(text, given);
      ref.current?.reset();
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  const onSubmit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (!busy) void work(new FormData(event.currentTarget));
  };
  return { ref, busy, problem, onSubmit };
}

interface TextFieldProps extends Pick<
  InputHTMLAttributes<HTMLInputElement>,
  "id" | "name" | "required" | "placeholder"
> {
  label: string;
  wide?: boolean;
}

/** One line of text with its label. */
export const TextField = ({ label, wide = false, ...input }: TextFieldProps) => (
  <div className={wide ? "field field-wide" : "field"}>
    <label htmlFor={input.id}>{label}</label>
    <input {...input} type="text" autoComplete="off" spellCheck={false} />
  </div>
);
