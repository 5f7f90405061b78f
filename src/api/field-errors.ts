// Turns zod's issues into messages: the field as a JSON path, and the values that it accepts.

import type { z } from "zod";
import { nearest } from "../domain/nearest.ts";
import { SvcError, type FieldError } from "../errors/index.ts";
import { DESCRIPTORS, providerSpeaking } from "../providers/descriptors.ts";

const ERRORS_MAX = 50;

/** The checked value. Throws `invalid_request`, which names every invalid field; `whole` names the value itself. */
export function checked<S extends z.ZodType>(schema: S, value: unknown, whole: string): z.output<S> {
  const result = schema.safeParse(value, { reportInput: true });
  if (result.success) return result.data;
  throw invalid(firstOfEach(result.error.issues.flatMap((issue) => fieldErrors(issue, whole, schema))));
}

/** The checked query. A repeated name is ambiguous and refused. */
export function checkedQuery<S extends z.ZodType>(schema: S, query: unknown): z.output<S> {
  const twice = Object.entries(query as Record<string, unknown>).filter(([, value]) => Array.isArray(value));
  if (twice.length > 0) throw invalid(twice.map(([field]) => ({ field, message: "must be given once" })));
  return checked(schema, query, "query");
}

export function invalid(errors: FieldError[]): SvcError<"invalid_request"> {
  const [first, ...more] = errors;
  const rest =
    more.length === 0 ? "" : more.length === 1 ? " (and one more field)" : ` (and ${more.length} more fields)`;
  const what = `${first?.message ?? "is wrong"}${rest}`;
  const summary = `The request is not valid: ${first?.field ?? "it"} ${what}${what.endsWith("?") ? "" : "."}`;
  return new SvcError("invalid_request", { summary }, { errors: errors.slice(0, ERRORS_MAX) });
}

/** One error per field: consequences of the first error would only confuse. */
const firstOfEach = (errors: FieldError[]): FieldError[] =>
  errors.filter((e, i) => errors.findIndex((other) => other.field === e.field) === i);

function fieldErrors(issue: z.core.$ZodIssue, whole: string, schema: z.ZodType): FieldError[] {
  if (issue.code === "unrecognized_keys") {
    const known = fieldsAt(schema, issue.path, issue.input);
    return issue.keys.map((key) => {
      const near = nearest(key, known);
      const guess = near === null ? "" : `; did you mean ${near}?`;
      return { field: jsonPath([...issue.path, key], whole), message: `is not a known field${guess}` };
    });
  }
  return [{ field: jsonPath(issue.path, whole), message: words(issue) }];
}

/** The fields of the object at the path; where its schema is one of several, those of the one that its kind names, if any. */
function fieldsAt(schema: z.ZodType, path: readonly PropertyKey[], input: unknown): string[] {
  let at: unknown = schema;
  for (const part of [...path, null]) {
    let def = defOf(at);
    while (def && (def.innerType ?? def.in)) def = defOf(def.innerType ?? def.in);
    if (part === null) return Object.keys(def?.shape ?? ofKind(def, input)?.shape ?? {});
    const { shape = {}, element } = def ?? {};
    at = typeof part === "number" ? element : Object.hasOwn(shape, part) ? shape[String(part)] : undefined;
  }
  return [];
}

/** Of schemas that one field tells apart, the one that the input's field names. */
function ofKind({ discriminator = "", options = [] }: Def = {}, input: unknown): Def | undefined {
  const kind = (input as Record<string, unknown> | null | undefined)?.[discriminator];
  return options.map(defOf).find((def) => defOf(def?.shape?.[discriminator])?.values?.includes(kind));
}

/** What the kinds of schemas have: an object, a list, a wrapper such as an optional one, a transformed one, several, a fixed value. */
interface Def {
  discriminator?: string;
  options?: unknown[];
  values?: unknown[];
  shape?: Record<string, unknown>;
  element?: unknown;
  innerType?: unknown;
  in?: unknown;
}
const defOf = (schema: unknown): Def | undefined => (schema as { def?: Def } | undefined)?.def;

/** zod's own messages begin with these; any other message was written in a schema, for people. */
const BUILT_IN = /^(Invalid|Too |Unrecognized)/;

/** Said of a number in quotes, which is text in JSON. */
function quotedNumber({ code, input, expected }: z.core.$ZodIssue & { expected?: string }): string {
  if (code !== "invalid_type" || typeof input !== "string" || (expected !== "number" && expected !== "int")) return "";
  return Number.isFinite(Number.parseFloat(input)) ? ", not text: write it without quotes" : ", not text";
}

function words(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type" && issue.input === undefined) return "is required";
  if (issue.code === "invalid_key")
    return issue.issues[0] ? `has an invalid name: the name ${words(issue.issues[0])}` : "has an invalid name";
  if (!BUILT_IN.test(issue.message)) return `${issue.message}${quotedNumber(issue)}`;
  switch (issue.code) {
    case "invalid_type":
      return `must be ${KINDS[issue.expected] ?? issue.expected}, not ${kindOf(issue.input)}`;
    case "invalid_value":
      return issue.input === undefined
        ? "is required"
        : `must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.map(String).join(", ")}${calledHere(issue)}`;
    case "too_big":
      return `must be at most ${issue.maximum}${unit(issue.origin)}`;
    case "too_small":
      return `must be at least ${issue.minimum}${unit(issue.origin)}`;
    case "invalid_union":
      return "does not match any of the allowed forms";
    default:
      return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
  }
}

/** The provider's name in svc, where the name of its service was sent. */
function calledHere({ input, values }: z.core.$ZodIssueInvalidValue): string {
  const provider = typeof input === "string" ? providerSpeaking(input) : null;
  return provider !== null && values.includes(provider)
    ? `; ${DESCRIPTORS[provider].speaks} is called ${provider} here`
    : "";
}

const KINDS: Record<string, string> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

const unit = (origin: string): string =>
  origin === "string" ? " characters long" : origin === "array" ? " items long" : origin === "object" ? " entries" : "";

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number") {
    if (Number.isNaN(value)) return "something else";
    return Number.isFinite(value) ? "a number" : "an infinite number";
  }
  return typeof value === "string" ? "text" : typeof value === "boolean" ? String(value) : "an object";
}

/** `spec.args[3]`; a name that is not plain is quoted: `spec.env["A B"]`. */
function jsonPath(path: readonly PropertyKey[], whole: string): string {
  let text = "";
  for (const part of path) {
    const name = String(part).slice(0, 100);
    if (typeof part === "number") text += `[${part}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(name)) text += text ? `.${name}` : name;
    else text += `[${JSON.stringify(name)}]`;
  }
  return text || whole;
}
