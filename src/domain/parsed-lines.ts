import type { z } from "zod";

/** The JSON value of a text, or undefined if the text is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Parses the complete lines of a growing file of JSON, and returns their length in bytes: a line without its end is
 * still being written. Lines of another shape are skipped.
 */
export function linesOf<S extends z.ZodType>(bytes: Buffer, shape: S): { values: z.infer<S>[]; length: number } {
  const length = bytes.lastIndexOf(0x0a) + 1;
  const values: z.infer<S>[] = [];
  for (const line of bytes.toString("utf8", 0, length).split("\n")) {
    const value = shape.safeParse(jsonOf(line));
    if (value.success) values.push(value.data);
  }
  return { values, length };
}
