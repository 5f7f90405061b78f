// The form's fields, read from the run spec's JSON schema.

import { quote, splitWords } from "../../../src/domain/shell-words.ts";

export interface JsonSchema {
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  allOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  const?: unknown;
  type?: string;
  enum?: string[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  default?: unknown;
  title?: string;
  description?: string;
  unit?: string;
}

// `words`: a shell command line.
export type FieldKind = "text" | "number" | "choice" | "switch" | "lines" | "words" | "pairs" | "json";

export interface Field {
  name: string;
  kind: FieldKind;
  title: string;
  description: string;
  unit: string;
  required: boolean;
  choices: string[];
  /** For pairs with known names: all names, those whose values are numbers, and those whose values are lists. */
  names?: { all: string[]; numbers: string[]; lists: string[] };
  /** The initial text of the field. */
  initial: string;
}

const UNITS: Record<string, string> = {
  usd: "$",
  usd_per_hour: "$ per hour",
  gb: "GB",
  minutes: "minutes",
  seconds: "seconds",
};

export function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  const { $ref, allOf, ...own } = schema;
  const target = $ref ?? allOf?.[0]?.$ref;
  if (target === undefined) return schema;
  const name = target.split("/").at(-1) ?? "";
  return { ...resolved(root.$defs?.[name] ?? {}, root), ...own };
}

function kindOf(schema: JsonSchema): FieldKind {
  if (schema.enum) return "choice";
  if (schema.type === "boolean") return "switch";
  if (schema.type === "number" || schema.type === "integer") return "number";
  if (schema.type === "array") return schema.items?.type === "string" ? "lines" : "json";
  return schema.type === "object" ? "pairs" : "text";
}

/** A value of the spec as the text of its field. */
export function toText(kind: FieldKind, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "words" && Array.isArray(value)) return value.map((each) => quote(String(each))).join(" ");
  if (kind === "pairs")
    return Object.entries(value)
      .map(([name, each]) => `${name}=${onOneLine(String(each))}`)
      .join("\n");
  if (kind === "json") return Array.isArray(value) && value.length === 0 ? "" : JSON.stringify(value, null, 2);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A value of several lines as a JSON string: each pair has one line. So is a value that reads as such a string. */
const onOneLine = (value: string): string =>
  /[\r\n]/.test(value) || ofOneLine(value) !== value ? JSON.stringify(value) : value;

/** The opposite of `onOneLine`; other text in quotes is kept with its quotes. */
function ofOneLine(text: string): string {
  if (!/^".*\\[nr].*"\s*$/.test(text)) return text;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "string" && onOneLine(value) !== value ? value : text;
  } catch {
    return text;
  }
}

const humanised = (name: string) =>
  (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ").replace(/ minutes$/, "");

/** Fields of the run spec inside the schema of a submission. */
export const fieldsOf = (submit: JsonSchema): Field[] =>
  fieldsOfObject(resolved(submit, submit).properties?.["spec"] ?? {}, submit);

/** @param root the schema whose `$defs` it refers to */
export function fieldsOfObject(object: JsonSchema, root: JsonSchema): Field[] {
  const spec = resolved(object, root);
  return Object.entries(spec.properties ?? {}).map(([name, raw]) => {
    const schema = resolved(raw, root);
    const kind = name === "args" ? "words" : kindOf(schema);
    return {
      name,
      kind,
      title: schema.title ?? humanised(name),
      description: schema.description ?? "",
      unit: schema.unit === undefined ? "" : (UNITS[schema.unit] ?? schema.unit),
      required: spec.required?.includes(name) ?? false,
      choices: schema.enum ?? [],
      ...(kind === "pairs" && schema.properties ? { names: namesOf(schema.properties) } : {}),
      initial: toText(kind, schema.default),
    };
  });
}

function namesOf(properties: Record<string, JsonSchema>): NonNullable<Field["names"]> {
  const isNumeric = ({ type }: JsonSchema): boolean => type === "integer" || type === "number";
  const all = Object.entries(properties);
  return {
    all: all.map(([name]) => name),
    numbers: all.flatMap(([name, each]) => (isNumeric(each) ? [name] : [])),
    lists: all.flatMap(([name, { type }]) => (type === "array" ? [name] : [])),
  };
}

/** Whether it is a number, or still empty. JSON would turn an infinity into null, which means no limit. */
export const isNumber = (text: string): boolean => Number.isFinite(Number(text));

/**
 * The value of the text; `undefined` omits the field. Invalid text goes to the server unchanged, and the server names
 * the field.
 */
export function fromText(field: Field, text: string): unknown {
  switch (field.kind) {
    case "switch":
      return text === "true";
    case "number":
      return text.trim() === "" ? undefined : isNumber(text) ? Number(text) : text;
    case "lines":
      return text === "" ? undefined : text.replace(/\n$/, "").split("\n");
    case "words":
      return text.trim() === "" ? undefined : (splitWords(text) ?? text);
    case "pairs": {
      const rows = text.split("\n").filter((row) => row.trim() !== "");
      if (rows.length === 0) return undefined;
      return Object.fromEntries(
        rows.map((row) => {
          const cut = row.indexOf("=");
          if (cut < 0) return [row.trim(), ""];
          const [name, text] = [row.slice(0, cut).trim(), row.slice(cut + 1)];
          if (field.names?.lists.includes(name)) return [name, text.split(/[\s,]+/).filter((each) => each !== "")];
          return [
            name,
            field.names?.numbers.includes(name) && text.trim() && isNumber(text) ? Number(text) : ofOneLine(text),
          ];
        }),
      );
    }
    case "json":
      if (text.trim() === "") return undefined;
      try {
        return JSON.parse(text);
      } catch {
        return text;
      }
    default:
      return text.trim() === "" ? undefined : text.trim();
  }
}

/** The field of a server error: `spec.args[3]` and `args.3` both mean `args`. */
export const fieldOfError = (path: string): string =>
  path
    .replace(/^\/?spec[./]/, "")
    .replace(/^\//, "")
    .split(/[.[/]/)[0] ?? path;
