import type { z } from "zod";
import { boundedJson } from "./bounded-json.ts";

/** A line that a machine writes is short, and so is each sample and record in it. */
const LINE = { values: 10_000, depth: 16 };

/** The JSON value of a text of svc's own (others: bounded-json.ts), or undefined if the text is not JSON. */
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
    const value = shape.safeParse(boundedJson(line, LINE));
    if (value.success) values.push(value.data);
  }
  return { values, length };
}
