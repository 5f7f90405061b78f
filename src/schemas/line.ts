import { z } from "zod";

// eslint-disable-next-line no-control-regex -- control characters are exactly what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** One line of text without control characters, at most `max` UTF-16 units. */
export const line = (max: number) =>
  z
    .string()
    .min(1, "must not be empty")
    .max(max, `must be at most ${max} characters`)
    .refine((s) => !CONTROL.test(s), "must not contain control characters or line breaks")
    .refine((s) => s.isWellFormed(), "must be well-formed Unicode");
