import type { z } from "zod";

/** The JSON of a text, or undefined where it is none. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * What stands in the whole lines of a growing file of JSON, and how many bytes they are: a line without its end is still being written.
 * Lines that do not have the shape are passed over.
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
